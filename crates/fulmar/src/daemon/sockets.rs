//! The sockets: a UDP socket for each path of a drone, or for each address that a station waits at.
//! Where connections carry the paths (`streams/`), their place is kept here all the same: which
//! interface they have, and whether that is there.
//!
//! A socket is bound to its interface, and exists only as long as the interface does: a missing one
//! is no error. The kernel announces changes; in case an announcement is missed, the list is read
//! again now and then. An interface that has changed its number or its addresses gets a new socket.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proto::{Duration, Instant, InterfaceId};
use sys::connection::Listener;
use sys::interfaces::{self, Interface};
use sys::poller::{Interest, Poller};
use sys::udp::{UdpOptions, UdpSocket};

use super::outlets::{Outlet, Outlets};
use super::places::{beside_of, group_of, of_listen, of_path, share};
use super::relays::place_of;
use super::renewal::Former;
use super::tokens::Token;
use crate::config::{Carrier, Listen, MAX_SOCKETS, PathConfig, Transport};
use crate::interface::{Families, Found, Here, Seeker};
use crate::names::Link;

/// Interfaces are listed at least this often.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Bits of an [`InterfaceId`] that hold the slot; the kernel's number of the interface is in the
/// others.
const SLOT_BITS: u32 = MAX_SOCKETS.ilog2();

/// A UDP socket at an interface: where it is bound, and the socket while it is there.
pub(super) struct InterfaceSocket {
    pub(super) name: String,
    /// The interface that it is bound to, as it is called now; none serves all interfaces.
    pub(super) interface: Option<String>,
    /// What the file says of the interface.
    pub(super) wanted: Option<String>,
    /// The families of the addresses that it sends to.
    pub(super) families: Families,
    /// Those of one group do not share an interface, unless each names it.
    pub(super) group: u64,
    pub(super) udp: Option<UdpSocket>,
    /// What its datagrams travel in; where these are connections, it has no socket of UDP.
    pub(super) carrier: Carrier,
    /// Whether connections can be made there, and what waits for them, at a station.
    pub(super) stream: Option<Option<Listener>>,
    /// The path that it shares its interface with, whichever that has.
    pub(super) beside: Option<(u64, String)>,
    /// Whether something came there, and the port that a path had before (`renewal.rs`).
    pub(super) heard: bool,
    pub(super) former: Option<Former>,
    /// What it lacks, in words, while it is not there.
    pub(super) trouble: Option<String>,
    pub(super) outlets: Outlets,
    /// Datagrams that the kernel refused, and why it refused the last one.
    pub(super) errors: u64,
    pub(super) last_error: Option<String>,
    /// Errors that the log has told of already, so that it does not repeat them for each datagram.
    pub(super) said: Vec<String>,
    pub(super) local: SocketAddr,
    /// Whether it answers many.
    pub(super) listens: bool,
    /// The interface as it was last seen; none for all interfaces.
    pub(super) seen: Option<Found>,
    /// Whether the last datagram went to an address of IPv6.
    pub(super) sends_ipv6: bool,
}

/// What happened to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketChange {
    /// It is there now.
    Up(usize),
    /// It was there and is gone.
    Down(usize),
    /// It is there, opened again.
    Anew(usize),
}

/// All sockets of a daemon.
pub(super) struct Sockets {
    /// By their slot.
    pub(super) list: BTreeMap<usize, InterfaceSocket>,
    /// The slot that the next one gets if it is free: what still names one that went must not mean
    /// another.
    next_slot: usize,
    pub(super) options: UdpOptions,
    /// What was blocked or freed since the sessions were told: of an interface all paths, or those
    /// to an address.
    pub(super) news: Vec<(InterfaceId, Option<SocketAddr>, bool)>,
    /// The host's interfaces as they were last seen.
    interfaces: Vec<Interface>,
    /// Names of interfaces that no pattern fits.
    never: Vec<String>,
}

impl Sockets {
    /// Knows no socket yet, but how they are opened.
    pub(super) fn new(transport: &Transport) -> Self {
        let Transport { send_buffer, receive_buffer, segmentation, .. } = *transport;
        let local = (Ipv4Addr::UNSPECIFIED, 0).into();
        let options = UdpOptions {
            local,
            both_families: false,
            interface: None,
            send_buffer,
            receive_buffer,
            segmentation,
            shared: false,
        };
        let (list, next_slot, news, interfaces, never) = Default::default();
        Self { list, next_slot, options, news, interfaces, never }
    }

