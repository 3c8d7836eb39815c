//! What of MAVLink is not forwarded: counted by rule for the status report, and said once in the
//! log.

use std::collections::BTreeMap;

use proto::select::{NotForwarded, SETUP_SIGNING, message_definition};
use tracing::warn;

use super::Daemon;
use crate::config::EndpointKind;
use crate::status::NotForwardedReport;

impl Daemon {
    /// Lists what the session of a peer and the endpoints that read streams have kept back, by
    /// channel and rule.
    pub(super) fn not_forwarded(&self, place: usize) -> BTreeMap<(u8, NotForwarded), u64> {
        let mut counts = BTreeMap::new();
        let session = self.peers[place].session;
        let of_session = session.into_iter().flat_map(|id| self.endpoint.not_forwarded(id));
        let of_streams = self.locals.of(place).flat_map(|local| {
            let lost = local.counts.lost;
            let rules = [
                (NotForwarded::Broken, lost.frames),
                (NotForwarded::Bytes, lost.bytes),
                (NotForwarded::CameBack, local.counts.came_back),
            ];
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
            if rule == NotForwarded::CameBack {
                self.log_came_back(place, channel);
                continue;
            }
            let mut lines = self.locals.of(place).filter(|local| {
                let is_serial = matches!(local.config.kind, EndpointKind::Serial(..));
                is_serial && local.config.channel == channel && local.counts.lost.bytes > 0
            });
            let advice = advice(rule, lines.next().is_some());
            let (peer, what) = (&self.config.peers[place].name, what(rule));
            warn!(peer, channel, what, advice, "not forwarded; fulmar status counts it");
        }
    }

    /// Says where frames were passed back, and of which source.
    fn log_came_back(&self, place: usize, channel: u8) {
        let mut locals = self.locals.of(place).filter(|local| local.config.channel == channel);
        let Some(local) = locals.find(|local| local.counts.came_back > 0) else { return };
        let (system, component) = local.counts.came_back_of;
        let (rule, source) = (NotForwarded::CameBack, format!("{system}/{component}"));
        let (peer, endpoint) = (&self.config.peers[place].name, &local.config.name);
        let (what, advice) = (what(rule), advice(rule, false));
        warn!(
            peer,
            channel, endpoint, source, what, advice, "not forwarded; fulmar status counts it"
        );
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
        NotForwarded::CameBack => "frames that came back".into(),
    }
}

/// Says what to do; `is_of_line` where a serial line has lost something.
fn advice(rule: NotForwarded, is_of_line: bool) -> &'static str {
    match rule {
        NotForwarded::Message(SETUP_SIGNING) => {
            "it carries the key, so the other side does not sign now: set the key up there by another \
             way, or forward_setup_signing = true in [selector]"
        }
        NotForwarded::Message(_) | NotForwarded::Unknown => "as [selector] says",
        NotForwarded::Broken if is_of_line => {
            "wrong checksums: another dialect of a known id, a wrong baud rate, or noise"
        }
        NotForwarded::Broken => {
            "wrong checksums, or frames whose rest did not come: another dialect of a known id, or \
             datagrams that were lost on their way to this endpoint"
        }
        NotForwarded::Bytes if is_of_line => {
            "a wrong baud rate, noise, or something on the line that is not MAVLink"
        }
        NotForwarded::CameBack => {
            "a program passes on to this endpoint what it is given at another, or the source is also at \
             the other end: two systems of one number?"
        }
        NotForwarded::Bytes => "is this endpoint's application one of MAVLink?",
    }
}
