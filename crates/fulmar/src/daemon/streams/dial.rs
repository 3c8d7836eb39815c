//! The drone's side: a connection for each path that is over one, made again when it ends, and a
//! fresh one beside one that stands still.
//!
//! ```text
//! none                         dial now, and every second, each try for 3 s
//! nothing arrived for 1 s      (three round trips, where these take longer) dial likewise: after an
//!                              outage the old one waits for its next repeat, a fresh one does not
//! through a proxy              also where the path is suspected and nothing came for 3 s: what has
//!                              arrived at the proxy may wait there
//! a try comes about            through a proxy: it is asked for the station's address, the next one
//!                              with each try, and the rest holds once it says that the way is open
//!                              it is the path's connection; the old one is kept until the new one
//!                              has brought something, for whoever accepts need not be the station
//! the old one goes on first    the tries end, and the new one as well
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proto::{Duration, Instant, PathState};
use sys::connection::Connection;
use sys::poller::Interest;

use super::super::Daemon;
use super::super::tokens::Token;
use super::{Standing, Streams, proxy};

/// Time between two tries.
const TRY_EVERY: Duration = Duration::from_secs(1);
/// How long one lasts: beyond the round trip of a satellite, and a first SYN that was lost.
const TRY_FOR: Duration = Duration::from_secs(3);
/// How long nothing may have arrived of what is under way: longer than the kernel takes to repeat
/// what one loss took, and a repeat that was lost as well.
const STANDS: Duration = Duration::from_secs(1);

/// A drone's paths over connections, by slot.
#[derive(Default)]
pub(super) struct Dials(BTreeMap<usize, Dial>);

/// How a path comes to its connection.
pub(super) struct Dial {
    /// The address that the session knows its other end by, whichever of its addresses it is at.
    label: SocketAddr,
    /// Its connection.
    pub(super) current: Option<usize>,
    /// The one before, while its successor has brought nothing.
    spare: Option<usize>,
    /// Tries under way, with when each began.
    tries: Vec<(usize, Instant)>,
    next_at: Instant,
    /// Which of the station's addresses a proxy is asked for next.
    asked_for: usize,
    /// Whether it is to have one: not while UDP does.
    pub(super) is_wanted: bool,
    /// Connections that came about.
    pub(super) made: u64,
    /// Why the last try failed.
    pub(super) trouble: Option<String>,
}

impl Dials {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Dial> {
        self.0.get(&slot)
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Dial> {
        self.0.get_mut(&slot)
    }

    /// Forgets a connection that has ended; returns the slot, label and place of the one that the
    /// path goes on by.
    pub(super) fn forget(&mut self, place: usize) -> Option<(usize, SocketAddr, usize)> {
        let mut goes_on = None;
        for (&slot, dial) in &mut self.0 {
            dial.spare.take_if(|spare| *spare == place);
            if dial.current.take_if(|current| *current == place).is_some() {
                dial.current = dial.spare.take();
                goes_on = dial.current.map(|spare| (slot, dial.label, spare));
            }
            dial.tries.retain(|(one, _)| *one != place);
        }
        goes_on
    }
}

#[cfg(test)]
impl Dial {
    /// Gives it a connection, with one before.
    pub(super) fn set(&mut self, [spare, current]: [usize; 2]) {
        (self.spare, self.current) = (Some(spare), Some(current));
    }
}

impl Streams {
    /// Has a drone's path dialled; returns the address that the session is to know its other end
    /// by: the first that was ever known.
    pub(in super::super) fn add_dial(
        &mut self,
        slot: usize,
        label: SocketAddr,
        stands_in: bool,
    ) -> SocketAddr {
        let (current, spare, tries, trouble) = Default::default();
        let (next_at, asked_for, is_wanted, made) = (Instant::ZERO, 0, !stands_in, 0);
        let new =
            Dial { label, current, spare, tries, next_at, asked_for, is_wanted, made, trouble };
        self.dials.0.entry(slot).or_insert(new).label
    }

    /// Forgets a drone's path, whose connections have ended.
    pub(in super::super) fn remove_dial(&mut self, slot: usize) {
        self.dials.0.remove(&slot);
    }

