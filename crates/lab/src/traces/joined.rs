//! The three operators at every instant at which all of them were pinged, one after the other.
//!
//! Windows are stretches of time as it was; this is for figures of many messages, for which no
//! stretch is long enough. Where one stretch ends and the next begins, links change in an instant.
//! No order is kept: a ping that was answered before the one ahead of it did overtake it.

use std::path::Path;

use super::RecordedLink;
use super::shared::{PING_MS, Session, pinged, pings};

/// The operators as the recording calls them, and as links are called.
const OPERATORS: [(&str, &str); 3] =
    [("atnt", "att"), ("tmobile", "tmobile"), ("verizon", "verizon")];

/// Returns the operators' links, the one that lost least first.
///
/// # Errors
/// When there is no such recording, or it does not read.
pub(crate) fn operators_joined(folder: &Path) -> Result<Vec<RecordedLink>, String> {
    let sessions = pings(folder)?;
    let of = OPERATORS.map(|(operator, _)| {
        let mut of: Vec<&Session> =
            sessions.iter().filter(|session| session.operator == operator).collect();
        of.sort_by_key(|session| session.start_ms);
        of
    });
    let at = |sessions: &[&Session], ms: i64| {
        let before = sessions.partition_point(|session| session.start_ms <= ms);
        sessions.get(before.checked_sub(1)?)?.at(ms)
    };
    let mut joined: [Vec<Option<f64>>; 3] = Default::default();
    for session in &of[0] {
        for place in 0..session.rtts_ms.len() {
            let ms = session.start_ms + PING_MS * place as i64;
            let all: Option<Vec<_>> = of.iter().map(|sessions| at(sessions, ms)).collect();
            for (pings, ping) in joined.iter_mut().zip(all.into_iter().flatten()) {
                pings.push(ping);
            }
        }
    }
    let mut named: Vec<_> = OPERATORS.iter().map(|(_, name)| *name).zip(joined).collect();
    named.sort_by_key(|(_, pings)| pings.iter().filter(|ping| ping.is_none()).count());
    let link = |(name, pings): &(&str, Vec<Option<f64>>)| {
        let mut link = pinged(name, pings, pings.iter().flatten().next().copied().unwrap_or(0.0))?;
        (link.to_drone.keep_order, link.to_station.keep_order) = (false, false);
        Ok(link)
    };
    named.iter().map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::folder;

    #[test]
    fn no_instant_of_the_recording_has_three_operators_silent() {
        let folder = folder();
        if !folder.is_dir() {
            let name = "no_instant_of_the_recording_has_three_operators_silent";
            println!("SKIPPED: {name}: no recordings in {}", folder.display());
            return;
        }
        let links = operators_joined(&folder).expect("it reads");
        assert_eq!(links.iter().map(|link| &link.name[..]).collect::<Vec<_>>()[0], "att");
        let losses: Vec<Vec<f64>> = links
            .iter()
            .map(|link| link.to_drone.loss.csv.as_ref().expect("losses").series.values().to_vec())
            .collect();
        assert!(losses.iter().all(|one| one.len() > 10_600 && one.len() == losses[0].len()));
        let silent = (0..losses[0].len()).filter(|&at| losses.iter().all(|one| one[at] == 1.0));
        assert_eq!(silent.count(), 0);
    }
}
