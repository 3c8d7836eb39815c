//! The algorithms in the BPF object.

use std::fmt;
use std::str::FromStr;

/// Names one of the congestion controls of the BPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flavour {
    /// ASRAN over the kernel's NewReno.
    Asran,
    /// ASRAN over the kernel's CUBIC.
    AsranCubic,
    /// The paper's own hook over CUBIC, an ablation: the window jumps back without having been
    /// reduced.
    AsranJump,
    /// ASRAN over NewReno that tells a full queue from a bad link by the delay.
    AsranDelay,
}

impl Flavour {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Flavour; 4] =
        [Flavour::Asran, Flavour::AsranCubic, Flavour::AsranJump, Flavour::AsranDelay];

    /// Returns the name under which the kernel knows it.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Asran => "asran",
            Flavour::AsranCubic => "asran_cubic",
            Flavour::AsranJump => "asran_jump",
            Flavour::AsranDelay => "asran_delay",
        }
    }

    /// Says what it is for, in a few words.
    pub fn purpose(self) -> &'static str {
        match self {
            Flavour::Asran => "links that lose packets; over NewReno",
            Flavour::AsranCubic => "links that lose packets; over CUBIC",
            Flavour::AsranDelay => "links that lose packets, with a short queue; over NewReno",
            Flavour::AsranJump => "comparison: the paper's hook, which does not reduce the window",
        }
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Flavour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|flavour| flavour.name() == text);
        found.ok_or_else(|| {
            format!("{text}: no such flavour; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}
