//! Block code: up to k source symbols, repair symbols over those that have been added so far,
//! relays that combine what they have heard.
//!
//! The code is systematic and online: source symbols are added one by one and may be sent at once
//! as they are, repair symbols can be made at any moment, and the decoder yields every symbol as
//! soon as it is determined, without waiting for the rest ([LRT §III-B], [FlowCode §III-A]). The
//! coefficients of the encoder's repair symbols follow from their id and the key; a [`Recoder`]
//! sends explicit coefficient vectors.
//!
//! ```
//! use fulmar_coding::{CoefficientKey, Outcome, block};
//!
//! let key = CoefficientKey::new(42).for_block(0);
//! let mut source = block::Encoder::new(4, 16, key)?;
//! for symbol in [b"alpha", b"bravo", b"delta"] {
//!     source.push(symbol)?;
//! }
//! // A relay hears two repair symbols and one source symbol, and passes on combinations.
//! let mut relay = block::Recoder::new(4, 16, CoefficientKey::new(7))?;
//! relay.push_source(0, b"alpha");
//! for repair in 0..2 {
//!     let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
//!     source.repair(repair, &mut payload)?;
//!     source.coefficients(repair, &mut coefficients);
//!     assert_eq!(relay.push_coded(&coefficients, &payload), Outcome::Innovative);
//! }
//! let mut sink = block::Decoder::new(4, 16, key)?;
//! while sink.rank() < 3 {
//!     let (mut coefficients, mut payload) = (Vec::new(), Vec::new());
//!     relay.recode(&mut coefficients, &mut payload);
//!     sink.push_coded(&coefficients, &payload);
//! }
//! assert_eq!(&sink.get(1).unwrap()[..5], b"bravo");
//! # Ok::<(), fulmar_coding::Error>(())
//! ```

mod decoder;
mod encoder;
mod recoder;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use recoder::Recoder;

/// Largest block, symbols: beyond this a window serves better, since a block's cost per symbol and
/// the delay until it is full grow with its size.
pub const MAX_SYMBOLS: usize = 256;
