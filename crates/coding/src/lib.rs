//! Network codes over GF(2⁸): block and sliding-window codes that sender, relay and receiver share.
//!
//! Nothing here opens a socket or reads a clock, and nothing knows a session: symbols are byte
//! slices, ids are numbers, and what comes from a peer is answered with an [`Outcome`], never with
//! a panic. The words are those of [RFC 8406]: a *source symbol* is what the application hands in,
//! a *repair symbol* is a linear combination of source symbols, its *coding coefficients* are
//! elements of GF(2⁸), a symbol is *innovative* when it raises the *rank* of what the decoder
//! holds, and a code is *systematic* when source symbols travel uncoded beside the repair symbols.
//!
//! ```text
//! source symbols → window::Encoder ─┬─ as they are ──────────── push_source ─┬→ window::Decoder → source symbols
//!                                   └─ repair(id, range) ───── push_repair ──┘
//! source symbols → block::Encoder → block::Recoder (relays) → block::Decoder → source symbols
//! ```
//!
//! * [`gf256`]: the field and its kernels, chosen at run time by what the processor has;
//! * [`CoefficientKey`]: coefficients that both ends compute from the id of a repair symbol;
//! * [`block`]: k symbols, decoded as far as they can be at any moment, recoded by relays;
//! * [`window`]: an endless stream, an encoding window that moves with the acknowledgements.
//!
//! Memory is taken when a coder is made; after that no call allocates (an output `Vec` grows to the
//! size of a symbol once).

#![deny(unsafe_code)]

mod coefficients;
mod elimination;
mod error;
mod outcome;
mod slab;

pub mod block;
pub mod gf256;
pub mod window;

pub use coefficients::CoefficientKey;
pub use error::Error;
pub use outcome::Outcome;

/// Largest symbol, bytes: what a UDP datagram can hold, rounded up.
pub const MAX_SYMBOL_BYTES: usize = 65_536;
