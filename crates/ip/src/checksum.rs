//! The checksum of IP, UDP, TCP and ICMP [RFC 1071].

/// Returns the checksum of `bytes` and of what `partial` sums up; zero of what has a right one.
pub fn checksum(bytes: &[u8], partial: u32) -> u16 {
    !folded(partial + sum(bytes))
}

/// Sums up the words of `bytes`, at most 65,535 of them; an odd byte at the end is a high one.
pub fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high, ..] => u32::from(*high) << 8,
        [] => 0,
    };
    bytes.chunks(2).map(word).sum()
}

/// Changes a checksum for a word that changes [RFC 1624 eq. 3].
pub fn adjusted(checksum: u16, old: u16, new: u16) -> u16 {
    !folded(u32::from(!checksum) + u32::from(!old) + u32::from(new))
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_the_rfc_is_reached_and_a_changed_word_keeps_it_right() {
        // RFC 1071 §3
        let mut bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        let before = checksum(&bytes, 0);
        assert_eq!(before, !0xddf2);
        bytes[2..4].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(adjusted(before, 0xf203, 0x1234), checksum(&bytes, 0));
    }
}
