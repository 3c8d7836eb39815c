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

#[cfg(test)]
mod tests {
    #[test]
    fn two_seeds_differ() {
        assert_ne!(super::seed().unwrap(), super::seed().unwrap());
    }
}
