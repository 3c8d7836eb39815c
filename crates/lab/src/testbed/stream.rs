//! The streams that a scheme carries, and the two ways that they go.

use serde::Serialize;

/// Names a stream of packets that is carried and counted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stream {
    /// Control messages of constant rate: gaps and lateness are measured on them.
    Control,
    /// Live messages of constant rate, of which the newest wins: its age is measured.
    Live,
    /// The recorded flight.
    Mavlink,
    /// Traffic that looks like a video stream.
    Video,
    /// What other programs send through the tunnel.
    Datagrams,
    /// Messages that must all arrive, in order.
    Messages,
    /// Datagrams through the tunnel that are sent back: their round trip is measured.
    Ping,
    /// What a vehicle says of itself, as MAVLink frames of constant rate.
    Telemetry,
}

impl Stream {
    /// Every stream.
    pub(crate) const ALL: [Self; 8] = [
        Self::Control,
        Self::Live,
        Self::Mavlink,
        Self::Video,
        Self::Datagrams,
        Self::Messages,
        Self::Ping,
        Self::Telemetry,
    ];

    /// Returns the stream's name in files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Live => "live",
            Self::Mavlink => "mavlink",
            Self::Video => "video",
            Self::Datagrams => "datagrams",
            Self::Messages => "messages",
            Self::Ping => "ping",
            Self::Telemetry => "telemetry",
        }
    }
}

/// Says which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    /// From the station to the drone.
    Up,
    /// From the drone to the station.
    Down,
}

impl Direction {
    /// Both directions.
    pub(crate) const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// Returns the other direction.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// Returns the direction's name in figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}
