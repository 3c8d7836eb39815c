//! Where a client's far end is: an address, or the addresses of a name, which is looked up in a
//! thread of its own. The loop waits for no resolver: it looks for the answer now and then.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use proto::{Duration, Instant};

use crate::config::Remote;
use crate::names;

/// How often an answer is looked for while a name is looked up.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a name is looked up while there is no way to what it said, or nothing is heard from
/// there.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// A resolver that has not answered by then is asked again: the thread that waits for it may never
/// come back.
const ASKED_WITHIN: Duration = Duration::from_secs(60);

type Answer = Result<Vec<SocketAddr>, String>;

/// The addresses of a far end.
pub(super) struct Whereabouts {
    remote: Remote,
    addresses: Vec<SocketAddr>,
    next: usize,
    asked_at: Option<Instant>,
    /// Brings the answer of a lookup that is under way.
    answer: Option<Receiver<Answer>>,
    look_at: Instant,
    trouble: Option<String>,
}

impl Whereabouts {
    /// Knows what the file says.
    pub(super) fn new(remote: Remote) -> Self {
        let addresses = remote.address().into_iter().collect();
        let (next, asked_at, answer, trouble) = Default::default();
        Self { remote, addresses, next, asked_at, answer, look_at: Instant::ZERO, trouble }
    }

    /// Says why no address is known, or what is wrong with the name.
    pub(super) fn trouble(&self) -> String {
        let Remote::Name(host, _) = &self.remote else { return String::new() };
        match &self.trouble {
            Some(trouble) => format!("{host} {trouble}"),
            None => format!("{host} is being looked up"),
        }
    }

    /// Returns all addresses, most likely first.
    pub(super) fn all(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the addresses one after the other.
    pub(super) fn take_turn(&mut self) -> Option<SocketAddr> {
        let address = self.addresses.get(self.next % self.addresses.len().max(1)).copied();
        self.next = self.next.wrapping_add(1);
        address
    }

    /// Looks the name up, unless it was a short while ago.
    pub(super) fn ask(&mut self, now: Instant) {
        let Remote::Name(host, port) = &self.remote else { return };
        let every = if self.answer.is_some() { ASKED_WITHIN } else { ASK_EVERY };
        if self.asked_at.is_some_and(|at| now.since(at) < every) {
            return;
        }
        let (sender, answer) = channel();
        let (host, port) = (host.clone(), *port);
        let asker = move || {
            // Nobody waits any more where the endpoint is gone.
            let _ = sender.send(names::look_up(&host, port));
        };
        (self.asked_at, self.look_at) = (Some(now), now + LOOK_EVERY);
        match std::thread::Builder::new().name("names".into()).spawn(asker) {
            Ok(_) => self.answer = Some(answer),
            Err(error) => self.trouble = Some(format!("cannot be looked up: {error}")),
        }
    }

    /// When an answer is to be looked for; never while none is awaited.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.answer.as_ref().map(|_| self.look_at)
    }

    /// Takes the answer where there is one; returns whether it says something else than the one
    /// before.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let Some(answer) = self.answer.as_ref().filter(|_| self.look_at <= now) else {
            return false;
        };
        let found = match answer.try_recv() {
            Ok(found) => found,
            Err(TryRecvError::Empty) => {
                self.look_at = now + LOOK_EVERY;
                return false;
            }
            Err(TryRecvError::Disconnected) => Err("cannot be looked up".into()),
        };
        self.answer = None;
        match found {
            Ok(mut addresses) => {
                self.trouble = None;
                // Programs wait at IPv4 as a rule, also where their host has both: "localhost".
                addresses.sort_by_key(SocketAddr::is_ipv6);
                let is_news = self.addresses != addresses;
                self.addresses = addresses;
                is_news
            }
            Err(trouble) => {
                if self.trouble.as_ref() != Some(&trouble) {
                    tracing::warn!("{} {trouble}; it is tried again", self.remote);
                }
                // What it was before may still be right.
                self.trouble = Some(trouble);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_beside_the_loop_and_again_when_it_is_asked_for() {
        let mut far = Whereabouts::new(Remote::Name("localhost".into(), 14_550));
        assert_eq!((far.take_turn(), far.timeout()), (None, None));
        assert_eq!(far.trouble(), "localhost is being looked up");
        let mut now = Instant::from_millis(0);
        far.ask(now);
        while !far.handle_timeout(now) {
            now = far.timeout().unwrap();
            std::thread::sleep(Duration::from_millis(10).into());
        }
        assert!(far.all().iter().all(|address| address.port() == 14_550));
        let turns: Vec<_> = (0..4).filter_map(|_| far.take_turn()).collect();
        assert_eq!(turns[0], turns[far.all().len() % 4]);
        far.ask(now);
        assert_eq!(far.timeout(), None, "it was asked a moment ago");
        now += ASK_EVERY;
        far.ask(now);
        assert!(far.timeout().is_some());
    }

    #[test]
    fn a_name_that_nobody_has_is_told() {
        let mut far = Whereabouts::new(Remote::Name("nobody.invalid".into(), 1));
        let mut now = Instant::from_millis(0);
        far.ask(now);
        while far.timeout().is_some() {
            now += LOOK_EVERY;
            assert!(!far.handle_timeout(now));
            std::thread::sleep(Duration::from_millis(10).into());
        }
        assert!(
            far.trouble().starts_with("nobody.invalid cannot be looked up: "),
            "{}",
            far.trouble()
        );
    }
}
