//! Local endpoints of another file: each takes over the port that it needs where an old one has it,
//! and opens one otherwise.
//!
//! A port is what the kernel knows: an address, a device, a path. Which endpoint uses it, for which
//! peer and channel, with which target and filters, changes without the programs at it noticing.

use std::collections::{BTreeMap, BTreeSet};

use proto::Instant;
use sys::clock;

use super::moves::Moves;
use crate::config::{Config, EndpointConfig, EndpointKind};
use crate::daemon::Daemon;
use crate::daemon::open::open_local;
use crate::endpoints::LocalEndpoint;

/// Whether an old endpoint's port is for a new one.
type Rule<'r> = &'r dyn Fn(&EndpointConfig, &EndpointConfig) -> bool;

/// What is to become of the local endpoints, as far as anything of it can fail.
pub(super) struct NewLocals {
    /// By the place that an endpoint has already: its place in the new file.
    adopted: BTreeMap<usize, usize>,
    /// Those that are open already, by their new place.
    opened: BTreeMap<usize, LocalEndpoint>,
    /// Old ones that had to be closed first: what they were, by their place.
    closed: BTreeMap<usize, EndpointConfig>,
    changed: usize,
}

/// How many endpoints came, went, and changed.
pub(super) struct Counted {
    pub(super) opened: usize,
    pub(super) closed: usize,
    pub(super) changed: usize,
}

impl Daemon {
    /// Opens the endpoints that only the new file has. One whose address an endpoint blocks that
    /// goes is opened after that one is closed.
    ///
    /// # Errors
    /// Say which endpoint cannot be opened, and why; nothing has changed then.
    pub(super) fn open_new_locals(
        &mut self,
        new: &Config,
        moves: &Moves,
    ) -> Result<NewLocals, String> {
        let (adopted, changed) = adopted(&self.locals, new, moves);
        let taken: BTreeSet<usize> = adopted.values().copied().collect();
        let mut locals =
            NewLocals { adopted, opened: BTreeMap::new(), closed: BTreeMap::new(), changed };
        let first = self.locals.last_key_value().map_or(0, |(last, _)| last + 1);
        let fresh = new.endpoints.iter().enumerate().filter(|(at, _)| !taken.contains(at));
        for (place, (_, endpoint)) in (first..).zip(fresh) {
            self.make_way(endpoint, &mut locals);
            let opened = open_local(place, endpoint, &self.poller);
            // Whoever asks for it is there to read why. What a link of this host decides comes and
            // goes with that.
            if let (Some(trouble), true) = (opened.trouble(clock::now()), endpoint.kind.is_place())
            {
                let problem = format!("endpoint {}: {trouble}", endpoint.name);
                drop(opened);
                self.keep_old_locals(locals);
                return Err(problem);
            }
            locals.opened.insert(place, opened);
        }
        Ok(locals)
    }

    /// Undoes what was done so far.
    pub(super) fn keep_old_locals(&mut self, locals: NewLocals) {
        drop(locals.opened);
        for (place, config) in locals.closed {
            let local = open_local(place, &config, &self.poller);
            self.locals.change(|all| all.insert(place, local));
        }
    }

    /// Lets the new endpoints take the place of the old ones.
    pub(super) fn replace_locals(
        &mut self,
        now: Instant,
        new: &Config,
        locals: NewLocals,
    ) -> Counted {
        let NewLocals { adopted, opened, closed, changed } = locals;
        let before = self.locals.len() + closed.len();
        let (poller, mut count) = (&self.poller, 0);
        let opened_count = opened.len();
        self.locals.change(|all| {
            all.retain(|place, local| {
                let Some(&at) = adopted.get(place) else { return false };
                local.adopt(now, new.endpoints[at].clone(), poller);
                count += 1;
                true
            });
            all.extend(opened);
        });
        Counted { opened: opened_count, closed: before - count, changed }
    }

    /// Closes old endpoints that go and are in the way of one that comes.
    fn make_way(&mut self, endpoint: &EndpointConfig, locals: &mut NewLocals) {
        let is_in_the_way = |(place, local): (&usize, &LocalEndpoint)| {
            let goes = !locals.adopted.contains_key(place);
            (goes && blocks(&local.config.kind, &endpoint.kind)).then_some(*place)
        };
        let places: Vec<usize> = self.locals.iter().filter_map(is_in_the_way).collect();
        for place in places {
            if let Some(local) = self.locals.change(|all| all.remove(&place)) {
                locals.closed.insert(place, local.config);
            }
        }
    }
}

/// Finds for each old endpoint the one of the new file that takes over its port: itself first, then
/// one of its name, then any. Returns how many of them are not what they were, too.
fn adopted(
    old: &BTreeMap<usize, LocalEndpoint>,
    new: &Config,
    moves: &Moves,
) -> (BTreeMap<usize, usize>, usize) {
    let mut adopted = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let is_same = |old: &EndpointConfig, new: &EndpointConfig| moves.is_same(old, new);
    let has_name = |old: &EndpointConfig, new: &EndpointConfig| {
        old.name == new.name && old.kind.shares_port(&new.kind)
    };
    let has_port = |old: &EndpointConfig, new: &EndpointConfig| old.kind.shares_port(&new.kind);
    let rules: [Rule<'_>; 3] = [&is_same, &has_name, &has_port];
    for rule in rules {
        for (place, local) in old {
            let is_it = |(at, new): &(usize, &EndpointConfig)| {
                !taken.contains(at) && rule(&local.config, new)
            };
            if adopted.contains_key(place) {
                continue;
            }
            if let Some((at, _)) = new.endpoints.iter().enumerate().find(is_it) {
                adopted.insert(*place, at);
                taken.insert(at);
            }
        }
    }
    let is_changed =
        |(place, at): &(&usize, &usize)| !moves.is_same(&old[*place].config, &new.endpoints[**at]);
    let changed = adopted.iter().filter(is_changed).count();
    (adopted, changed)
}

/// Tells whether the kernel would refuse one while the other is there: the same port, and an
/// address that covers the other.
fn blocks(old: &EndpointKind, new: &EndpointKind) -> bool {
    match (old, new) {
        (EndpointKind::UdpServer(old), EndpointKind::UdpServer(new))
        | (EndpointKind::TcpServer(old), EndpointKind::TcpServer(new)) => old.port() == new.port(),
        _ => false,
    }
}
