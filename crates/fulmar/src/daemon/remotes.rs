//! Where a drone's paths may find their station: addresses in the file, addresses of names in it,
//! and those that the station itself tells. A path that gets no answer tries each of them in turn,
//! of the families that its interface has.
//!
//! Names are looked up through the path's own link (`names/mod.rs`), each in a thread of its own:
//! an answer may take seconds, or not come while a link is down. Nothing waits for it. Of a name's
//! addresses, those of IPv4 come first, in turn with those of IPv6: stations listen at IPv4 by
//! default.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use proto::{Duration, Instant, PathState};
use sys::poller::{Interest, Poller};
use sys::wakeup::Wakeup;

use super::Daemon;
use super::sockets::Sockets;
use super::tokens::Token;
use crate::config::{Carrier, PathConfig, Remote};
use crate::names::{self, Answer as Found, Link};

/// How long a path without an answer tries one address before the next.
const TRY_EVERY: Duration = Duration::from_secs(2);
/// The same of a backup in reserve that has been silent for [`RARELY_AFTER`]: a try is up to five
/// challenges, 66 kB an hour with all headers.
const TRY_RARELY: Duration = Duration::from_secs(25);
/// How long a backup in reserve must have been silent for that.
const RARELY_AFTER: Duration = Duration::from_secs(60);
/// How often names are looked up while a path gets no answer.
const LOOK_UP_EVERY: Duration = Duration::from_secs(10);
/// Addresses of one path; beyond that, the oldest go.
const MOST: usize = 16;

/// The addresses of a daemon's paths, by the slot of their link.
pub(super) struct Remotes {
    slots: BTreeMap<usize, Slot>,
    answers: Receiver<Answer>,
    sender: Sender<Answer>,
    bell: Arc<Wakeup>,
}

/// The addresses of one path.
struct Slot {
    /// As the file has them.
    configured: Vec<Remote>,
    /// Of names, and told by the station; what is most likely first.
    learned: Vec<Learned>,
    /// The interface of the path, while it is there.
    link: Option<Link>,
    /// Lookups under way.
    asking: usize,
    asked_at: Option<Instant>,
    /// What is wrong with which of the names.
    troubles: BTreeMap<String, String>,
    /// Which address is to be tried next, when one was, and since when the path gets no answer.
    next: usize,
    tried_at: Option<Instant>,
    silent_since: Option<Instant>,
}

/// An address that the file does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Learned {
    address: SocketAddr,
    by: By,
}

/// Who said that the station may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The station.
    Station,
    /// A name server that was asked through the link.
    Link,
    /// One that was not, since no other answers: it may be another link's captive portal.
    System,
}

/// What a lookup brought, for a slot.
struct Answer {
    slot: usize,
    name: String,
    /// The link that it was asked through.
    link: u32,
    found: Result<Found, String>,
}

impl Daemon {
    /// Tries paths that get no answer at other addresses.
    pub(super) fn look_elsewhere(&mut self, now: Instant) {
        self.remotes.follow(&self.sockets);
        for (&slot, path) in &self.paths {
            if path.path.is_some() && path.config.carrier == Carrier::Tcp {
                // It is dialled at each in turn.
                continue;
            }
            let Some(path) = path.path else {
                self.remotes.look_up(now, slot);
                continue;
            };
            let known = self.endpoint.paths(path.session).find(|known| known.id == path.path);
            match known.map(|known| (known.state, known.rests)) {
                Some((PathState::Validating | PathState::Suspected, rests)) => {
                    self.remotes.look_up(now, slot);
                    let slot = self.remotes.slots.get_mut(&slot);
                    if let Some(remote) = slot.and_then(|slot| slot.next(now, rests)) {
                        self.endpoint.suggest_remote(now, path.session, path.path, remote);
                    }
                }
                // By the time that a path dies, what is known of its names is old.
                _ => {
                    if let Some(slot) = self.remotes.slots.get_mut(&slot) {
                        (slot.tried_at, slot.asked_at, slot.silent_since) = (None, None, None);
                    }
                }
            }
        }
    }

    /// Takes in what was looked up: new addresses are tried at once where the path gets no answer.
    pub(super) fn take_names(&mut self, now: Instant) {
        if self.remotes.take_answers() {
            self.open_missing_paths(now);
        }
        self.look_elsewhere(now);
    }
}

