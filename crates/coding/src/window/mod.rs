//! Sliding-window code: an endless stream of source symbols, protected by repair symbols over the
//! part of it that is not acknowledged yet.
//!
//! The sender pushes source symbols and trims the window from below as acknowledgements come, so
//! that the window is elastic: it grows with the round trip, and never beyond the capacity. A
//! repair symbol is named by an id and the range of source ids that it combines; its coefficients
//! follow from these and the key of the session.
//!
//! ```
//! use fulmar_coding::{CoefficientKey, Outcome, window};
//!
//! let key = CoefficientKey::new(42);
//! let mut sender = window::Encoder::new(8, 64, key)?;
//! let mut receiver = window::Decoder::new(8, 64, key)?;
//! for word in ["one", "two", "three", "four"] {
//!     let id = sender.push(word.as_bytes())?;
//!     if word != "two" && word != "three" {
//!         receiver.push_source(id, word.as_bytes()); // the other two are lost
//!     }
//! }
//! assert_eq!(receiver.missing(0..4).collect::<Vec<_>>(), [1, 2]);
//! for repair in 0..2 {
//!     let mut payload = Vec::new();
//!     sender.repair(repair, 0..4, &mut payload)?;
//!     assert_eq!(receiver.push_repair(repair, 0..4, &payload), Outcome::Innovative);
//! }
//! assert_eq!(receiver.get(1), Some(&b"two\0\0\0\0\0"[..]));
//! assert_eq!(receiver.next_in_order(), 4);
//! sender.trim(receiver.next_in_order());
//! # Ok::<(), fulmar_coding::Error>(())
//! ```

mod decoder;
mod encoder;

pub use decoder::{Decoder, Missing};
pub use encoder::Encoder;

/// Largest capacity of a window, symbols: a decoder's memory and its work per symbol grow with it,
/// and 4,096 symbols are 40 Mbit/s of full datagrams over a round trip of a second.
pub const MAX_CAPACITY: usize = 4_096;

/// Symbols that a coder has room for at first: a short message.
const FIRST_CAPACITY: usize = 8;

/// Most repair symbols that a decoder keeps unsolved: bounds the work per symbol. Of a greater loss
/// at once the rest is repaired by source symbols sent again.
pub const MAX_REPAIRS: usize = 256;

/// Splits a range of ids into the one or two ranges of a ring that it occupies. The ring's size is
/// a power of two, and at least as long as the range.
fn ring(ids: &core::ops::Range<u64>, size: usize) -> [core::ops::Range<usize>; 2] {
    let start = ids.start as usize & (size - 1);
    let end = start + (ids.end - ids.start) as usize;
    [start..end.min(size), 0..end.saturating_sub(size)]
}