    /// Notes that a drone's connection has brought something: of two, it is the path's.
    pub(super) fn settle(&mut self, place: usize) {
        let Some(slot) = self.get(place).map(|stream| stream.slot) else { return };
        let Some(Dial { current, spare, .. }) = self.dials.get(slot) else { return };
        let other = match Some(place) {
            own if own == *current => *spare,
            own if own == *spare => *current,
            _ => None,
        };
        other.into_iter().for_each(|other| self.end(other));
    }

    /// Tells whether a drone's path has a connection.
    pub(in super::super) fn is_carried(&self, slot: usize) -> bool {
        self.dials.get(slot).is_some_and(|dial| dial.current.is_some())
    }

    /// Ends what is not needed any more, and lists the slots that are to be dialled.
    fn due(
        &mut self,
        now: Instant,
        is_there: impl Fn(usize) -> bool,
        is_lost: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let (mut due, mut over) = (Vec::new(), Vec::new());
        for (&slot, dial) in &mut self.dials.0 {
            let list = &self.list;
            let stands = |place: usize| {
                let stream = list.get(place)?.as_ref()?;
                let rtt = stream.connection.info().map_or(Duration::ZERO, |info| info.srtt);
                let is_mute = is_lost(slot) && now.since(stream.heard) >= TRY_FOR;
                Some(is_mute || stream.stands_for(now) >= STANDS.max(rtt * 3))
            };
            let is_needed = dial.current.is_none_or(|place| stands(place).unwrap_or(true));
            let is_wanted = dial.is_wanted && is_there(slot);
            let is_over = |since: Instant| now.since(since) >= TRY_FOR;
            let ends = |at: Instant| !is_wanted || !is_needed || is_over(at);
            over.extend(dial.tries.iter().filter(|(_, at)| ends(*at)).map(|(place, _)| *place));
            over.extend(dial.current.filter(|_| !is_wanted));
            if is_wanted && is_needed && dial.next_at <= now {
                dial.next_at = now + TRY_EVERY;
                due.push(slot);
            }
        }
        over.into_iter().for_each(|place| self.end(place));
        due
    }
}

impl Daemon {
    /// Dials for the paths that need a connection.
    pub(super) fn dial(&mut self, now: Instant) {
        let Self { streams, sockets, paths, endpoint, .. } = self;
        let is_there = |slot| sockets.list.get(&slot).is_some_and(|socket| socket.is_there());
        // A proxy takes what is sent, whatever becomes of it.
        let is_lost = |slot| {
            let path = paths.get(&slot).filter(|path| path.config.proxy.is_some());
            let known = path.and_then(|path| path.path);
            known.is_some_and(|known| {
                let mut all = endpoint.paths(known.session);
                all.any(|it| it.id == known.path && it.state == PathState::Suspected)
            })
        };
        for slot in streams.due(now, is_there, is_lost) {
            self.remotes.look_up(now, slot);
            let Self { streams, sockets, remotes, poller, .. } = self;
            let Some(to) = remotes.in_turn(slot) else { continue };
            let interface = sockets.interface_of(slot);
            let begun = Connection::begin(to, interface.as_deref());
            let begun = begun.and_then(|connection| {
                streams.add(now, (connection, Standing::Dialled), (slot, to), poller)
            });
            let Some(dial) = streams.dials.get_mut(slot) else { continue };
            match begun {
                Ok(place) => dial.tries.push((place, now)),
                Err(error) => dial.trouble = Some(format!("connect to {to}: {error}")),
            }
        }
    }

    /// Takes note that a connection has come about or failed.
    pub(super) fn finish_dial(&mut self, now: Instant, place: usize) {
        let Self { streams, paths, poller, .. } = self;
        let Some(stream) = streams.get_mut(place) else { return };
        let failure = stream.connection.failure();
        if failure.is_none() && !stream.connection.is_there() {
            return;
        }
        let made = poller.modify(&stream.connection, Token::Stream(place).encode(), Interest::Read);
        if let Some(error) = failure.or(made.err()) {
            let at = stream.remote;
            return self.give_up(now, place, format!("connect to {at}: {error}"));
        }
        let (slot, at) = (stream.slot, stream.remote);
        let proxy = paths.get(&slot).and_then(|path| path.config.proxy.as_ref());
        let Some(proxy) = proxy else { return self.take_over(now, place) };
        stream.standing = Standing::Asked;
        let Some(dial) = streams.dials.get_mut(slot) else { return };
        let to = &proxy.targets[dial.asked_for % proxy.targets.len()];
        dial.asked_for = (dial.asked_for + 1) % proxy.targets.len();
        let request = proxy::request(to, proxy.login.as_ref());
        // All of it fits: nothing has been written there.
        let asked = streams.get_mut(place).map(|it| it.connection.write(request.as_bytes()));
        if let Some(Err(error)) = asked {
            self.give_up(now, place, format!("the proxy {at}: {error}"));
        }
    }

