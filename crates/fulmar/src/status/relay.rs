//! What the report says of relayed links.

use proto::{Refusal, Refusals, RelayReceived, RelaySent, RelayStatus, Relayed};
use serde::{Deserialize, Serialize};

use super::field::Kind::{Counter, Gauge, List, Part, State, Text};
use super::field::{Field, Section, section};
use super::layout::{Column, rows};
use super::table::{counts, milliseconds, or_nothing};

/// A radio that carries less than this part of what its relay says is named.
const MUCH_LESS: f64 = 0.5;

const MEMBERS: &[Column<RelayMemberReport>] = &[
    ("node", |member| member.name.clone()),
    ("wire", |member| or_nothing(member.wire_ms.map(milliseconds))),
    ("radio", |member| or_nothing(member.radio_ms.map(milliseconds))),
    ("what is wrong", what_is_wrong),
];

section! {
    /// A node of a relayed link that this daemon is. Counters begin with the daemon.
    RelayReport of node: RelayStatus;

    /// The link's name in our file; empty at a relay.
    name: String, Text;
    /// Side and number of the node: `ground gateway`, `air relay 3`.
    node: String, Text, node.name.to_string();
    /// The interface of its wire.
    wire: String, Text;
    /// The interface of its radio; a gateway has none.
    radio: String, Text;
    /// What is wrong, in words; empty when nothing is.
    trouble: String, Text;
    /// The nodes that were heard, ourselves left out.
    members: Vec<RelayMemberReport>, List(&RelayMemberReport::SECTION);
    /// Frames that came in.
    frames_in: u64, Counter("frames"), node.frames_in;
    /// Frames that left.
    frames_out: u64, Counter("frames"), node.frames_out;
    /// Frames that the kernel refused to send.
    send_errors: u64, Counter("frames");
    /// Frames that came in and were not taken, by reason.
    refused: RelayRefusedReport, Part(&RelayRefusedReport::SECTION), (&node.refused).into();
    /// Generations that are open, of both directions, at a gateway.
    open_generations: u64, Gauge("generations"), node.open as u64;
    /// What a gateway sends.
    sent: RelaySentReport, Part(&RelaySentReport::SECTION), (&node.sent).into();
    /// What comes to a gateway.
    received: RelayReceivedReport, Part(&RelayReceivedReport::SECTION), (&node.received).into();
    /// Datagrams of sessions that came by it and were not authentic: a relay with the group's key
    /// lies.
    not_authentic: u64, Counter("datagrams");
    /// What a relay passes on.
    relayed: RelayedReport, Part(&RelayedReport::SECTION), (&node.relayed).into();
}

section! {
    /// A node that was heard.
    RelayMemberReport;

    /// Its side and number.
    name: String, Text;
    /// Whether a frame of it came within the last second.
    alive: bool, State;
    /// Time since one came by the wire; none where none did.
    wire_ms: Option<f64>, Gauge("ms");
    /// The same by the radio.
    radio_ms: Option<f64>, Gauge("ms");
    /// Whether two nodes have its number.
    doubled: bool, State;
    /// Time since two nodes were last seen to have this number; none where that never was so.
    doubled_s: Option<f64>, Gauge("s");
    /// At a gateway of the form `ranked`, of the relays of its side: what their radio carried when
    /// it was full last, besides what is small; none before it had anything to send.
    carries_mbps: Option<f64>, Gauge("Mbit/s");
    /// What its file says of that (`rate_mbps`).
    says_mbps: Option<f64>, Gauge("Mbit/s");
}

section! {
    /// Why frames of relays were not taken.
    RelayRefusedReport of refused: Refusals;

    /// Could not be parsed, say what no node says, or are of another version of Fulmar.
    malformed: u64, Counter("frames"), refused.of(Refusal::Malformed);
    /// Are under another key: forged, damaged, or of another group.
    bad_code: u64, Counter("frames"), refused.of(Refusal::BadCode);
    /// Had come in before, or are so old that they may have.
    replayed: u64, Counter("frames"), refused.of(Refusal::Replay);
    /// Are of a start of their sender that a later one has replaced.
    earlier_boot: u64, Counter("frames"), refused.of(Refusal::EarlierBoot);
    /// Are of a start that has not answered yet: new here, or replayed.
    unproved: u64, Counter("frames"), refused.of(Refusal::Unproved);
    /// Were our own, sent back.
    reflected: u64, Counter("frames"), refused.of(Refusal::Reflected);
    /// Were made for the other hop: the wire's on the radio, or the other way.
    cross_hop: u64, Counter("frames"), refused.of(Refusal::CrossHop);
    /// Were made for the other side or direction.
    misdirected: u64, Counter("frames"), refused.of(Refusal::Misdirected);
    /// Came from relays of our side by the radio: nothing is wrong with them.
    overheard: u64, Counter("frames"), refused.of(Refusal::Overheard);
    /// Are of a gateway's earlier start, or of generations long past.
    stale: u64, Counter("frames"), refused.of(Refusal::Stale);
    /// Are of more senders than a group has.
    beyond_bound: u64, Counter("frames"), refused.of(Refusal::BeyondBound);
}

section! {
    /// What a gateway sends to its relays.
    RelaySentReport of sent: RelaySent;

    /// Datagrams that were packed; those of 200 bytes or less are not.
    datagrams: u64, Counter("datagrams"), sent.datagrams;
    /// Generations that were begun.
    generations: u64, Counter("generations"), sent.generations;
    /// Coded frames that left.
    frames: u64, Counter("frames"), sent.frames;
    /// Those of them beyond one for each packet.
    repeats: u64, Counter("frames"), sent.repeats;
    /// Datagrams that were given up.
    given_up: u64, Counter("datagrams"), sent.given_up;
}