    /// Learns which interface is our own tunnel: what goes through it does not leave by it.
    pub(super) fn set_tunnel(&mut self, name: Option<&str>) {
        self.never = name.map(str::to_owned).into_iter().collect();
    }

    /// Adds the socket of a path, which opens with the next [`Sockets::refresh`]; returns its slot,
    /// where one is free.
    pub(super) fn add_path(&mut self, path: &PathConfig) -> Option<usize> {
        self.add(of_path(path))
    }

    /// Adds the socket of an address to listen at, which opens with the next [`Sockets::refresh`]
    /// that finds the address.
    ///
    /// # Errors
    /// Say that there are too many.
    pub(super) fn add_listen(&mut self, listen: &Listen) -> Result<usize, String> {
        let slot = self.add(of_listen(listen));
        slot.ok_or_else(|| format!("listen at {}: too many sockets", listen.name))
    }

    /// Listens at an address, for a person who reads what is wrong with it. An interface that is
    /// missing is no error: its socket opens when it is there.
    ///
    /// # Errors
    /// Say which address it is, and what to do.
    pub(super) fn listen(&mut self, listen: &Listen, poller: &Poller) -> Result<usize, String> {
        let slot = self.add_listen(listen)?;
        let Self { list, options, .. } = self;
        if let (None, Some(socket)) = (&listen.interface, list.get_mut(&slot))
            && let Err(error) = socket.open(options, Token::Socket(slot).encode(), poller)
        {
            list.remove(&slot);
            return Err(format!("listen at {}: {error}", listen.name));
        }
        Ok(slot)
    }

    /// Returns the slot of an address that is listened at.
    pub(super) fn listen_slot(&self, listen: &Listen) -> Option<usize> {
        let found = self.list.iter().find(|(_, socket)| socket.is_of(listen));
        found.map(|(slot, _)| *slot)
    }

    /// Lists the slots of the addresses that are listened at beside these.
    pub(super) fn listens_but(&self, listens: &[Listen]) -> Vec<usize> {
        let is_other = |socket: &InterfaceSocket| {
            socket.listens && !listens.iter().any(|listen| socket.is_of(listen))
        };
        self.list.iter().filter(|(_, socket)| is_other(socket)).map(|(slot, _)| *slot).collect()
    }

    /// Takes other names of the addresses that are listened at.
    pub(super) fn rename(&mut self, listens: &[Listen]) {
        for socket in self.list.values_mut() {
            if let Some(listen) = listens.iter().find(|listen| socket.is_of(listen)) {
                socket.name.clone_from(&listen.name);
            }
        }
    }

    /// Closes sockets until the next [`Sockets::refresh`].
    pub(super) fn close(&mut self, slots: &[usize]) {
        for slot in slots {
            if let Some(socket) = self.list.get_mut(slot) {
                (socket.udp, socket.former, socket.stream) = (None, None, None);
                let mut outlets = std::mem::take(&mut socket.outlets);
                outlets.iter_mut().for_each(|(_, outlet)| free(outlet, &mut self.news));
            }
        }
    }

    /// Closes a socket for good.
    pub(super) fn remove(&mut self, slot: usize) {
        self.close(&[slot]);
        self.list.remove(&slot);
    }

    /// Compares the sockets with the host's interfaces, opens and closes sockets; returns what
    /// changed.
    pub(super) fn refresh(&mut self, poller: &Poller) -> Vec<SocketChange> {
        let interfaces = match interfaces::list() {
            Ok(interfaces) => interfaces,
            Err(error) => {
                tracing::warn!(%error, "cannot list the interfaces; looking again soon");
                return Vec::new();
            }
        };
        self.interfaces = interfaces;
        let Self { list, options, news, interfaces, never, .. } = self;
        let seekers: Vec<_> = list.values().filter_map(InterfaceSocket::seeker).collect();
        let mut found = Here { interfaces, never }.assign(&seekers);
        share(list, &mut found);
        let mut found = found.into_iter();
        let refresh = |(&slot, socket): (&usize, &mut InterfaceSocket)| {
            let token = Token::Socket(slot).encode();
            let mut outlets = std::mem::take(&mut socket.outlets);
            let found = socket.wanted.is_some().then(|| found.next()).flatten().transpose();
            let change = match found {
                Ok(found) => socket.refresh(found, options, token, poller),
                Err(lacks) => socket.lose(lacks),
            };
            if change.is_none() {
                socket.outlets = outlets;
                return None;
            }
            outlets.iter_mut().for_each(|(_, outlet)| free(outlet, news));
            Some(change?(slot))
        };
        list.iter_mut().filter_map(refresh).collect()
    }

