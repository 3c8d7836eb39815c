//! Watching daemons over time, for `fulmar web` and `fulmar top`: the newest report of each, its
//! events, and the last ten minutes of each path. Everything happens in this process; a daemon only
//! answers its sockets.

mod history;
mod rank;
mod source;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::events::EventReport;
use crate::status::{PathReport, PeerReport, Report, sockets};

pub(crate) use history::{BUCKET, History};
pub(crate) use rank::{Rank, Row, rows};

/// Daemons that one process watches; further sockets are left alone.
const DAEMONS: usize = 64;
/// Events that are kept of each daemon.
const EVENTS_KEPT: usize = 1_000;
/// How often the usual place is looked at for new sockets.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Names a path over time: peer, name, interface.
pub(crate) type PathKey = (String, String, String);

/// What is known of all daemons, shared by those who watch and those who show.
#[derive(Clone)]
pub(crate) struct Watch(Arc<Shared>);

struct Shared {
    seen: Mutex<BTreeMap<String, Seen>>,
    /// Called whenever something is new.
    bell: Box<dyn Fn() + Send + Sync>,
    began: Instant,
}

/// What is known of a daemon.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// Its newest report; none while it does not answer.
    pub(crate) report: Option<Arc<Report>>,
    /// Why it does not answer; empty while it does.
    pub(crate) trouble: String,
    /// How long the newest answer took.
    pub(crate) took: Duration,
    /// What happened, the newest last.
    pub(crate) events: VecDeque<EventReport>,
    /// The last minutes of each path.
    pub(crate) histories: BTreeMap<PathKey, History>,
}

impl Watch {
    /// Begins to watch the daemons at `sockets`, or those whose sockets lie at the usual place, now
    /// or later; `bell` is called, from other threads, whenever there is something new.
    pub(crate) fn start(given: &[PathBuf], bell: impl Fn() + Send + Sync + 'static) -> Self {
        let (seen, bell) = (Mutex::default(), Box::new(bell));
        let watch = Self(Arc::new(Shared { seen, bell, began: Instant::now() }));
        let mut watched = BTreeSet::new();
        watch.add(given.to_vec(), &mut watched);
        if given.is_empty() {
            watch.add(sockets(), &mut watched);
            let watch = watch.clone();
            std::thread::spawn(move || {
                loop {
                    std::thread::sleep(LOOK_EVERY);
                    watch.add(sockets(), &mut watched);
                }
            });
        }
        watch
    }

    /// Returns what is known of all daemons, by name.
    pub(crate) fn seen(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        // Whoever panicked while it held this has left each daemon whole.
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch those that are not watched yet.
    fn add(&self, sockets: Vec<PathBuf>, watched: &mut BTreeSet<PathBuf>) {
        for socket in sockets {
            if watched.len() < DAEMONS && watched.insert(socket.clone()) {
                let name = self.free_name(&socket);
                self.seen().insert(name.clone(), Seen::default());
                source::start(self.clone(), name, socket);
            }
        }
    }

    /// Names a daemon after its socket, and its directory where two are alike.
    fn free_name(&self, socket: &std::path::Path) -> String {
        let stem = socket.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_taken = self.seen().contains_key(&stem);
        if is_taken { socket.display().to_string().replace('/', ".") } else { stem }
    }

    /// Takes an answer, or why there was none.
    fn take(&self, name: &str, answer: Result<Report, String>, took: Duration) {
        let mut all = self.seen();
        let seen = all.entry(name.into()).or_default();
        seen.took = took;
        match answer {
            Ok(report) => {
                seen.follow_paths(self.0.began.elapsed(), &report);
                (seen.report, seen.trouble) = (Some(Arc::new(report)), String::new());
            }
            Err(trouble) => (seen.report, seen.trouble) = (None, trouble),
        }
        drop(all);
        (self.0.bell)();
    }

    /// Takes an event; false when it is known already.
    fn take_event(&self, name: &str, event: EventReport) -> bool {
        let mut all = self.seen();
        let seen = all.entry(name.into()).or_default();
        let is_known =
            seen.events.back().is_some_and(|last| last.run == event.run && last.seq >= event.seq);
        if is_known {
            return false;
        }
        if seen.events.len() == EVENTS_KEPT {
            seen.events.pop_front();
        }
        seen.events.push_back(event);
        drop(all);
        (self.0.bell)();
        true
    }
}

impl Seen {
    /// Goes on with the histories of a report's paths, and forgets those that have been gone for as
    /// long as one lasts.
    fn follow_paths(&mut self, now: Duration, report: &Report) {
        for peer in &report.peers {
            for path in &peer.paths {
                self.histories.entry(key(peer, path)).or_default().add(now, path);
            }
        }
        self.histories.retain(|_, history| history.is_fresh(now));
    }
}

/// Returns a path's name over time.
pub(crate) fn key(peer: &PeerReport, path: &PathReport) -> PathKey {
    (peer.name.clone(), path.name.clone(), path.interface.clone())
}
