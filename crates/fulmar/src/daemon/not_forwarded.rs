//! What of MAVLink is not forwarded: counted by rule for the status report, and said once in the log.

use std::collections::BTreeMap;

use proto::select::{NotForwarded, SETUP_SIGNING, message_definition};
use tracing::warn;

use super::Daemon;
use crate::status::NotForwardedReport;

impl Daemon {
    /// Lists what the session of a peer and the endpoints that read streams have kept back, by channel
    /// and rule.
    pub(super) fn not_forwarded(&self, place: usize) -> BTreeMap<(u8, NotForwarded), u64> {
        let mut counts = BTreeMap::new();
        let session = self.peers[place].session;
        let of_session = session.into_iter().flat_map(|id| self.endpoint.not_forwarded(id));
        let of_streams = self.locals.of(place).flat_map(|local| {
            let (broken, bytes) = local.counts.lost;
            let rules = [(NotForwarded::Broken, broken), (NotForwarded::Bytes, bytes)];
            rules.map(|(rule, count)| (local.config.channel, rule, count))
        });
        for (channel, rule, count) in of_session.chain(of_streams).filter(|(.., count)| *count > 0)
        {
            *counts.entry((channel, rule)).or_default() += count;
        }
        counts
    }

    /// Returns the same for the status report.
    pub(super) fn not_forwarded_report(&self, place: usize) -> Vec<NotForwardedReport> {
        let row =
            |((channel, rule), count)| NotForwardedReport { channel, what: what(rule), count };
        self.not_forwarded(place).into_iter().map(row).collect()
    }

    /// Says once for each channel and rule that something is kept back, and what to do about it.
    pub(super) fn log_not_forwarded(&mut self, place: usize) {
        let counts = self.not_forwarded(place);
        for &(channel, rule) in counts.keys() {
            let is_of_broken = rule == NotForwarded::Bytes
                && counts.contains_key(&(channel, NotForwarded::Broken));
            if is_of_broken || !self.journal.is_news((place, channel, rule)) {
                continue;
            }
            let (peer, what, advice) = (&self.config.peers[place].name, what(rule), advice(rule));
            warn!(peer, channel, what, advice, "not forwarded; fulmar status counts it");
        }
    }
}

/// Returns the MAVLink name of a message, or its number.
pub(crate) fn message_name(id: u32) -> String {
    message_definition(id).map_or_else(|| format!("message {id}"), |known| known.name.to_owned())
}

fn what(rule: NotForwarded) -> String {
    match rule {
        NotForwarded::Message(id) => message_name(id),
        NotForwarded::Unknown => "unknown ids".into(),
        NotForwarded::Broken => "broken frames".into(),
        NotForwarded::Bytes => "bytes of no frame".into(),
    }
}

fn advice(rule: NotForwarded) -> &'static str {
    match rule {
        NotForwarded::Message(SETUP_SIGNING) => {
            "it carries the key, so the other side does not sign now: set the key up there by another \
             way, or forward_setup_signing = true in [selector]"
        }
        NotForwarded::Message(_) | NotForwarded::Unknown => "as [selector] says",
        NotForwarded::Broken => {
            "wrong checksums: another dialect of a known id, a wrong baud rate, or noise"
        }
        NotForwarded::Bytes => "is this endpoint's application one of MAVLink?",
    }
}