    /// Reads what a proxy answers.
    pub(super) fn hear_proxy(&mut self, now: Instant, place: usize) {
        let Self { streams, paths, .. } = self;
        let Some(stream) = streams.get_mut(place) else { return };
        let login = paths.get(&stream.slot).and_then(|path| path.config.proxy.as_ref());
        let has_login = login.is_some_and(|proxy| proxy.login.is_some());
        let mut buffer = [0; 1_024];
        let heard = match stream.connection.read(&mut buffer) {
            Ok(None) => return,
            Ok(Some(0)) => Err("closes the connection".into()),
            Ok(Some(bytes)) => {
                stream.answer.extend_from_slice(&buffer[..bytes]);
                proxy::is_open(&stream.answer, has_login)
            }
            Err(error) => Err(format!("ends the connection: {error}")),
        };
        match heard {
            Ok(false) => {}
            Ok(true) => {
                stream.answer = Vec::new();
                self.take_over(now, place);
            }
            Err(why) => {
                let at = stream.remote;
                self.give_up(now, place, format!("the proxy {at} {why}"));
            }
        }
    }

    /// Ends a try, and says why.
    fn give_up(&mut self, now: Instant, place: usize, why: String) {
        let Some(stream) = self.streams.get(place) else { return };
        if let Some(dial) = self.streams.dials.get_mut(stream.slot) {
            dial.trouble = Some(why);
        }
        self.streams.end(place);
        self.drop_ended(now);
    }

    /// Makes a try that has come about the connection of its path.
    fn take_over(&mut self, now: Instant, place: usize) {
        let Self { streams, .. } = self;
        let Some(stream) = streams.get(place) else { return };
        let (slot, at) = (stream.slot, stream.remote);
        let Some(dial) = streams.dials.get_mut(slot) else { return };
        // Of more than two the first may still come back; the last did not.
        let old = dial.current.take();
        let ends = if dial.spare.is_none() { std::mem::replace(&mut dial.spare, old) } else { old };
        let label = dial.label;
        dial.tries.retain(|(one, _)| *one != place);
        let others = std::mem::take(&mut dial.tries);
        dial.current = Some(place);
        dial.made += 1;
        dial.trouble = None;
        others.into_iter().for_each(|(other, _)| streams.end(other));
        if let Some(old) = ends {
            streams.end(old);
        }
        self.drop_ended(now);
        self.set_carried(now, slot, false);
        if let Some(stream) = self.streams.get_mut(place) {
            (stream.standing, stream.remote) = (Standing::Own, label);
            (stream.since, stream.heard) = (now, now);
        }
        self.streams.by_remote.insert((slot, label), place);
        if let Some(socket) = self.sockets.list.get_mut(&slot) {
            socket.sends_ipv6 = at.ip().to_canonical().is_ipv6();
        }
        tracing::info!(link = %self.sockets.list[&slot].name, %at, "connected by TCP");
        self.set_carried(now, slot, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_on_by_the_connection_before_where_a_new_one_ends() {
        let label = ([192, 0, 2, 1], 443).into();
        let (next_at, trouble) = (Instant::ZERO, None);
        let (current, spare, tries) = (Some(8), Some(7), vec![(9, Instant::ZERO)]);
        let (asked_for, is_wanted, made) = (0, true, 2);
        let dial =
            Dial { label, current, spare, tries, next_at, asked_for, is_wanted, made, trouble };
        let mut dials = Dials(BTreeMap::from([(3, dial)]));
        assert_eq!(dials.forget(9), None, "a try");
        assert_eq!(dials.forget(8), Some((3, label, 7)));
        assert_eq!(dials.get(3).map(|dial| dial.current), Some(Some(7)));
        assert_eq!(dials.forget(7), None);
        assert_eq!(dials.get(3).map(|dial| dial.current), Some(None));
    }
}
