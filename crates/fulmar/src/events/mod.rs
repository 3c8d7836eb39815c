//! What happened in a daemon, one line each: the daemon keeps the newest in a ring and serves them
//! at a socket beside that of `fulmar status`; `fulmar events`, `fulmar web` and `fulmar top`
//! follow them.

mod client;
mod command;
mod server;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::status::Kind::{Gauge, State, Text};
use crate::status::{Field, Section, section};

pub(crate) use client::Follower;
pub(crate) use command::{EventsArguments, run};
pub(crate) use server::EventServer;

section! {
    /// An event, as `fulmar events --json` prints it: one JSON object on each line.
    EventReport;

    /// Its number: one more than that of the event before it, from 1 on at the daemon's start.
    seq: u64, Text;
    /// Names the run of the daemon: another one counts from 1 again.
    run: String, Text;
    /// When it happened, by this host's clock: UTC, as in RFC 3339.
    time: String, Text;
    /// The same by the daemon's own clock, which nobody sets: time since it started.
    uptime_s: f64, Gauge("s");
    /// `info` or `warning`.
    level: String, State;
    /// What happened: one of the words below.
    event: String, State;
    /// The peer that it happened to; empty where it is the daemon itself.
    peer: String, Text;
    /// The path that it happened to; empty where it is the session.
    path: String, Text;
    /// What the state was before, of `path-changed`, `endpoint-changed` and `far-endpoint-changed`.
    from: String, State;
    /// What the state is now, of those and of `reliability`.
    to: String, State;
    /// The same in words.
    text: String, Text;
}

/// Every word of the field `event`, and what it says.
pub(crate) const EVENTS: &[(&str, &str)] = &[
    ("started", "the daemon started"),
    ("connected", "keys are agreed with the peer: the session carries traffic"),
    ("disconnected", "the session is over; the text says why"),
    ("contested", "another daemon came with the peer's key and was turned away"),
    ("path-added", "a path came to be known"),
    ("path-changed", "a path changed its state, from `from` to `to`"),
    ("path-moved", "a path's remote address changed and proved itself"),
    ("path-told", "the peer says that its end of a path has another address, which is tried"),
    (
        "endpoint-changed",
        "an endpoint of this end is no longer as it was, `from` and `to`: its autopilot is silent, or heard again",
    ),
    ("far-endpoint-changed", "the peer says the same of an endpoint of its own"),
    ("pilot-told", "what the pilot is told of the peer, in the same words"),
    ("backup-called", "a backup carries traffic; the text says what for"),
    ("backup-rests", "a backup is let go"),
    ("reliability", "whether a reliability target is kept has changed, to `to`"),
    ("undelivered", "control messages ended undelivered, or perhaps so, within the last second"),
    ("clock-stepped", "the peer's clock stepped"),
    ("lost", "events before this one are not kept any more, or never were; the text says how many"),
];

/// Returns the place of the socket of events, beside that of `fulmar status`.
pub(crate) fn socket_beside(status: &Path) -> PathBuf {
    let mut name = OsString::from(status);
    name.push(".events");
    name.into()
}

/// Shows a time of this host's clock as RFC 3339 has it, in UTC, to a millisecond.
pub(crate) fn timestamp(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Returns year, month and day of a day, counted from 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years that begin in March have their leap day at the end; eras of 400 years are all alike.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let shown = |seconds, millis| {
            timestamp(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis))
        };
        assert_eq!(shown(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_399, 7), "2000-02-28T23:59:59.007Z");
        assert_eq!(shown(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(shown(951_868_800, 0), "2000-03-01T00:00:00.000Z");
        assert_eq!(shown(1_798_761_599, 999), "2026-12-31T23:59:59.999Z");
        assert_eq!(shown(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