impl Remotes {
    /// Knows no path yet.
    pub(super) fn open(poller: &Poller) -> io::Result<Self> {
        let bell = Arc::new(Wakeup::new()?);
        poller.add(&*bell, Token::Names.encode(), Interest::Read)?;
        let (sender, answers) = channel();
        Ok(Self { slots: BTreeMap::new(), answers, sender, bell })
    }

    /// Starts with what the file says of a path; its names are looked up once its link is there.
    pub(super) fn add(&mut self, slot: usize, path: &PathConfig) {
        self.slots.insert(slot, Slot::new(path.remotes.clone()));
    }

    /// Follows the links: what was said through another one does not count.
    pub(super) fn follow(&mut self, sockets: &Sockets) {
        for (&place, slot) in &mut self.slots {
            slot.set_link(sockets.link(place));
        }
    }

    /// Forgets a path.
    pub(super) fn remove(&mut self, slot: usize) {
        self.slots.remove(&slot);
    }

    /// Takes the station's word for where it is.
    pub(super) fn learn(&mut self, slot: usize, remote: SocketAddr) {
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.learn(remote);
        }
    }

    /// Returns the address that is most likely, of those that the link can reach.
    pub(super) fn first(&self, slot: usize) -> Option<SocketAddr> {
        self.slots.get(&slot)?.all().first().copied()
    }

    /// Returns the address that is to be dialled now, of those that the link can reach.
    pub(super) fn in_turn(&mut self, slot: usize) -> Option<SocketAddr> {
        let slot = self.slots.get_mut(&slot)?;
        let all = slot.all();
        let remote = all.get(slot.next % all.len().max(1)).copied();
        slot.next = (slot.next + 1) % all.len().max(1);
        remote
    }

    /// Says what is wrong with the names of a path, or that they are being looked up where there is
    /// no address yet; empty when nothing is.
    pub(super) fn trouble(&self, slot: usize) -> String {
        let Some(slot) = self.slots.get(&slot) else { return String::new() };
        let Some(link) = &slot.link else { return String::new() };
        let known = slot.known();
        if slot.troubles.is_empty() && known.is_empty() {
            return "its name is being looked up".into();
        }
        let mut troubles: Vec<_> =
            slot.troubles.iter().map(|(name, what)| format!("{name} {what}")).collect();
        if !known.is_empty()
            && let Some(lacks) = link.lack_of(&known)
        {
            let names = slot.configured.iter().map(Remote::to_string);
            troubles.push(format!("{} {lacks}", names.collect::<Vec<_>>().join(", ")));
        }
        troubles.join("; ")
    }

    /// Looks up the names of a slot, one lookup of each at a time.
    pub(super) fn look_up(&mut self, now: Instant, place: usize) {
        let Some(slot) = self.slots.get_mut(&place) else { return };
        let Some(link) = slot.link.clone() else { return };
        let recent = slot.asked_at.is_some_and(|at| now.since(at) < LOOK_UP_EVERY);
        if recent || slot.asking > 0 {
            return;
        }
        slot.asked_at = Some(now);
        for remote in slot.configured.clone() {
            let Remote::Name(host, port) = remote else { continue };
            let (name, link, sender) = (host.clone(), link.clone(), self.sender.clone());
            let bell = Arc::clone(&self.bell);
            slot.asking += 1;
            let asker = move || {
                let found = names::look_up_through(&name, port, &link);
                // The receiver is gone when the daemon ends.
                let _ = sender.send(Answer { slot: place, name, link: link.index, found });
                bell.ring();
            };
            if let Err(error) = std::thread::Builder::new().name("names".into()).spawn(asker) {
                slot.asking -= 1;
                slot.note(&host, Some(format!("cannot be looked up: {error}")));
            }
        }
    }

    /// Takes what has come; tells whether there is an address in it.
    fn take_answers(&mut self) -> bool {
        self.bell.silence();
        let mut any = false;
        for Answer { slot: place, name, link, found } in self.answers.try_iter() {
            let Some(slot) = self.slots.get_mut(&place) else { continue };
            // The slot may have become another path's meanwhile.
            if !slot.names(&name) {
                continue;
            }
            slot.asking = slot.asking.saturating_sub(1);
            if slot.link.as_ref().is_some_and(|now| now.index != link) {
                slot.asked_at = None;
                continue;
            }
            match found {
                Ok(Found { addresses, is_links }) => {
                    slot.note(&name, None);
                    if !is_links && !slot.knows_all(&addresses) {
                        tracing::info!(
                            "{name}: no name server answers by the link; the system's word is tried"
                        );
                    }
                    slot.take(addresses, if is_links { By::Link } else { By::System });
                    any = true;
                }
                Err(trouble) => slot.note(&name, Some(trouble)),
            }
        }
        any
    }
}

