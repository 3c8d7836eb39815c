//! What others are measured against, and exists in the world only.

use super::About;

/// A yardstick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yardstick {
    IdealArq,
    Bound,
    BlockRlnc,
}

impl Yardstick {
    /// Returns how the scheme is named and explained.
    pub(crate) const fn about(self) -> About {
        match self {
            Self::IdealArq => About {
                name: "ideal_arq",
                meaning: "every loss known after one round trip",
                help: "Retransmission as good as it can be: every loss known after one round trip",
            },
            Self::Bound => About {
                name: "bound",
                meaning: "each packet that arrives brings everything so far",
                help: "What no code can beat: each packet that arrives brings everything handed in so far",
            },
            Self::BlockRlnc => About {
                name: "block_rlnc",
                meaning: "messages in blocks of 10 ms, each a random linear code",
                help: "Messages by block codes: what comes in within 10 ms is a block",
            },
        }
    }
}
