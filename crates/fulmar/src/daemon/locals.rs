//! The local endpoints of a daemon, and which of them are a peer's: a station with a thousand
//! drones has a thousand, of which a packet, or a line of the status, concerns one or two.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::endpoints::LocalEndpoint;

/// Endpoints by the place that they have in tokens; no place is used twice.
#[derive(Default)]
pub(super) struct Locals {
    all: BTreeMap<usize, LocalEndpoint>,
    /// Their places, by the place of their peer in the configuration.
    of_peer: BTreeMap<usize, Vec<usize>>,
}

impl Locals {
    pub(super) fn new(all: BTreeMap<usize, LocalEndpoint>) -> Self {
        let mut locals = Self { all, of_peer: BTreeMap::new() };
        locals.sort();
        locals
    }

    /// Walks the endpoints of a peer.
    pub(super) fn of(&self, peer: usize) -> impl Iterator<Item = &LocalEndpoint> {
        self.places(peer).iter().filter_map(|place| self.all.get(place))
    }

    /// Does something with each endpoint of a peer, and its place.
    pub(super) fn for_each_of(
        &mut self,
        peer: usize,
        mut what: impl FnMut(usize, &mut LocalEndpoint),
    ) {
        let Self { all, of_peer } = self;
        for place in of_peer.get(&peer).into_iter().flatten() {
            if let Some(local) = all.get_mut(place) {
                what(*place, local);
            }
        }
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut LocalEndpoint> {
        self.all.get_mut(&place)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut LocalEndpoint)> {
        self.all.iter_mut().map(|(place, local)| (*place, local))
    }

    /// Changes which there are, or whose they are.
    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<usize, LocalEndpoint>) -> T,
    ) -> T {
        let result = change(&mut self.all);
        self.sort();
        result
    }

    fn places(&self, peer: usize) -> &[usize] {
        self.of_peer.get(&peer).map_or(&[], Vec::as_slice)
    }

    fn sort(&mut self) {
        self.of_peer.clear();
        for (place, local) in &self.all {
            self.of_peer.entry(local.config.peer).or_default().push(*place);
        }
    }
}

impl Deref for Locals {
    type Target = BTreeMap<usize, LocalEndpoint>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}