impl Slot {
    fn new(configured: Vec<Remote>) -> Self {
        let (learned, asking, asked_at, troubles, next) = Default::default();
        let (tried_at, silent_since, link) = (None, None, None);
        Self { configured, learned, link, asking, asked_at, troubles, next, tried_at, silent_since }
    }

    /// Takes the path's link as it is now: another one asks anew, and its own name servers.
    fn set_link(&mut self, link: Option<Link>) {
        let Some(now) = &link else {
            self.link = None;
            self.asked_at = None;
            return;
        };
        if self.link.as_ref() != Some(now) {
            self.asked_at = None;
            self.next = 0;
        }
        if self.link.as_ref().is_some_and(|before| before.index != now.index) {
            self.learned.retain(|known| known.by == By::Station);
        }
        self.link = link;
    }

    /// Tells whether the file has this name of a host here.
    fn names(&self, host: &str) -> bool {
        self.configured.iter().any(|remote| matches!(remote, Remote::Name(name, _) if name == host))
    }

    /// Takes what a lookup ran into, if anything; the log hears of changes alone.
    fn note(&mut self, name: &str, trouble: Option<String>) {
        if self.troubles.get(name) == trouble.as_ref() {
            return;
        }
        match trouble {
            Some(trouble) => {
                tracing::warn!("{name} {trouble}");
                self.troubles.insert(name.to_owned(), trouble);
            }
            None => {
                tracing::info!("{name} can be looked up now");
                self.troubles.remove(name);
            }
        }
    }

    /// Takes the station's own word, which is tried next.
    fn learn(&mut self, remote: SocketAddr) {
        if self.learned.first().is_some_and(|first| first.address == remote) {
            return;
        }
        self.learned.retain(|known| known.address != remote);
        self.learned.insert(0, Learned { address: remote, by: By::Station });
        self.learned.truncate(MOST);
        self.next = self.configured.iter().filter_map(Remote::address).count();
    }

