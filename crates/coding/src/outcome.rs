//! What became of a symbol from the network.

/// Says what became of a symbol that a decoder or recoder was given.
///
/// Only [`Outcome::Innovative`] changes what is known about the source; the others are counted by
/// the caller and otherwise ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It raised the rank.
    Innovative,
    /// It says nothing that was not known.
    Redundant,
    /// It speaks of symbols that were released or given up.
    Stale,
    /// It speaks of symbols beyond what the decoder has room for.
    TooFar,
    /// It would have been innovative, but the store of repair symbols is full.
    Full,
    /// It cannot be right: too long, an empty or overlong range, a wrong number of coefficients.
    Malformed,
}
