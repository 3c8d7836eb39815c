//! Random bytes of the operating system, for keys and seeds.

use rustix::rand::{GetRandomFlags, getrandom};

/// Draws 32 bytes from the kernel; waits until the kernel's generator is seeded.
///
/// # Errors
/// Those of `getrandom`, which on a running Linux do not happen.
pub fn seed() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Draws a word that nobody guesses, for names in folders that others can write in: 16 hexadecimal
/// digits.
///
/// # Errors
/// As of [`seed`].
pub fn word() -> std::io::Result<String> {
    Ok(format!("{:016x}", u64::from_ne_bytes(*seed()?.first_chunk().unwrap_or(&[0; 8]))))
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_seeds_differ() {
        assert_ne!(super::seed().unwrap(), super::seed().unwrap());
        assert_ne!(super::word().unwrap(), super::word().unwrap());
    }
}