    /// Takes the addresses of a name. Those that are new are tried next, but what another link may
    /// have said comes last; those that are known keep their turn, so that each has one, however
    /// often the name is looked up.
    fn take(&mut self, addresses: Vec<SocketAddr>, by: By) {
        let (ipv4, ipv6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(SocketAddr::is_ipv4);
        let most = ipv4.len().max(ipv6.len());
        let in_turn = (0..most).flat_map(|at| [ipv4.get(at), ipv6.get(at)]).flatten();
        let mut place = 0;
        for &address in in_turn.take(MOST) {
            if let Some(known) = self.learned.iter_mut().find(|known| known.address == address) {
                if known.by == By::System {
                    known.by = by;
                }
                continue;
            }
            let learned = Learned { address, by };
            if by == By::System {
                self.learned.push(learned);
                continue;
            }
            self.learned.insert(place, learned);
            place += 1;
        }
        // The link's own word goes before what others said.
        self.learned.sort_by_key(|known| known.by == By::System);
        self.learned.truncate(MOST);
        if place > 0 {
            self.next = self.configured.iter().filter_map(Remote::address).count();
        }
    }

    fn knows_all(&self, addresses: &[SocketAddr]) -> bool {
        addresses.iter().all(|address| self.learned.iter().any(|known| known.address == *address))
    }

    /// Lists all addresses that the path may have.
    fn known(&self) -> Vec<SocketAddr> {
        let configured = self.configured.iter().filter_map(Remote::address);
        configured.chain(self.learned.iter().map(|known| known.address)).collect()
    }

    /// Lists those that the link can reach; all while it is not there.
    fn all(&self) -> Vec<SocketAddr> {
        let mut all = self.known();
        if let Some(link) = &self.link {
            all.retain(|address| link.families.has(address.ip()));
        }
        all
    }

    /// Returns the address that is to be tried now; of a backup that `rests` one may wait longer.
    fn next(&mut self, now: Instant, rests: bool) -> Option<SocketAddr> {
        let silent_for = now.since(*self.silent_since.get_or_insert(now));
        let is_rare = rests && silent_for >= RARELY_AFTER;
        let every = if is_rare { TRY_RARELY } else { TRY_EVERY };
        if self.tried_at.is_some_and(|at| now.since(at) < every) {
            return None;
        }
        let all = self.all();
        let remote = all.get(self.next % all.len().max(1)).copied();
        self.next = (self.next + 1) % all.len().max(1);
        self.tried_at = Some(now);
        remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Families;

    fn address(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 14_700).into()
    }

    #[test]
    fn addresses_take_turns_and_what_is_new_comes_next() {
        let mut slot = Slot::new(vec![Remote::Address(address(1)), Remote::Address(address(2))]);
        let at = |seconds: u64| Instant::from_millis(seconds * 1_000);
        assert_eq!(slot.next(at(0), false), Some(address(1)));
        assert_eq!(slot.next(at(1), false), None, "each has its time");
        assert_eq!(slot.next(at(2), false), Some(address(2)));
        assert_eq!(slot.next(at(4), false), Some(address(1)));
        slot.learn(address(3));
        assert_eq!(slot.next(at(6), false), Some(address(3)));
        assert_eq!(slot.next(at(8), false), Some(address(1)));
        (0..100).for_each(|last| slot.learn(address(last)));
        assert_eq!(slot.learned.len(), MOST);
    }

    #[test]
    fn a_backup_in_reserve_that_stays_silent_is_tried_every_25_s_and_at_once_when_it_is_called() {
        let mut slot = Slot::new(vec![Remote::Address(address(1)), Remote::Address(address(2))]);
        let at = |seconds: u64| Instant::from_millis(seconds * 1_000);
        let tries = (0..60).filter(|second| slot.next(at(*second), true).is_some()).count();
        assert_eq!(tries, 30, "it may come back");
        let tries = (60..360).filter(|second| slot.next(at(*second), true).is_some()).count();
        assert_eq!(tries, 12);
        assert!(slot.next(at(360), false).is_some(), "it is called");
        assert!(slot.next(at(362), false).is_some());
    }

    #[test]
    fn each_address_of_a_name_has_its_turn_and_another_links_word_comes_last() {
        let name = Remote::Name("station.example".into(), 14_700);
        let mut slot = Slot::new(vec![name]);
        let families = Families { ipv4: true, ipv6: true };
        let link = |index, families| Some(Link { name: "wwan0".into(), index, families });
        slot.set_link(link(7, families));
        let ipv6: SocketAddr = "[2001:db8::1]:14700".parse().unwrap();
        slot.take(vec![address(66)], By::System);
        slot.take(vec![ipv6, address(1), address(2)], By::Link);
        assert_eq!(slot.all(), [address(1), ipv6, address(2), address(66)]);
        let at = |seconds: u64| Instant::from_millis(seconds * 1_000);
        let mut tried = Vec::new();
        for second in 0..8 {
            slot.take(vec![address(2), address(1), ipv6], By::Link);
            tried.extend(slot.next(at(second), false));
        }
        assert_eq!(tried, [address(1), ipv6, address(2), address(66)]);
        slot.set_link(link(7, Families { ipv4: false, ipv6: true }));
        assert_eq!(slot.all(), [ipv6], "of the family that the link has");
        slot.learn(address(9));
        slot.set_link(link(8, families));
        assert_eq!(slot.all(), [address(9)], "what was said through another link does not count");
    }

    #[test]
    fn a_name_is_looked_up_in_a_thread_of_its_own() {
        let mut poller = Poller::new().unwrap();
        let path = PathConfig {
            name: "wifi".into(),
            interface: "wlan0".into(),
            remotes: vec![Remote::Name("localhost".into(), 14_700)],
            proxy: None,
            relay: None,
            carrier: Default::default(),
            beside: None,
            peer: 0,
            usage: Default::default(),
        };
        let mut remotes = Remotes::open(&poller).unwrap();
        remotes.add(3, &path);
        let families = Families { ipv4: true, ipv6: false };
        let link = Link { name: "lo".into(), index: 1, families };
        remotes.slots.get_mut(&3).unwrap().set_link(Some(link));
        remotes.look_up(Instant::ZERO, 3);
        assert_eq!(remotes.first(3), None);
        let mut ready = Vec::new();
        let late = sys::clock::now() + Duration::from_secs(30);
        poller.wait(sys::clock::now(), Some(late), &mut ready).unwrap();
        assert!(remotes.take_answers());
        assert_eq!(remotes.first(3), Some(([127, 0, 0, 1], 14_700).into()));
    }
}