    /// Notes that the socket of an outlet is full, and waits for room.
    pub(super) fn block(
        &mut self,
        slot: usize,
        place: usize,
        interface: Option<u32>,
        poller: &Poller,
    ) {
        let id = self.interface_id(slot, interface.unwrap_or(0));
        let Some(InterfaceSocket { outlets, udp, .. }) = self.list.get_mut(&slot) else { return };
        let Some(outlet) = outlets.get(place) else { return };
        if outlet.blocked.is_empty() {
            let waits = match (&outlet.socket, udp) {
                (Some(own), _) => {
                    poller.add(own, Token::Outlet(slot, place).encode(), Interest::Write)
                }
                (None, Some(udp)) => {
                    poller.modify(udp, Token::Socket(slot).encode(), Interest::ReadWrite)
                }
                (None, None) => Ok(()),
            };
            if let Err(error) = waits {
                tracing::warn!(%error, "wait for room in a socket");
            }
        }
        if !outlet.blocked.contains(&id) {
            outlet.blocked.push(id);
            if !outlet.for_strangers {
                self.news.push((id, outlet.destination, true));
            }
        }
    }

    /// Notes that the socket of an outlet has room again.
    pub(super) fn unblock(&mut self, slot: usize, place: usize, poller: &Poller) {
        let Some(socket) = self.list.get_mut(&slot) else { return };
        let Some(outlet) = socket.outlets.get(place) else { return };
        let _ = match (&outlet.socket, &socket.udp) {
            (Some(own), _) => poller.remove(own),
            (None, Some(socket)) => {
                poller.modify(socket, Token::Socket(slot).encode(), Interest::Read)
            }
            (None, None) => Ok(()),
        };
        free(outlet, &mut self.news);
    }

