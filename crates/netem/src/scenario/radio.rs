//! A radio: one network on which each host has one interface, and each hears each other, always or
//! as a slot matrix says [FlowCode §IV].
//!
//! Each host is a transmitter with a queue of its own, as in a broadcast, and the others are its
//! receivers.

use crate::link::{LinkModel, LinkRate, SlotClock, SlotLoss};
use crate::trace::SlotMatrix;
use std::sync::Arc;
use units::Duration;

/// The most hosts of a radio: each pair of them is a way of its own.
pub const RADIO_HOSTS_MAX: usize = 64;

/// A network of several hosts that hear each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Radio {
    /// What logs, figures and interfaces call it.
    pub name: String,
    /// The places of its hosts in [`Scenario::hosts`](crate::Scenario::hosts).
    pub hosts: Vec<usize>,
    /// What each transmitter and each way from host to host is like.
    pub model: LinkModel,
    /// Who is heard by whom; without it, everybody by everybody.
    pub matrix: Option<RadioMatrix>,
}

/// A slot matrix on a radio: its slots are those of the transmitters' clocks.
#[derive(Clone, Debug, PartialEq)]
pub struct RadioMatrix {
    /// Where the file is.
    pub path: String,
    /// What it says. A pair without a row hears small packets alone.
    pub matrix: Arc<SlotMatrix>,
    /// What the hosts are called in it, in the order of the hosts.
    pub names: Vec<String>,
    /// Packets of at most this many bytes take no slot, and pass wherever the matrix has a
    /// connection.
    pub small_bytes: u64,
    /// How far from a received slot there is a connection.
    pub region: Duration,
}

impl Radio {
    /// Returns what each transmitter is like.
    pub fn sender(&self) -> LinkModel {
        let mut model = self.model.clone();
        if let Some(RadioMatrix { matrix, small_bytes, .. }) = &self.matrix {
            let (slot, small_bytes) = (matrix.slot(), *small_bytes);
            model.rate = LinkRate::Slots(SlotClock { slot, small_bytes });
        }
        model
    }

    /// Returns what happens on the way from one host to another, by their places in
    /// [`hosts`](Self::hosts). Whatever in it belongs to the transmitter is ignored.
    ///
    /// # Panics
    /// When the radio has no such hosts.
    pub fn way(&self, from: usize, to: usize) -> LinkModel {
        let mut model = self.model.clone();
        if let Some(RadioMatrix { path, matrix, names, small_bytes, region }) = &self.matrix {
            let pair = (names[from].as_str(), names[to].as_str());
            let slots = SlotLoss::of_matrix(path, matrix, Some(pair));
            let (small_bytes, region) = (*small_bytes, *region);
            model.loss.slots = Some(SlotLoss { small_bytes, region, ..slots });
        }
        model
    }
}
