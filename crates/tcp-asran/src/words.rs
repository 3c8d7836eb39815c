//! The object's structures, as their bytes arrive: words of 32 bits in the machine's order.

/// Returns the word at an index, if there is one.
pub(crate) fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let bytes = bytes.get(4 * index..4 * index + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}
