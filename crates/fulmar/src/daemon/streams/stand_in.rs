//! `carrier = "auto"`: when connections stand in for UDP, and when they go again.
//!
//! ```text
//! nothing by UDP for 3 s, and its path does not work    they are dialled
//! the path by UDP has worked for 10 s                   they end
//! ```
//! UDP is tried all the while: a path that gets no answer is challenged each second. Both are paths
//! of one session, so nothing is lost when one takes the place of the other, and nothing comes
//! twice.

use proto::{Duration, Instant, PathState};

use super::super::Daemon;

/// For so long nothing may come by UDP.
const SILENT: Duration = Duration::from_secs(3);
/// For so long UDP works before the connections end: a network that lets the first datagrams of a
/// flow through and no others has shown it by then.
const WORKS: Duration = Duration::from_secs(10);

/// What is known of the path that connections stand in for.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Watched {
    /// Since when it has not worked, or it has.
    since: Option<(bool, Instant)>,
    /// How much had come when something came last, and when that was seen.
    heard: Option<(u64, Instant)>,
}

impl Watched {
    /// Takes note of how the path is; returns whether connections are to stand in for it, where
    /// that changes.
    fn look(&mut self, now: Instant, works: bool, received: u64) -> Option<bool> {
        let (_, heard) = *self.heard.insert(
            self.heard.filter(|(before, _)| *before == received).unwrap_or((received, now)),
        );
        let (_, since) = *self
            .since
            .insert(self.since.filter(|(before, _)| *before == works).unwrap_or((works, now)));
        if works {
            return (now.since(since) >= WORKS).then_some(false);
        }
        // That nothing came counts from when it still seemed to work.
        (now.since(heard) >= SILENT).then_some(true)
    }
}

impl Daemon {
    /// Decides for each path that stands in for another one whether it is to.
    pub(super) fn choose_stand_ins(&mut self, now: Instant) {
        let Self { paths, streams, endpoint, .. } = self;
        let leader_of = |peer: usize, name: &str| {
            let is_it = |path: &&super::super::DronePath| {
                path.config.peer == peer && path.config.name == name && path.leaving.is_none()
            };
            paths.values().find(is_it)
        };
        let mut chosen = Vec::new();
        for (&slot, path) in paths.iter() {
            let Some(beside) = path.config.beside.as_ref().filter(|beside| beside.stands_in) else {
                continue;
            };
            let leader = leader_of(path.config.peer, &beside.path).and_then(|path| path.path);
            let known = leader.and_then(|leader| {
                endpoint.paths(leader.session).find(|known| known.id == leader.path)
            });
            let works = known.as_ref().is_some_and(|known| known.state == PathState::Active);
            chosen.push((slot, works, known.map_or(0, |known| known.received_bytes)));
        }
        for (slot, works, received) in chosen {
            let Some(path) = self.paths.get_mut(&slot) else { continue };
            let Some(stands_in) = path.watched.look(now, works, received) else { continue };
            let Some(dial) = streams.dials.get_mut(slot) else { continue };
            if dial.is_wanted != stands_in {
                dial.is_wanted = stands_in;
                let path = &path.config.name;
                let what = match stands_in {
                    true => "nothing comes by UDP: TCP stands in",
                    false => "UDP works again: TCP ends",
                };
                tracing::info!(%path, "{what}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_stand_in_after_3_s_of_silence_and_go_after_10_s_of_answers() {
        let at = |ms: u64| Instant::from_millis(60_000 + ms);
        let mut watched = Watched::default();
        assert_eq!(watched.look(at(0), false, 0), None);
        assert_eq!(watched.look(at(2_900), false, 0), None);
        assert_eq!(watched.look(at(3_000), false, 0), Some(true), "nothing ever came");
        assert_eq!(watched.look(at(4_000), true, 100), None);
        assert_eq!(watched.look(at(6_500), false, 200), None, "something came");
        assert_eq!(watched.look(at(10_000), true, 300), None);
        assert_eq!(watched.look(at(19_900), true, 300), None, "it began anew");
        assert_eq!(watched.look(at(20_000), true, 300), Some(false));
        assert_eq!(watched.look(at(20_100), false, 300), Some(true), "nothing has come for long");
    }
}