section! {
    /// What comes to a gateway from its relays.
    RelayReceivedReport of received: RelayReceived;

    /// Coded frames.
    frames: u64, Counter("frames"), received.frames;
    /// Those of them that told something new.
    useful: u64, Counter("frames"), received.useful;
    /// Datagrams that were handed up.
    datagrams: u64, Counter("datagrams"), received.datagrams;
    /// Packets that made no sense once they were decoded: a relay with the group's key lies.
    nonsense: u64, Counter("packets"), received.nonsense;
}

section! {
    /// What a relay passes on.
    RelayedReport of relayed: Relayed;

    /// Coded frames that left by the radio.
    radio: u64, Counter("frames"), relayed.radio;
    /// Coded frames that left by the wire.
    wire: u64, Counter("frames"), relayed.wire;
    /// Those of both that it combined anew.
    recoded: u64, Counter("frames"), relayed.recoded;
    /// Coded frames that came by the radio.
    heard: u64, Counter("frames"), relayed.heard;
    /// Those of them that told it something new.
    useful: u64, Counter("frames"), relayed.useful;
    /// Small datagrams and reports that it passed on.
    small: u64, Counter("frames"), relayed.small;
    /// What found no room.
    dropped: u64, Counter("frames"), relayed.dropped;
}

impl RelayReport {
    /// Lays it out for people.
    pub(super) fn text(&self, width: usize) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!("{}: ", self.name) };
        let radio = if self.radio.is_empty() { "" } else { ", radio " };
        let Self { node, wire, frames_in, frames_out, .. } = self;
        let mut text = format!(
            "\nrelayed link {name}{node}, wire {wire}{radio}{}: {frames_in} frames in, {frames_out} out\n",
            self.radio
        );
        if !self.trouble.is_empty() {
            text += &format!("  ! {}\n", self.trouble);
        }
        for (what, counts) in [
            ("sent", self.sent_words()),
            ("received", self.received_words()),
            ("relayed", self.relayed_words()),
            ("refused", self.refused_words()),
        ] {
            if !counts.is_empty() {
                text += &format!("  {what}: {counts}\n");
            }
        }
        if !self.members.is_empty() {
            text += &rows(MEMBERS, &self.members, width);
        }
        text
    }

    fn sent_words(&self) -> String {
        counts(&[
            (self.sent.datagrams, "datagrams"),
            (self.sent.frames, "coded frames"),
            (self.sent.repeats, "repeats"),
            (self.sent.given_up, "datagrams given up"),
            (self.open_generations, "generations open"),
        ])
    }

    fn received_words(&self) -> String {
        counts(&[
            (self.received.datagrams, "datagrams"),
            (self.received.frames, "coded frames"),
            (self.received.useful, "useful"),
            (self.received.nonsense, "packets of nonsense"),
            (self.not_authentic, "datagrams not authentic"),
        ])
    }

    fn relayed_words(&self) -> String {
        counts(&[
            (self.relayed.radio, "coded frames by the radio"),
            (self.relayed.heard, "heard there"),
            (self.relayed.useful, "useful"),
            (self.relayed.wire, "passed on by the wire"),
            (self.relayed.recoded, "recoded"),
            (self.relayed.small, "small"),
            (self.relayed.dropped, "dropped"),
        ])
    }

    fn refused_words(&self) -> String {
        let refused = &self.refused;
        counts(&[
            (refused.malformed, "malformed, or of another version"),
            (refused.bad_code, "under another key"),
            (refused.replayed, "replayed"),
            (refused.earlier_boot, "of an earlier start"),
            (refused.unproved, "not proved yet"),
            (refused.reflected, "sent back"),
            (refused.cross_hop, "of the other hop"),
            (refused.misdirected, "misdirected"),
            (refused.overheard, "overheard"),
            (refused.stale, "stale"),
            (refused.beyond_bound, "beyond a bound"),
        ])
    }
}

fn what_is_wrong(member: &RelayMemberReport) -> String {
    match member {
        RelayMemberReport { doubled: true, .. } => "two nodes have this number".into(),
        RelayMemberReport { alive: false, .. } => "not heard for more than a second".into(),
        RelayMemberReport { carries_mbps: Some(carries), says_mbps: Some(says), .. }
            if *carries < MUCH_LESS * says =>
        {
            format!("its radio carries {carries:.2} Mbit/s, rate_mbps says {says}")
        }
        _ => "ok".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_radio_that_carries_less_than_half_of_what_its_relay_says_is_named() {
        let member = |carries_mbps, alive| {
            let says_mbps = Some(20.0);
            let name = "air relay 1".to_owned();
            let (wire_ms, radio_ms, doubled_s) = (Some(5.0), None, None);
            let doubled = false;
            let member = RelayMemberReport {
                name,
                alive,
                wire_ms,
                radio_ms,
                doubled,
                doubled_s,
                carries_mbps,
                says_mbps,
            };
            what_is_wrong(&member)
        };
        assert_eq!(member(Some(0.1), true), "its radio carries 0.10 Mbit/s, rate_mbps says 20");
        assert_eq!(member(Some(10.0), true), "ok");
        assert_eq!(member(None, true), "ok");
        assert_eq!(member(Some(0.1), false), "not heard for more than a second");
    }
}
