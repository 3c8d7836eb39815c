//! Sockets that only send: a station has one for each address that it speaks to, and one for
//! strangers.
//!
//! The kernel keeps a datagram for three seconds while it looks for a neighbour that does not
//! answer, and counts it against its socket. With one socket for all, an attacker that asks from
//! addresses that do not exist, or a drone that has left a network, would hold up everybody. A
//! drone's path has one remote address, and sends through the socket that it receives by.

use std::net::SocketAddr;

use proto::{Duration, Instant, InterfaceId};
use sys::udp::{UdpOptions, UdpSocket};

/// Addresses that may have a socket of their own; beyond that, the one unused for longest makes
/// room.
const MOST: usize = 256;
/// A socket that was not used for this long is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes of answers to strangers that may wait: three seconds of two thousand a second. Where the
/// system allows less, it is less.
const STRANGERS_BUFFER: usize = 4 << 20;

/// One way out.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    /// The address that it is for; none serves all others.
    pub(super) destination: Option<SocketAddr>,
    /// Its socket; none sends through the one at the interface.
    pub(super) socket: Option<UdpSocket>,
    /// Interfaces, as the session knows them, that wait until the socket's buffer has room again;
    /// empty while it has.
    pub(super) blocked: Vec<InterfaceId>,
    /// No session waits for what leaves here, so it is dropped when the socket is full.
    pub(super) for_strangers: bool,
    used: Instant,
}

/// The outlets at an interface; the first serves every address that has none of its own.
#[derive(Debug)]
pub(super) struct Outlets {
    list: Vec<Option<Outlet>>,
    /// How sockets are opened beside the one at the interface; none where there is only one remote
    /// address.
    options: Option<UdpOptions>,
}

impl Default for Outlets {
    fn default() -> Self {
        Self { list: vec![Some(Outlet::default())], options: None }
    }
}

impl Outlets {
    /// Makes the outlets of a socket that answers many.
    pub(super) fn shared(own: &UdpSocket, options: UdpOptions) -> Self {
        if !own.may_share() {
            tracing::warn!(
                "this kernel cannot keep the addresses sent to apart: one that does not answer may delay the others"
            );
            return Self::default();
        }
        let strangers = UdpOptions { send_buffer: STRANGERS_BUFFER, ..options.clone() };
        let socket = opened(own, &strangers);
        let first = Outlet { for_strangers: socket.is_some(), socket, ..Outlet::default() };
        Self { list: vec![Some(first)], options: Some(options) }
    }

    /// Returns the outlet for a destination; a path gets one of its own, `own` being the one at the
    /// interface.
    pub(super) fn find(
        &mut self,
        now: Instant,
        destination: SocketAddr,
        of_path: bool,
        own: Option<&UdpSocket>,
    ) -> usize {
        let Some(options) = &self.options else { return 0 };
        let is_it = |outlet: &Outlet| outlet.destination == Some(destination);
        if let Some(found) = self.list.iter().position(|at| at.as_ref().is_some_and(is_it)) {
            if let Some(outlet) = &mut self.list[found] {
                outlet.used = now;
            }
            return found;
        }
        let Some(socket) = own.filter(|_| of_path).and_then(|own| opened(own, options)) else {
            return 0;
        };
        let destination = Some(destination);
        let outlet = Outlet { destination, socket: Some(socket), used: now, ..Outlet::default() };
        let Some(place) = self.place() else { return 0 };
        self.list[place] = Some(outlet);
        place
    }

    /// Returns an outlet while it is there.
    pub(super) fn get(&mut self, place: usize) -> Option<&mut Outlet> {
        self.list.get_mut(place)?.as_mut()
    }

    /// Walks the outlets.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Outlet)> {
        let numbered = self.list.iter_mut().enumerate();
        numbered.filter_map(|(place, outlet)| Some((place, outlet.as_mut()?)))
    }

    /// Tells whether any is full.
    pub(super) fn is_any_blocked(&self) -> bool {
        self.list.iter().flatten().any(|outlet| !outlet.blocked.is_empty())
    }

    /// Closes sockets that have gone unused.
    pub(super) fn tidy(&mut self, now: Instant) {
        for outlet in self.list.iter_mut().skip(1) {
            outlet.take_if(|one| one.blocked.is_empty() && now.since(one.used) >= IDLE);
        }
    }

    /// Finds a free place, or frees the one that was used longest ago and has nothing waiting.
    fn place(&mut self) -> Option<usize> {
        if let Some(free) = self.list.iter().position(Option::is_none) {
            return Some(free);
        }
        if self.list.len() <= MOST {
            self.list.push(None);
            return Some(self.list.len() - 1);
        }
        let used = |place: usize| {
            let outlet = self.list[place].as_ref().filter(|outlet| outlet.blocked.is_empty());
            Some((outlet?.used, place))
        };
        (1..self.list.len()).filter_map(used).min().map(|(_, place)| place)
    }
}

/// Opens a socket beside the one at the interface; without it that one serves all.
fn opened(own: &UdpSocket, options: &UdpOptions) -> Option<UdpSocket> {
    let socket = own.beside(options);
    socket.inspect_err(|error| tracing::debug!(%error, "open a socket to send through")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> UdpOptions {
        UdpOptions {
            local: "127.0.0.1:0".parse().unwrap(),
            both_families: false,
            interface: None,
            send_buffer: 65_536,
            receive_buffer: 65_536,
            segmentation: true,
            shared: true,
        }
    }

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn each_address_of_a_path_has_its_own_and_strangers_share_one() {
        let own = UdpSocket::bind(&options()).unwrap();
        let mut outlets = Outlets::shared(&own, options());
        let mut find = |ms, port, of_path| {
            outlets.find(Instant::from_millis(ms), address(port), of_path, Some(&own))
        };
        assert_eq!((find(1, 1_000, false), find(1, 1_001, false)), (0, 0));
        let (one, two) = (find(2, 1_000, true), find(3, 1_001, true));
        assert!(one != two && one > 0 && two > 0);
        assert_eq!(find(4, 1_000, false), one, "an answer to an address that is known");
        outlets.tidy(Instant::from_millis(3) + IDLE);
        assert!(outlets.get(two).is_none() && outlets.get(one).is_some());
        assert!(outlets.get(0).is_some_and(|first| first.for_strangers));
    }

    #[test]
    fn sockets_are_bounded_and_the_oldest_makes_room() {
        let own = UdpSocket::bind(&options()).unwrap();
        let mut outlets = Outlets::shared(&own, options());
        for count in 0..2 * MOST as u64 {
            let to = address(1_000 + count as u16);
            outlets.find(Instant::from_millis(count), to, true, Some(&own));
        }
        assert_eq!(outlets.list.len(), MOST + 1);
        let newest = address(1_000 + 2 * MOST as u16 - 1);
        assert!(outlets.iter_mut().any(|(_, outlet)| outlet.destination == Some(newest)));
    }

    #[test]
    fn with_one_remote_address_all_goes_through_the_socket_at_the_interface() {
        let mut outlets = Outlets::default();
        assert_eq!(outlets.find(Instant::ZERO, address(1), true, None), 0);
        assert!(outlets.get(0).is_some_and(|own| own.socket.is_none() && !own.for_strangers));
    }
}
