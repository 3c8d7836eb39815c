//! A drone's paths of another file.
//!
//! A path is its peer, its interface and where the peer may be found: what else the file says of it
//! changes in place. One with another of these is another path, and works before the old one goes
//! (`daemon/paths.rs`).

use std::collections::{BTreeMap, BTreeSet};

use proto::{Instant, MAX_PATHS};

use super::moves::Moves;
use crate::config::{Config, MAX_SOCKETS, PathConfig};
use crate::daemon::paths::DronePath;
use crate::daemon::{Daemon, PeerState};

/// Where the groups of paths that go begin: they keep no interface from those that come.
const LEAVING: u64 = 1 << 32;

/// Which path of the new file each of the old ones is, and which are new.
pub(super) struct NewPaths {
    /// By slot: the place in the new file.
    kept: BTreeMap<usize, usize>,
    fresh: Vec<usize>,
}

/// How many paths came, went, and are used otherwise.
pub(super) struct Counted {
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) used_otherwise: usize,
}

impl Daemon {
    /// Compares the paths with those of the new file.
    ///
    /// # Errors
    /// Says which path cannot be opened any more.
    pub(super) fn compare_paths(&self, new: &Config, moves: &Moves) -> Result<NewPaths, String> {
        let (mut kept, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for by_name in [true, false] {
            for (slot, old) in &self.paths {
                let is_it = |(at, path): &(usize, &PathConfig)| {
                    !taken.contains(at)
                        && (!by_name || path.name == old.config.name)
                        && is_same(&old.config, path, moves)
                };
                if kept.contains_key(slot) {
                    continue;
                }
                if let Some((at, _)) = new.paths.iter().enumerate().find(is_it) {
                    kept.insert(*slot, at);
                    taken.insert(at);
                }
            }
        }
        let fresh: Vec<usize> = (0..new.paths.len()).filter(|at| !taken.contains(at)).collect();
        for (place, state) in self.peers.iter().enumerate() {
            let (Some(session), Some(peer)) = (state.session, moves.peer(place)) else { continue };
            let own = fresh.iter().filter(|at| new.paths[**at].peer == peer);
            if let Some(path) = own.clone().nth(self.endpoint.path_numbers_left(session)) {
                return Err(format!(
                    "path {}: 256 paths to \"{}\" were opened since the daemon started, and no more can be: \
                     a restart begins anew",
                    new.paths[*path].name, new.peers[peer].name
                ));
            }
        }
        Ok(NewPaths { kept, fresh })
    }

    /// Lets the paths of the new file take the place of the old ones.
    pub(super) fn replace_paths(
        &mut self,
        now: Instant,
        new: &Config,
        NewPaths { kept, fresh }: NewPaths,
    ) -> Counted {
        let mut counted = Counted { added: fresh.len(), removed: 0, used_otherwise: 0 };
        for (slot, path) in &mut self.paths {
            let Some(&at) = kept.get(slot) else {
                counted.removed += usize::from(path.leaving.is_none());
                path.leaving.get_or_insert(now);
                if let Some(socket) = self.sockets.list.get_mut(slot) {
                    socket.group = LEAVING + *slot as u64;
                }
                continue;
            };
            let config = &new.paths[at];
            if path.leaving.take().is_some() {
                counted.added += 1;
            }
            if path.config.usage != config.usage {
                counted.used_otherwise += 1;
                if let Some(path) = path.path {
                    self.endpoint.set_path_use(now, path.session, path.path, config.usage);
                }
            }
            path.config = config.clone();
            if let Some(socket) = self.sockets.list.get_mut(slot) {
                socket.follow(config);
            }
        }
        if !self.leaves_room(new) {
            self.close_all_leaving_paths(now);
        }
        for at in fresh {
            self.add_path(&new.paths[at]);
        }
        counted
    }

    /// Tells whether paths that go may stay for a while beside those of the new file.
    fn leaves_room(&self, new: &Config) -> bool {
        let leaving: Vec<_> = self.paths.values().filter(|path| path.leaving.is_some()).collect();
        let fits = |(place, peer): (usize, &PeerState)| {
            let own = new.paths.iter().filter(|path| path.peer == place).count();
            let is_its = |path: &&&DronePath| path.path.map(|path| path.session) == peer.session;
            own + leaving.iter().filter(is_its).count() <= MAX_PATHS
        };
        leaving.len() + new.paths.len() <= MAX_SOCKETS && self.peers.iter().enumerate().all(fits)
    }
}

fn is_same(old: &PathConfig, new: &PathConfig, moves: &Moves) -> bool {
    let is_peers = moves.peer(old.peer) == Some(new.peer);
    let stands_in = |it: &PathConfig| it.beside.as_ref().map(|beside| beside.stands_in);
    let what = |it| {
        let PathConfig { interface, remotes, proxy, relay, carrier, .. }: &PathConfig = it;
        (interface.clone(), (remotes.clone(), proxy.clone()), *relay, *carrier, stands_in(it))
    };
    let (old, new) = [old, new].map(what).into();
    is_peers && old == new
}
