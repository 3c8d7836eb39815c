//! What is wrong with the arguments of a coder: mistakes of its owner, not of a peer.

use core::fmt;

/// Says which argument of a coder makes no sense, and which would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The size of a symbol is zero or above [`crate::MAX_SYMBOL_BYTES`].
    SymbolBytes(usize),
    /// The number of symbols in a block or window is zero or above the bound.
    Symbols {
        /// What was asked for.
        asked: usize,
        /// The bound.
        most: usize,
    },
    /// The symbol is longer than the coder was made for.
    TooLong {
        /// Bytes handed in.
        bytes: usize,
        /// Bytes that a symbol may have.
        symbol_bytes: usize,
    },
    /// The block or window holds as many symbols as it may: wait for acknowledgements.
    Full,
    /// The range is empty, or reaches outside what the encoder holds.
    OutsideWindow,
    /// The number of coefficients is not the number of symbols.
    Coefficients {
        /// Coefficients handed in.
        given: usize,
        /// Symbols held.
        symbols: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SymbolBytes(bytes) => {
                write!(f, "symbols of {bytes} bytes: choose 1 to {}", crate::MAX_SYMBOL_BYTES)
            }
            Self::Symbols { asked, most } => write!(f, "{asked} symbols: choose 1 to {most}"),
            Self::TooLong { bytes, symbol_bytes } => {
                write!(
                    f,
                    "a symbol of {bytes} bytes in a code for symbols of {symbol_bytes}: divide it"
                )
            }
            Self::Full => write!(f, "the coder is full: wait for acknowledgements and trim it"),
            Self::OutsideWindow => {
                write!(
                    f,
                    "the range is empty or reaches outside the encoding window: choose ids that it holds"
                )
            }
            Self::Coefficients { given, symbols } => {
                write!(f, "{given} coefficients for {symbols} symbols: give one for each symbol")
            }
        }
    }
}

impl core::error::Error for Error {}

impl Error {
    /// Refuses sizes that no coder can have.
    pub(crate) fn check_sizes(
        symbol_bytes: usize,
        symbols: usize,
        most: usize,
    ) -> Result<(), Self> {
        if symbol_bytes == 0 || symbol_bytes > crate::MAX_SYMBOL_BYTES {
            return Err(Self::SymbolBytes(symbol_bytes));
        }
        if symbols == 0 || symbols > most {
            return Err(Self::Symbols { asked: symbols, most });
        }
        Ok(())
    }

    /// Refuses a symbol that is too long.
    pub(crate) fn check_symbol(bytes: usize, symbol_bytes: usize) -> Result<(), Self> {
        if bytes > symbol_bytes { Err(Self::TooLong { bytes, symbol_bytes }) } else { Ok(()) }
    }
}
