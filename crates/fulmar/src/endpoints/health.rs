//! How a local endpoint is, in a word: whether it is there, whether anything comes in, and whether
//! that is MAVLink.
//!
//! ```text
//! not there → missing;  there, and takes nothing → takes nothing
//! no frame for SILENT, but bytes of no frame → noise;  nothing at all → silent
//! ```
//! Only of MAVLink is silence known to mean something: whoever speaks it has a heartbeat. Whether
//! it is trouble is up to those who know what is behind the endpoint (`daemon/endpoints.rs`).

use proto::select::{MavlinkFrame, StreamLoss};
use proto::{Duration, Instant};

use super::statustext::is_vehicle;
use super::{Counts, LocalEndpoint, Port, takes_nothing};
use crate::config::{Content, EndpointKind};

/// Heartbeats come once a second, and ground stations take a vehicle for gone after 3.5 to 5 s.
const SILENT: Duration = Duration::from_secs(4);

/// How an endpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndpointState {
    /// Nothing is wrong that it could know of.
    #[default]
    Well,
    /// The port or address is not there.
    Missing,
    /// Nothing comes in.
    Silent,
    /// What comes in is no MAVLink.
    Noise,
    /// It takes nothing.
    TakesNothing,
}

impl EndpointState {
    /// Every state with its word, at the place of its number on the wire [specs/wire.md §8].
    const ALL: [(Self, &'static str); 5] = [
        (Self::Well, "well"),
        (Self::Missing, "missing"),
        (Self::Silent, "silent"),
        (Self::Noise, "noise"),
        (Self::TakesNothing, "takes nothing"),
    ];

    /// Returns its word.
    pub(crate) fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the state of a number.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(state, _)| *state)
    }
}

/// When an endpoint was heard, and what.
pub(super) struct Health {
    began: Instant,
    heard: Option<Instant>,
    /// When bytes came that belong to no frame.
    noise: Option<Instant>,
    has_vehicle: bool,
    /// What had come in at the last look.
    taken: u64,
    lost: StreamLoss,
}

impl Health {
    pub(super) fn new(now: Instant) -> Self {
        let (heard, noise, has_vehicle) = (None, None, false);
        Self { began: now, heard, noise, has_vehicle, taken: 0, lost: StreamLoss::default() }
    }

    /// Notes what has come in since the last look.
    pub(super) fn look(&mut self, now: Instant, counts: &Counts) {
        if counts.taken != self.taken {
            (self.heard, self.taken) = (Some(now), counts.taken);
        }
        if counts.lost != self.lost {
            (self.noise, self.lost) = (Some(now), counts.lost);
        }
    }

    /// Learns whether a vehicle is behind the endpoint.
    pub(super) fn on_frame(&mut self, frame: &MavlinkFrame<'_>) {
        self.has_vehicle |= is_vehicle(frame);
    }

    fn quiet_since(&self) -> Instant {
        self.heard.unwrap_or(self.began)
    }

    fn hears(&self, now: Instant) -> EndpointState {
        let is_lately = |at: Option<Instant>| at.is_some_and(|at| now.since(at) < SILENT);
        match now.since(self.quiet_since()) < SILENT {
            true => EndpointState::Well,
            false if is_lately(self.noise) => EndpointState::Noise,
            false => EndpointState::Silent,
        }
    }
}

impl LocalEndpoint {
    /// Tells how it is; of what is not MAVLink nobody knows whether it is silent.
    pub(crate) fn state(&self, now: Instant) -> EndpointState {
        if !self.is_there() {
            return EndpointState::Missing;
        }
        if self.takes_nothing_for(now).is_some() {
            return EndpointState::TakesNothing;
        }
        match self.config.content {
            Content::Mavlink(_) => self.health.hears(now),
            Content::Declared(_) | Content::Message(_) => EndpointState::Well,
        }
    }

    /// When something came in last.
    pub(crate) fn heard(&self) -> Option<Instant> {
        self.health.heard
    }

    /// Since when nothing has come in: since it was opened, where nothing ever has.
    pub(crate) fn quiet_since(&self) -> Instant {
        self.health.quiet_since()
    }

    /// Tells whether a vehicle has been heard there.
    pub(crate) fn has_vehicle(&self) -> bool {
        self.health.has_vehicle
    }

    /// Tells whether it is a serial port.
    pub(crate) fn is_serial(&self) -> bool {
        matches!(self.config.kind, EndpointKind::Serial(..))
    }

    /// Names it in a word: a serial port as its device, others as the file does.
    pub(crate) fn place_name(&self) -> String {
        match &self.config.kind {
            EndpointKind::Serial(device, _) => {
                let name = device.file_name().unwrap_or(device.as_os_str());
                name.to_string_lossy().into_owned()
            }
            _ => self.config.name.clone(),
        }
    }

    /// Says what is wrong; nothing where nothing is.
    pub(crate) fn trouble(&self, now: Instant) -> Option<String> {
        let of_client = |time| format!("a client {}", takes_nothing(time));
        match self.port.get() {
            Some(Port::Udp(port)) => port.trouble().map(str::to_owned).or(port.refusal(now)),
            Some(Port::Tcp(port)) => port.trouble(now),
            Some(Port::Serial(port)) => port.trouble(now),
            Some(Port::Seqpacket(port)) => port.takes_nothing_for(now).map(of_client),
            None => self.port.trouble().map(str::to_owned),
        }
    }

    /// For how long it, or one of its clients, has taken nothing.
    pub(super) fn takes_nothing_for(&self, now: Instant) -> Option<Duration> {
        match self.port.get()? {
            Port::Udp(_) => None,
            Port::Tcp(port) => port.takes_nothing_for(now),
            Port::Serial(port) => port.takes_nothing_for(now),
            Port::Seqpacket(port) => port.takes_nothing_for(now),
        }
    }

    /// Tells whether its port is there.
    pub(super) fn is_there(&self) -> bool {
        match self.port.get() {
            Some(Port::Udp(port)) => port.trouble().is_none(),
            Some(Port::Serial(port)) => !port.is_lost(),
            Some(Port::Tcp(port)) => !port.is_lost(),
            port => port.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_differs_from_what_sends_noise() {
        let at = Instant::from_millis;
        let mut health = Health::new(at(1_000));
        let mut counts = Counts::default();
        assert_eq!(health.hears(at(4_999)), EndpointState::Well, "it may still begin");
        assert_eq!(health.hears(at(5_000)), EndpointState::Silent);
        counts.lost.bytes = 300;
        health.look(at(6_000), &counts);
        assert_eq!(health.hears(at(9_999)), EndpointState::Noise);
        assert_eq!(health.hears(at(10_000)), EndpointState::Silent, "that has ended, too");
        counts.taken = 1;
        counts.lost.bytes = 301;
        health.look(at(11_000), &counts);
        assert_eq!(health.hears(at(14_999)), EndpointState::Well, "frames between noise");
        assert_eq!(
            (health.hears(at(15_000)), health.heard),
            (EndpointState::Silent, Some(at(11_000)))
        );
    }

    #[test]
    fn every_state_stands_at_its_number() {
        for (number, (state, _)) in (0..).zip(EndpointState::ALL) {
            assert_eq!(state as u8, number);
            assert_eq!(EndpointState::from_number(number), Some(state));
        }
        assert_eq!(EndpointState::from_number(5), None);
    }
}
