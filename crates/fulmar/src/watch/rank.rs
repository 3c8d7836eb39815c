//! What is wrong first: how much a peer needs somebody's attention.

use std::collections::BTreeMap;

use super::Seen;
use crate::status::{PeerReport, ReliabilityReport};

/// A session that ended is news for as long as the history of its paths.
const NEWS_S: f64 = 600.0;

/// How much a peer needs attention; the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Nothing gets through, or nothing comes from its autopilot.
    Lost,
    /// It is reached, and something is wrong with it as a whole.
    Warning,
    /// Something is wrong with one of its paths.
    Notice,
    /// Nothing is wrong.
    Well,
    /// It is not there, and was not of late.
    Away,
}

impl Rank {
    /// Every rank, in order, with its word.
    pub(crate) const ALL: [(Self, &'static str); 5] = [
        (Self::Lost, "lost"),
        (Self::Warning, "warning"),
        (Self::Notice, "notice"),
        (Self::Well, "well"),
        (Self::Away, "away"),
    ];

    /// Returns its word.
    pub(crate) fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A peer of a daemon that answers.
pub(crate) struct Row<'a> {
    /// How much it needs attention.
    pub(crate) rank: Rank,
    /// The daemon's name.
    pub(crate) daemon: &'a str,
    /// What the daemon says of it.
    pub(crate) peer: &'a PeerReport,
    /// Everything that is known of the daemon.
    pub(crate) seen: &'a Seen,
}

impl Row<'_> {
    /// Returns a name that no other peer has.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.daemon, self.peer.name)
    }

    /// Says in words why it has its rank; empty where nothing is wrong.
    pub(crate) fn reason(&self) -> String {
        if !self.peer.trouble.is_empty() {
            return self.peer.trouble.clone();
        }
        if let Some(kept) = self.peer.reliability.iter().find(|kept| is_missed(kept)) {
            return format!("the target of {} is not reachable: {}", kept.name, kept.limit);
        }
        let path = self.peer.paths.iter().find(|path| !path.trouble.is_empty());
        path.map_or_else(String::new, |path| format!("{}: {}", path.name, path.trouble))
    }
}

/// Returns the peers of all daemons, those that need attention first.
pub(crate) fn rows(daemons: &BTreeMap<String, Seen>) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for (daemon, seen) in daemons {
        let Some(report) = &seen.report else { continue };
        for peer in &report.peers {
            rows.push(Row { rank: rank(peer, &report.role), daemon, peer, seen });
        }
    }
    rows.sort_by_key(|row| (row.rank, row.daemon, row.peer.name.as_str()));
    rows
}

/// Ranks a peer; `role` is the daemon's. A drone has one station, which is never merely away.
fn rank(peer: &PeerReport, role: &str) -> Rank {
    let works = peer.paths.iter().any(|path| path.state == "active");
    if !peer.connected {
        let is_news = peer.ended_s.is_some_and(|ended| ended < NEWS_S);
        return if role == "drone" || is_news { Rank::Lost } else { Rank::Away };
    }
    match (works, peer.trouble.is_empty() && !peer.reliability.iter().any(is_missed)) {
        (false, _) => Rank::Lost,
        _ if peer.autopilot_silent => Rank::Lost,
        (true, false) => Rank::Warning,
        (true, true) if peer.paths.iter().any(|path| !path.trouble.is_empty()) => Rank::Notice,
        (true, true) => Rank::Well,
    }
}

fn is_missed(kept: &ReliabilityReport) -> bool {
    kept.state == "not reachable"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::PathReport;

    #[test]
    fn what_is_lost_comes_before_what_is_worse_than_well_and_who_never_came_comes_last() {
        let path = |state: &str, trouble: &str| PathReport {
            state: state.into(),
            trouble: trouble.into(),
            ..PathReport::default()
        };
        let flying = PeerReport { connected: true, ..PeerReport::default() };
        let with = |paths: &[PathReport]| PeerReport { paths: paths.into(), ..flying.clone() };
        assert_eq!(rank(&with(&[path("suspected", "silent")]), "station"), Rank::Lost);
        assert_eq!(rank(&with(&[path("active", "loses 9 %")]), "station"), Rank::Notice);
        assert_eq!(rank(&with(&[path("active", "")]), "station"), Rank::Well);
        let alone = PeerReport { trouble: "only one path".into(), ..with(&[path("active", "")]) };
        assert_eq!(rank(&alone, "station"), Rank::Warning);
        let mute = PeerReport { autopilot_silent: true, ..with(&[path("active", "")]) };
        assert_eq!(rank(&mute, "station"), Rank::Lost);
        let away = PeerReport::default();
        assert_eq!((rank(&away, "station"), rank(&away, "drone")), (Rank::Away, Rank::Lost));
        let gone = PeerReport { ended_s: Some(12.0), ..PeerReport::default() };
        assert_eq!(rank(&gone, "station"), Rank::Lost);
        assert!(Rank::ALL.iter().enumerate().all(|(place, (rank, _))| *rank as usize == place));
    }
}
