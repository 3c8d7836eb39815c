//! Who is connected, and who makes room for whom.
//!
//! A newcomer always gets in: where all places are taken, somebody who has shown no token goes, of
//! the address that holds the most places, whoever said something longest ago. So those who say
//! nothing keep nobody out, and who has shown the token is not sent away while there is somebody
//! who has not.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

use super::access::network;

/// Connections at a time.
const CONNECTIONS: usize = 128;
/// Connections of one address that is neither this host's nor the proxy's; of IPv6, of one network.
const OF_ONE_ADDRESS: usize = 24;

/// All connections.
#[derive(Clone, Default)]
pub(super) struct Room(Arc<Mutex<Inside>>);

/// A connection's place; it is free again when this goes.
pub(super) struct Place {
    room: Room,
    number: u64,
}

#[derive(Default)]
struct Inside {
    /// Counts whatever happens: the order in which.
    clock: u64,
    guests: BTreeMap<u64, Seated>,
}

struct Seated {
    from: IpAddr,
    is_known: bool,
    /// When it last said something, by the clock.
    heard: u64,
    task: Option<AbortHandle>,
}

impl Room {
    /// Takes a place for a connection, at whoever's cost; `is_trusted` says that it may be one of
    /// many from there.
    pub(super) fn enter(&self, from: IpAddr, is_trusted: bool) -> Place {
        let from = match from.to_canonical() {
            own if own.is_loopback() => own,
            other => network(other),
        };
        self.with(|inside| {
            let is_bounded = !is_trusted && !from.is_loopback();
            if is_bounded && inside.held_by(from) >= OF_ONE_ADDRESS {
                inside.send_away(|seated| seated.from == from);
            }
            if inside.guests.len() >= CONNECTIONS {
                inside.send_away(|_| true);
            }
            inside.clock += 1;
            let (number, heard) = (inside.clock, inside.clock);
            inside.guests.insert(number, Seated { from, is_known: false, heard, task: None });
            Place { room: self.clone(), number }
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Inside) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Place {
    /// Names the task that ends when the place is needed for another.
    pub(super) fn is_served_by(&self, task: AbortHandle) {
        self.change(|seated, _| seated.task = Some(task));
    }

    /// Notes that a request came, or was answered.
    pub(super) fn heard(&self) {
        self.change(|seated, now| seated.heard = now);
    }

    /// Notes that whoever has it may look.
    pub(super) fn known(&self) {
        self.change(|seated, now| (seated.is_known, seated.heard) = (true, now));
    }

    fn change(&self, change: impl FnOnce(&mut Seated, u64)) {
        self.room.with(|inside| {
            inside.clock += 1;
            let now = inside.clock;
            // Whoever was sent away has none any more.
            if let Some(seated) = inside.guests.get_mut(&self.number) {
                change(seated, now);
            }
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.with(|inside| inside.guests.remove(&self.number));
    }
}

impl Inside {
    fn held_by(&self, from: IpAddr) -> usize {
        self.guests.values().filter(|seated| seated.from == from).count()
    }

    fn send_away(&mut self, is_meant: impl Fn(&Seated) -> bool) {
        let meant = self.guests.iter().filter(|(_, seated)| is_meant(seated));
        let worth =
            |seated: &Seated| (seated.is_known, Reverse(self.held_by(seated.from)), seated.heard);
        let least = meant.min_by_key(|(_, seated)| worth(seated)).map(|(number, _)| *number);
        let gone = least.and_then(|number| self.guests.remove(&number));
        if let Some(task) = gone.and_then(|gone| gone.task) {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn is_in(place: &Place) -> bool {
        place.room.with(|inside| inside.guests.contains_key(&place.number))
    }

    #[test]
    fn those_who_say_nothing_keep_nobody_out() {
        let room = Room::default();
        let prometheus = room.enter(HERE, false);
        prometheus.known();
        let silent: Vec<_> = (0..CONNECTIONS).map(|_| room.enter(HERE, false)).collect();
        assert!(is_in(&prometheus) && !is_in(&silent[0]), "the oldest silent one went");
        let newcomer = room.enter(HERE, false);
        assert!(is_in(&newcomer) && !is_in(&silent[1]) && is_in(&silent[2]));
        silent[2].heard();
        let next = room.enter(HERE, false);
        assert!(is_in(&next) && is_in(&silent[2]) && !is_in(&silent[3]));
        assert_eq!(room.with(|inside| inside.guests.len()), CONNECTIONS);
        drop((silent, newcomer, next, prometheus));
        assert!(room.with(|inside| inside.guests.is_empty()));
    }

    #[test]
    fn whoever_holds_the_most_places_gives_one_up() {
        let room = Room::default();
        let other = IpAddr::from([192, 0, 2, 7]);
        let guest = room.enter(other, false);
        let own: Vec<_> = (0..CONNECTIONS).map(|_| room.enter(HERE, false)).collect();
        assert!(is_in(&guest) && !is_in(&own[0]), "one of many goes, though the guest was first");
    }

    #[test]
    fn one_foreign_address_has_its_share_and_a_network_is_one() {
        let room = Room::default();
        let at = |low: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, low]);
        let many: Vec<_> =
            (0..OF_ONE_ADDRESS as u16).map(|low| room.enter(at(low), false)).collect();
        many[0].known();
        let next = room.enter(at(999), false);
        assert!(is_in(&next) && is_in(&many[0]) && !is_in(&many[1]), "its own oldest makes room");
        let proxy: Vec<_> = (0..2 * OF_ONE_ADDRESS).map(|_| room.enter(at(0), true)).collect();
        assert!(proxy.iter().all(is_in), "all come through a proxy");
    }
}
