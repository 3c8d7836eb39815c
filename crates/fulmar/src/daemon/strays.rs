//! What finds no place at this end: what a peer sends to no endpoint of the file, packets of the
//! tunnel that are nobody's. The last of each is named for people, who have forgotten a key of one
//! of the two files.

use std::collections::BTreeSet;
use std::net::IpAddr;

use proto::{Duration, Instant};

use super::Daemon;
use super::packet;
use crate::status::TunnelReport;

/// So long after the last such message it is told: what matters comes once a second.
const TOLD: Duration = Duration::from_secs(10);
/// Time between two lines of the log about packets that are not let in.
const AGAIN: Duration = Duration::from_secs(60);

/// What a peer has sent to no endpoint.
#[derive(Debug, Default)]
pub(super) struct Unclaimed {
    /// The last of it: when, by which channel and stream.
    last: Option<(Instant, u8, Option<u16>)>,
    /// Channels that the log was told of.
    said: BTreeSet<u8>,
}

/// Packets of the tunnel that are nobody's.
#[derive(Debug, Default)]
pub(super) struct Strays {
    /// The last of a peer's that were not let in: whose, and its source.
    spoofed: Option<(usize, IpAddr)>,
    /// The destination of the last of ours that goes to nobody, and the peer whose it is.
    unrouted: Option<(IpAddr, Option<usize>)>,
    said: Option<Instant>,
}

impl Daemon {
    /// Notes that nothing here takes what a peer sends by a channel.
    pub(super) fn on_unclaimed(
        &mut self,
        now: Instant,
        place: usize,
        channel: u8,
        stream: Option<u16>,
    ) {
        let unclaimed = &mut self.peers[place].unclaimed;
        unclaimed.last = Some((now, channel, stream));
        if unclaimed.said.insert(channel)
            && let Some(what) = self.unclaimed(now, place)
        {
            tracing::warn!(peer = self.config.peers[place].name, "{what}");
        }
    }

    /// Says that what a peer sends comes to no endpoint here, where that is so of late.
    pub(super) fn unclaimed(&self, now: Instant, place: usize) -> Option<String> {
        let (at, channel, stream) = self.peers[place].unclaimed.last?;
        if now.since(at) >= TOLD {
            return None;
        }
        if channel == 0 {
            return Some(
                "the other end sends packets of a tunnel, and this file has no [tunnel]".into(),
            );
        }
        let mut here: Vec<String> = (self.locals.of(place))
            .map(|local| name_of(local.config.channel, local.config.stream()))
            .collect();
        here.sort();
        here.dedup();
        // Of a channel that is known, it is the stream that is not.
        let is_known = self.locals.of(place).any(|local| local.config.channel == channel);
        let channel = name_of(channel, stream.filter(|_| is_known));
        let peer = &self.config.peers[place].name;
        let why = match here.as_slice() {
            [] => format!("no endpoint here has {peer} as its peer"),
            all => format!(
                "those of {peer} have {} here, and one is the same at both ends",
                all.join(", ")
            ),
        };
        Some(format!(
            "what the other end sends by channel {channel} comes to no endpoint of this file: {why}"
        ))
    }
}

impl Strays {
    /// Notes a packet of a peer that was not let in, and says so to the log once in a while.
    pub(super) fn on_spoofed(
        &mut self,
        now: Instant,
        packet: &[u8],
        (place, peer): (usize, &str),
        counts: &mut TunnelReport,
    ) {
        counts.spoofed += 1;
        let Some((source, _)) = packet::addresses(packet) else { return };
        if self.spoofed == Some((place, source)) {
            return;
        }
        self.spoofed = Some((place, source));
        counts.spoofed_why =
            format!("from {peer}: {source}, which its allowed_addresses here do not have");
        if self.said.is_none_or(|at| now.since(at) >= AGAIN) {
            self.said = Some(now);
            let (interface, why) = (&counts.interface, &counts.spoofed_why);
            tracing::warn!("tunnel {interface}: packets are not let in, {why}");
        }
    }

    /// Notes a packet of this host that goes to nobody; `owner` is the peer whose its destination
    /// is.
    pub(super) fn on_unrouted(
        &mut self,
        packet: &[u8],
        owner: Option<(usize, &str)>,
        counts: &mut TunnelReport,
    ) {
        counts.unrouted += 1;
        // What this host says to everybody on a network is meant for nobody in particular.
        let Some((_, to)) = packet::addresses(packet).filter(|(_, to)| is_of_one(to)) else {
            return;
        };
        let unrouted = Some((to, owner.map(|(place, _)| place)));
        if self.unrouted == unrouted {
            return;
        }
        self.unrouted = unrouted;
        counts.unrouted_why = match owner {
            Some((_, peer)) => format!("to {to} of {peer}, which is not connected"),
            None => format!("to {to}, which no allowed_addresses here have"),
        };
    }
}

fn name_of(channel: u8, stream: Option<u16>) -> String {
    let stream = stream.map_or(String::new(), |stream| format!("/{stream}"));
    format!("{channel}{stream}")
}

fn is_of_one(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => !it.is_multicast() && !it.is_broadcast() && !it.is_link_local(),
        IpAddr::V6(it) => !it.is_multicast() && !it.is_unicast_link_local(),
    }
}
