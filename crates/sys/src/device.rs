//! Numbers of devices, as the kernel's lists have them.

/// Returns which driver a device has.
pub fn major(device: u64) -> u32 {
    libc::major(device)
}

/// Returns which of a driver's devices it is.
pub fn minor(device: u64) -> u32 {
    libc::minor(device)
}