    /// Closes sockets that have gone unused.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.list.values_mut().for_each(|socket| socket.outlets.tidy(now));
    }

    /// Returns the host's interfaces as they were last seen.
    pub(super) fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Names an interface as the session knows it: the socket's slot, and the kernel's number where
    /// it serves all interfaces, so that answers leave by the one that was asked.
    pub(super) fn interface_id(&self, slot: usize, index: u32) -> InterfaceId {
        let wildcard = self.list.get(&slot).is_some_and(|socket| socket.interface.is_none());
        InterfaceId(slot as u32 | if wildcard { index << SLOT_BITS } else { 0 })
    }

    /// Returns the slot and, where it serves all interfaces, the kernel's number.
    pub(super) fn place(&self, id: InterfaceId) -> Option<(usize, Option<u32>)> {
        if place_of(id).is_some() {
            return None;
        }
        let (slot, index) = (id.0 as usize % MAX_SOCKETS, id.0 >> SLOT_BITS);
        self.list.contains_key(&slot).then_some((slot, (index != 0).then_some(index)))
    }

    /// Returns what has taken the place of one of our addresses on an interface, with the port that
    /// we listen at; nothing while this host has the address, or has no other there.
    pub(super) fn successor(&self, id: InterfaceId, local: IpAddr) -> Option<SocketAddr> {
        let (slot, index) = self.place(id)?;
        let socket = self.list.get(&slot)?;
        // The list leaves link-local addresses out.
        let is_listed = !matches!(local, IpAddr::V6(local) if local.is_unicast_link_local());
        let is_here = self.interfaces.iter().any(|at| at.addresses.contains(&local));
        if !is_listed || is_here || !socket.listens || !socket.local.ip().is_unspecified() {
            return None;
        }
        let interface = self.interfaces.iter().find(|at| match index {
            Some(index) => at.index == index,
            None => socket.interface.as_ref() == Some(&at.name),
        })?;
        let other = interface.addresses.iter().find(|at| at.is_ipv4() == local.is_ipv4())?;
        Some((*other, socket.local.port()).into())
    }

    /// Returns how long IP packets are that an interface carries, where that is known.
    pub(super) fn interface_mtu(&self, id: InterfaceId) -> Option<usize> {
        let (slot, index) = self.place(id)?;
        let socket = self.list.get(&slot)?;
        let found = self.interfaces.iter().find(|at| match index {
            Some(index) => at.index == index,
            None => socket.interface.as_ref() == Some(&at.name),
        })?;
        usize::try_from(found.mtu).ok().filter(|mtu| *mtu > 0)
    }

    /// Returns the name of a path's interface, or what the file says of it.
    pub(super) fn interface_of(&self, slot: usize) -> Option<String> {
        self.list.get(&slot)?.interface.clone()
    }

    /// Returns the interface of a path, while the path can be bound to it.
    pub(super) fn link(&self, slot: usize) -> Option<Link> {
        let found = self.list.get(&slot)?.seen.as_ref()?;
        let families = Families::of(found.addresses.iter().copied());
        Some(Link { name: found.name.clone(), index: found.index, families })
    }

    /// Returns the name of the interface that an id stands for.
    pub(super) fn interface_name(&self, id: InterfaceId) -> String {
        let Some((slot, index)) = self.place(id) else { return String::new() };
        let Some(socket) = self.list.get(&slot) else { return String::new() };
        match (index, &socket.interface) {
            (Some(index), _) => {
                let found = self.interfaces.iter().find(|at| at.index == index);
                found.map_or_else(|| format!("#{index}"), |at| at.name.clone())
            }
            (None, Some(interface)) => interface.clone(),
            (None, None) => socket.name.clone(),
        }
    }

    fn add(&mut self, socket: InterfaceSocket) -> Option<usize> {
        let slots = (0..MAX_SOCKETS).map(|ahead| (self.next_slot + ahead) % MAX_SOCKETS);
        let slot = slots.into_iter().find(|slot| !self.list.contains_key(slot))?;
        self.next_slot = (slot + 1) % MAX_SOCKETS;
        self.list.insert(slot, socket);
        Some(slot)
    }
}

impl InterfaceSocket {
    /// Tells whether it is one of an address that is listened at.
    pub(super) fn listens(&self) -> bool {
        self.listens
    }

    /// Follows what another file says of a path that it has as well.
    pub(super) fn follow(&mut self, path: &PathConfig) {
        self.name.clone_from(&path.name);
        (self.group, self.beside) = (group_of(path), beside_of(path));
    }

    /// Tells whether it is there: it can send and receive, or make connections.
    pub(super) fn is_there(&self) -> bool {
        self.udp.is_some() || self.stream.is_some()
    }

    /// Tells whether connections carry its paths.
    pub(super) fn is_of_streams(&self) -> bool {
        self.carrier != Carrier::Udp
    }

    /// Tells whether the log has not told of an error yet since the socket was opened.
    pub(super) fn is_news(&mut self, error: &str) -> bool {
        let is_news = !self.said.iter().any(|said| said == error);
        if is_news {
            self.said.push(error.to_owned());
        }
        is_news
    }

    /// Opens the socket, where the interface is there.
    pub(super) fn open(
        &mut self,
        options: &UdpOptions,
        token: u64,
        poller: &Poller,
    ) -> std::io::Result<()> {
        // The old socket goes first: a fixed port can be bound once.
        (self.udp, self.stream) = (None, None);
        let interface = self.interface.clone();
        if self.is_of_streams() {
            return self.open_for_streams(token, poller);
        }
        let (local, shared) = (self.local, self.listens);
        let both_families = !shared && self.families == Families::BOTH;
        let mut options = UdpOptions { local, both_families, interface, shared, ..options.clone() };
        let socket = UdpSocket::bind(&options).or_else(|error| {
            // A kernel may have been told to know no IPv6.
            if !both_families || error.kind() == ErrorKind::NotFound {
                return Err(error);
            }
            options.local = (Ipv4Addr::UNSPECIFIED, 0).into();
            options.both_families = false;
            UdpSocket::bind(&options)
        });
        let socket = socket.map_err(|error| self.bind_error(&error))?;
        poller.add(&socket, token, Interest::Read)?;
        if shared {
            self.outlets = Outlets::shared(&socket, options);
        }
        self.udp = Some(socket);
        Ok(())
    }

