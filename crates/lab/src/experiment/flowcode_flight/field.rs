//! What a flight offers each scheme: the links that it may use, when they carry something, and what
//! that comes to.
//!
//! ```text
//! relays    every transmitter, heard by every receiver
//! chosen    the pair that heard most on the flight before, its transmitter sending alone
//! single    the pair that hears most, known in hindsight, its transmitter sending alone
//! pairs     transmitter i to receiver i, among all others
//! ```

use netem::{SlotMatrix, SlotRow};
use units::Duration;

use super::{Cc, FlightArgs, Point};
use crate::scheme::Scheme;
use crate::traces::predict::{Around, Over, best, play};
use crate::traces::synth::{Flown, Pass, Receiver, Transmitter, heard, passes, render, sums};

/// The paper's flight, as a model.
const CIRCUIT: &str = include_str!("../../../flights/circuit.toml");
/// Bytes of a packet of the trace beside its payload: IP and UDP.
pub(super) const HEADERS: usize = 28;
/// What the prediction assumes beside the slots, each way: as `trace predict` does.
const DELAY: Duration = Duration::from_millis(5);

/// A flight and its radios.
pub(super) struct Field {
    pub(super) flown: Flown,
    /// Every transmitter, heard by every receiver.
    pub(super) relays: Links,
    /// The pair that heard most on another flight, that of the seed before.
    pub(super) chosen: Links,
    /// The pair that hears most, its transmitter sending alone.
    pub(super) single: Links,
    /// Transmitter i to receiver i.
    pub(super) pairs: Links,
}

/// Some links of a flight.
pub(super) struct Links {
    /// Which.
    pub(super) name: String,
    pub(super) matrix: SlotMatrix,
    /// Packets that were heard in each slot, each once.
    heard: Vec<u64>,
    pub(super) passes: Vec<Pass>,
}

/// What of something is in a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Seconds in which there was any, and the way flown in them.
    pub(super) seconds: f64,
    pub(super) way_m: f64,
    pub(super) bytes: f64,
}

