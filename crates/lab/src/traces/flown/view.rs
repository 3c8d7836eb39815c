//! What one computer saw of its links to one peer: samples of each path, and what became of each
//! copy of control that it sent.

use std::collections::{BTreeMap, BTreeSet};

use record::flight::Flight;
use record::schema;

/// An open message this near to the end of a record may still have arrived.
const OPEN_END_S: f64 = 2.0;

/// Whose record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Drone,
    Station,
}

impl Role {
    /// Reads it from what a file says of itself.
    pub(super) fn of(info: &BTreeMap<String, String>) -> Option<Self> {
        match info.get("role").map(String::as_str) {
            Some("drone") => Some(Self::Drone),
            Some("station") => Some(Self::Station),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Drone => "drone",
            Self::Station => "station",
        }
    }
}

/// What a computer saw of one peer. Times are seconds after [`View::origin_ns`].
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) role: Role,
    pub(super) peer: String,
    /// The date of second zero, in nanoseconds since 1970 by this computer's clock.
    pub(super) origin_ns: u64,
    /// Paths by name.
    pub(super) paths: BTreeMap<String, Seen>,
    /// When the first control message was handed in or came.
    pub(super) first_control: Option<f64>,
    /// Control messages (liveness, live, control) that were handed in: when, and whether each was
    /// missed.
    pub(super) control: Vec<(f64, bool)>,
    /// When the daemon's clock showed zero, and what the peer's showed then, in seconds; none where
    /// the record does not say.
    pub(super) clocks: Option<(f64, f64)>,
}

/// What was seen of a path.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Its numbers in the session, or in several.
    pub(super) ids: BTreeSet<u8>,
    /// In order.
    pub(super) samples: Vec<(f64, schema::Path)>,
    /// In the order in which they left.
    pub(super) copies: Vec<Copy>,
}

/// A copy of a control message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Copy {
    pub(super) sent: f64,
    pub(super) fate: Fate,
}

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// It arrived at this time.
    Arrived(f64),
    /// It arrived, nobody knows when.
    Acked,
    Lost,
}

impl View {
    /// Takes what a flight says of the peer that is asked for, or of the only one.
    ///
    /// # Errors
    /// When it says nothing, or of several.
    pub(super) fn of(flight: Flight, asked: &[String]) -> Result<Self, String> {
        let role = Role::of(&flight.info).ok_or("does not say whose record it is")?;
        let Some((first_ns, last_ns)) = flight.span() else {
            return Err("the record is empty: nothing was recorded before it ended".into());
        };
        let mut peers: Vec<&str> = flight.paths.keys().map(|(peer, _)| &peer[..]).collect();
        peers.dedup();
        let chosen = |peer: &&&str| asked.iter().any(|asked| asked == **peer);
        let peer = match (&peers[..], peers.iter().find(chosen)) {
            ([], _) => return Err("no path was ever there: the record has no link".into()),
            (_, Some(peer)) => (*peer).to_owned(),
            ([peer], None) => (*peer).to_owned(),
            _ => return Err(format!("has several peers: say --peer, of {}", peers.join(", "))),
        };
        let at = |ns: u64| seconds(ns, first_ns);
        let mut view = Self {
            role,
            origin_ns: first_ns,
            paths: BTreeMap::new(),
            first_control: None,
            control: Vec::new(),
            clocks: clocks(&flight, &peer, first_ns),
            peer,
        };
        let Flight { paths, control, received, .. } = flight;
        for ((peer, name), samples) in paths {
            if peer == view.peer {
                let seen = view.paths.entry(name).or_default();
                seen.ids.extend(samples.iter().map(|(_, sample)| sample.id));
                seen.samples.extend(samples.into_iter().map(|(ns, sample)| (at(ns), sample)));
            }
        }
        let end = at(last_ns);
        for (ns, message) in control.get(&view.peer).into_iter().flatten() {
            view.take(at(*ns), message, end);
        }
        for seen in view.paths.values_mut() {
            seen.settle();
        }
        let came = received.get(&view.peer).and_then(|came| came.first());
        let came = came.map(|(ns, message)| at(*ns) - message.age_ms.clamp(0.0, 1e7) / 1e3);
        let handed = view.control.first().map(|(at, _)| *at);
        view.first_control = [came, handed].into_iter().flatten().min_by(f64::total_cmp);
        Ok(view)
    }

    /// Makes all times those of another clock.
    pub(super) fn shift(&mut self, by: f64) {
        for seen in self.paths.values_mut() {
            seen.samples.iter_mut().for_each(|(at, _)| *at += by);
            for copy in &mut seen.copies {
                copy.sent += by;
                if let Fate::Arrived(at) = &mut copy.fate {
                    *at += by;
                }
            }
        }
        self.control.iter_mut().for_each(|(at, _)| *at += by);
        self.first_control = self.first_control.map(|at| at + by);
    }

    fn take(&mut self, at: f64, message: &schema::Control, end: f64) {
        if matches!(&message.class[..], "liveness" | "live" | "control") {
            self.control.push((at, message.missed));
        }
        for copy in &message.copies {
            let sent = at + milliseconds(copy.sent_ms);
            let fate = match copy.arrived_ms {
                Some(ms) => Fate::Arrived((at + milliseconds(ms)).max(sent)),
                None if copy.acked => Fate::Acked,
                // It is on its way still, for all that is known.
                None if message.outcome == "open" && !copy.lost && end - sent < OPEN_END_S => {
                    continue;
                }
                None => Fate::Lost,
            };
            if let Some(seen) = self.paths.get_mut(&copy.path.replace('/', "_")) {
                seen.copies.push(Copy { sent, fate });
            }
        }
    }
}

impl Seen {
    /// Adds what was seen of the same path under another name.
    pub(super) fn join(&mut self, other: Self) {
        self.ids.extend(other.ids);
        self.samples.extend(other.samples);
        self.copies.extend(other.copies);
        self.settle();
    }

    /// Puts all in order; copies of one packet count once.
    fn settle(&mut self) {
        self.samples.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        self.copies.sort_by(|a, b| a.sent.total_cmp(&b.sent));
        self.copies.dedup_by(|later, first| {
            let is_same = later.sent - first.sent < 1e-6;
            if is_same && first.fate == Fate::Lost {
                first.fate = later.fate;
            }
            is_same
        });
    }
}

/// Returns what the clocks of both daemons showed at one moment of this record: when ours showed
/// zero, and the peer's then.
fn clocks(flight: &Flight, peer: &str, first_ns: u64) -> Option<(f64, f64)> {
    let sessions = flight.sessions.get(peer)?;
    let known = sessions.iter().filter_map(|(ns, session)| {
        let offset_ms = session.clock_offset_ms?;
        let error_ms = session.clock_error_ms?;
        let zero = seconds(*ns, first_ns) - session.clock_ms / 1e3;
        (session.clock_ms > 0.0).then_some((error_ms, zero, offset_ms / 1e3))
    });
    let best = known.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((best.1, best.2))
}

/// Returns a date as seconds after another.
fn seconds(ns: u64, from_ns: u64) -> f64 {
    if ns >= from_ns { (ns - from_ns) as f64 / 1e9 } else { -((from_ns - ns) as f64) / 1e9 }
}

/// Returns a time that a record gives in milliseconds, kept within what a flight can be.
fn milliseconds(ms: f64) -> f64 {
    ms.clamp(0.0, 1e8) / 1e3
}