    /// Waits for connections, or lets them be made.
    fn open_for_streams(&mut self, token: u64, poller: &Poller) -> std::io::Result<()> {
        let listener = if self.listens {
            let listener = Listener::bind(self.local, self.interface.as_deref())
                .map_err(|error| self.bind_error(&error))?;
            poller.add(&listener, token, Interest::Read)?;
            Some(listener)
        } else {
            None
        };
        self.stream = Some(listener);
        Ok(())
    }

    /// Says what could not be bound, and what to do.
    fn bind_error(&self, error: &std::io::Error) -> std::io::Error {
        let place = self.interface.as_ref().map_or(String::new(), |name| format!(" {name}"));
        let hint = match error.kind() {
            ErrorKind::AddrInUse if self.is_of_streams() => "; ss -tlpn shows who listens where",
            ErrorKind::AddrInUse => "; ss -ulpn shows who listens where",
            ErrorKind::AddrNotAvailable => "; no interface of this host has that address",
            _ => "",
        };
        let what = format!("bind {}{place}: {error}{hint}", self.local);
        std::io::Error::new(error.kind(), what)
    }

    /// Tells whether it is the one of an address that is listened at.
    fn is_of(&self, listen: &Listen) -> bool {
        let is_there = self.local == listen.address && self.wanted == listen.interface;
        self.listens && is_there && self.carrier == listen.carrier
    }

    /// Returns what it looks for, of one that is for an interface.
    fn seeker(&self) -> Option<Seeker<'_>> {
        let holds = self.seen.as_ref().map(|seen| seen.index);
        let Self { families, group, .. } = *self;
        Some(Seeker { wanted: self.wanted.as_deref()?, families, group, holds })
    }

    fn refresh(
        &mut self,
        found: Option<Found>,
        options: &UdpOptions,
        token: u64,
        poller: &Poller,
    ) -> Option<fn(usize) -> SocketChange> {
        let was_open = self.is_there();
        let stands = was_open && self.stands(found.as_ref());
        if let Some(found) = &found
            && self.interface.as_ref() != Some(&found.name)
        {
            let (link, wanted) = (&self.name, self.wanted.as_deref());
            tracing::info!(%link, interface = found.name, wanted, others = ?found.others, "interface chosen");
            self.interface = Some(found.name.clone());
        }
        self.seen = found;
        if stands {
            return None;
        }
        self.former = None;
        self.said.clear();
        match self.open(options, token, poller) {
            Ok(()) => {
                self.trouble = None;
                Some(if was_open { SocketChange::Anew } else { SocketChange::Up })
            }
            Err(error) => self.lose(error.to_string()),
        }
    }

    /// Tells whether the socket can stay: it is the same device, and no address was lost of the
    /// family that it sends to. One more address changes nothing for what is under way.
    fn stands(&self, now: Option<&Found>) -> bool {
        let (Some(seen), Some(now)) = (&self.seen, now) else { return self.wanted.is_none() };
        let mut used = seen.addresses.iter().filter(|at| at.is_ipv6() == self.sends_ipv6);
        seen.index == now.index && used.all(|address| now.addresses.contains(address))
    }

    fn lose(&mut self, trouble: String) -> Option<fn(usize) -> SocketChange> {
        let was_open = self.is_there();
        (self.udp, self.stream) = (None, None);
        self.former = None;
        // The list of other interfaces behind the semicolon changes without news about this one.
        let gist = |text: &str| text.split(';').next().map(str::to_owned);
        let news = self.trouble.as_deref().and_then(gist) != gist(&trouble);
        if news {
            tracing::warn!(link = %self.name, %trouble, "link absent; it joins when it can");
        }
        (self.trouble, self.seen) = (Some(trouble), None);
        was_open.then_some(SocketChange::Down)
    }
}

/// Notes that nothing waits for an outlet any more.
pub(super) fn free(outlet: &mut Outlet, news: &mut Vec<(InterfaceId, Option<SocketAddr>, bool)>) {
    let (destination, told) = (outlet.destination, !outlet.for_strangers);
    let freed = outlet.blocked.drain(..).map(|id| (id, destination, false));
    news.extend(freed.filter(|_| told));
}