impl Field {
    /// Flies as the arguments say.
    ///
    /// # Errors
    /// Mistakes of the flight file; a flight without a region.
    pub(super) fn fly(args: &FlightArgs, seed: u64) -> Result<Self, String> {
        let (text, file) = match &args.flight {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("read {}: {error}", path.display()))?;
                (text, path.display().to_string())
            }
            None => (CIRCUIT.to_owned(), "flights/circuit.toml".to_owned()),
        };
        let flown = Flown::with_laps(&text, &file, seed, args.laps)?;
        let way = args.direction.way();
        let matrix = render(&flown.flight, &flown.course, way, None, seed);
        let (single, from, to) = flown.best_alone(way);
        let before = Flown::with_laps(&text, &file, seed.wrapping_sub(1), args.laps)?;
        let (_, chosen_from, chosen_to) = before.best_alone(way);
        let chosen = flown.alone(way, &chosen_from, &chosen_to);
        let own = diagonal(&flown, &matrix);
        let pairs = SlotMatrix::new(matrix.slot(), own)?;
        let (ground, air) = (flown.flight.transmitters.len(), flown.flight.receivers.len());
        let relays = format!("{ground} × {air}");
        let links = |name: String, matrix: SlotMatrix| {
            let heard = heard(&matrix);
            let passes = passes(&flown.flight, &flown.course, &heard);
            let heard = heard.into_iter().map(u64::from).collect();
            Links { name, matrix, heard, passes }
        };
        let (relays, single) =
            (links(relays, matrix), links(format!("{from} to {to} alone"), single));
        let chosen = links(format!("{chosen_from} to {chosen_to}, chosen before"), chosen);
        let pairs = links(format!("{} pairs", pairs.rows().len()), pairs);
        if relays.passes.is_empty() {
            return Err(format!("{file}: no waypoint begins a region: region = \"A\""));
        }
        Ok(Self { flown, relays, chosen, single, pairs })
    }

    /// Returns the links that a scheme may use.
    pub(super) fn links(&self, scheme: Scheme) -> &Links {
        match scheme {
            Scheme::FULMAR | Scheme::FLOWCODE => &self.relays,
            Scheme::TCP_LRR => &self.chosen,
            Scheme::TCP_LRR_IDEAL => &self.single,
            _ => &self.pairs,
        }
    }

    /// Returns how long the flight takes, seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.flown.course.len() as f64 * self.slot_s()
    }

    /// Returns what could have been carried in a pass.
    pub(super) fn achievable(&self, links: &Links, pass: &Pass) -> Share {
        let packet = self.flown.flight.air.packet_bytes as f64;
        let share = self.share(&links.heard, pass);
        Share { bytes: share.bytes * packet, ..share }
    }

    /// Returns what was delivered in a pass; each delivery: when, in seconds of the flight, and how
    /// many bytes.
    pub(super) fn delivered(&self, delivered: &[(f64, u64)], pass: &Pass) -> Share {
        self.share(&self.slots(delivered), pass)
    }

    /// Returns how many bytes of TCP the trace alone foretells for each slot [FlowCode §VI]; none
    /// for links that nobody codes.
    pub(super) fn predicted(&self, point: &Point, cc: Cc, payload_bytes: u64) -> Option<Vec<u64>> {
        let matrix = &self.links(point.scheme).matrix;
        let over = match point.scheme {
            Scheme::FULMAR | Scheme::FLOWCODE => Over::Coded,
            Scheme::TCP_LRR | Scheme::TCP_LRR_IDEAL => Over::Pair(best(matrix)?),
            _ => return None,
        };
        let around = Around {
            congestion: cc.of_world().ok()?,
            payload_bytes,
            delay: DELAY,
            region: Duration::from_millis(point.region_ms.into()),
            queue: None,
        };
        let mut before = 0;
        let played = play(matrix, &over, &around).into_iter();
        Some(played.map(|bytes| bytes - core::mem::replace(&mut before, bytes)).collect())
    }

    /// Returns how many bytes were delivered in each slot.
    pub(super) fn slots(&self, delivered: &[(f64, u64)]) -> Vec<u64> {
        let mut slots = vec![0; self.flown.course.len()];
        for (at_s, bytes) in delivered {
            let slot = (at_s / self.slot_s()) as usize;
            if *at_s >= 0.0
                && let Some(slot) = slots.get_mut(slot)
            {
                *slot += bytes;
            }
        }
        slots
    }

    pub(super) fn slot_s(&self) -> f64 {
        self.flown.flight.air.slot_s()
    }

    /// Returns what of the slots' bytes lies in a pass.
    pub(super) fn share(&self, slots: &[u64], pass: &Pass) -> Share {
        let slot_s = self.slot_s();
        let [from, to] = [pass.from_s, pass.to_s].map(|at| (at / slot_s).round() as usize);
        let (seconds, way_m, sum) = sums(&self.flown.course[from..to], &slots[from..to], slot_s);
        Share { seconds, way_m, bytes: sum as f64 }
    }
}

impl Links {
    /// Returns how many packets were heard in each slot, each once.
    pub(super) fn heard(&self) -> &[u64] {
        &self.heard
    }
}

/// Returns the rows of transmitter i and receiver i.
fn diagonal(flown: &Flown, matrix: &SlotMatrix) -> Vec<SlotRow> {
    let (senders, receivers) = (&flown.flight.transmitters, &flown.flight.receivers);
    let is_own = |row: &&SlotRow| {
        let is_pair = |(ground, air): (&Transmitter, &Receiver)| {
            [&ground.name, &air.name].iter().all(|name| [&row.from, &row.to].contains(name))
        };
        senders.iter().zip(receivers).any(is_pair)
    };
    matrix.rows().iter().filter(is_own).cloned().collect()
}
