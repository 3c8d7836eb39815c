//! The connection of a TCP client: begun without waiting for it, given up where nobody answers, and
//! begun again each second.

use std::io;
use std::net::{SocketAddr, TcpStream};

use proto::{Duration, Instant};
use sys::byte_stream::begin_connect;
use sys::poller::{Interest, Poller};

use super::whereabouts::Whereabouts;
use crate::awaited::RETRY;
use crate::config::Remote;

/// How long an address may take to answer: three of the kernel's attempts.
const WITHIN: Duration = Duration::from_secs(5);

/// Connects to a far end.
pub(super) struct Dialer {
    remote: Remote,
    far: Whereabouts,
    under_way: Option<UnderWay>,
    /// When the next attempt begins while none is under way.
    due: Instant,
    /// Why there is no connection; the log is told of each reason once.
    trouble: Option<String>,
}

struct UnderWay {
    stream: TcpStream,
    to: SocketAddr,
    since: Instant,
}

impl Dialer {
    /// Begins at the first [`Dialer::handle_timeout`].
    pub(super) fn new(remote: Remote) -> Self {
        let far = Whereabouts::new(remote.clone());
        Self { remote, far, under_way: None, due: Instant::ZERO, trouble: None }
    }

    /// Says why there is no connection.
    pub(super) fn trouble(&self) -> String {
        match &self.trouble {
            Some(trouble) => format!("not connected: {trouble}; it is tried every second"),
            None => "not connected yet".into(),
        }
    }

    /// When something is due, while there is no connection.
    pub(super) fn timeout(&self) -> Instant {
        let own = self.under_way.as_ref().map_or(self.due, |one| one.since + WITHIN);
        self.far.timeout().map_or(own, |look| own.min(look))
    }

    /// Begins an attempt where one is due, or gives one up. What is polled under `token` is ready
    /// for [`Dialer::handle_ready`].
    pub(super) fn handle_timeout(&mut self, now: Instant, token: u64, poller: &Poller) {
        if self.far.handle_timeout(now) && self.under_way.is_none() {
            self.due = now;
        }
        if let Some(one) = &self.under_way {
            if now.since(one.since) >= WITHIN {
                self.fail(now, format!("{} does not answer", one.to));
            }
            return;
        }
        if self.due > now {
            return;
        }
        self.due = now + RETRY;
        if self.far.all().is_empty() || self.trouble.is_some() {
            self.far.ask(now);
        }
        let Some(to) = self.far.take_turn() else {
            let trouble = self.far.trouble();
            return self.note(trouble);
        };
        let begun = begin_connect(to).and_then(|stream| {
            poller.add(&stream, token, Interest::Write)?;
            Ok(stream)
        });
        match begun {
            Ok(stream) => self.under_way = Some(UnderWay { stream, to, since: now }),
            Err(error) => self.fail(now, format!("{to}: {error}")),
        }
    }

    /// Returns the connection, where it has come about; the poller does not look at it any more.
    pub(super) fn handle_ready(&mut self, now: Instant, poller: &Poller) -> Option<TcpStream> {
        let UnderWay { stream, to, .. } = self.under_way.take()?;
        let _ = poller.remove(&stream);
        match stands(&stream) {
            Ok(()) => {
                self.trouble = None;
                tracing::info!("TCP to {}: connected to {to}", self.remote);
                Some(stream)
            }
            Err(error) => {
                self.fail(now, format!("{to}: {error}"));
                None
            }
        }
    }

    /// Notes that the connection has ended: another is begun, a second after the last attempt at
    /// the earliest.
    pub(super) fn lose(&mut self) {
        self.note("the other end has closed the connection".into());
    }

    fn fail(&mut self, now: Instant, trouble: String) {
        self.under_way = None;
        self.due = self.due.max(now);
        self.note(trouble);
    }

    fn note(&mut self, trouble: String) {
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!("TCP to {}: {trouble}; it is tried every second", self.remote);
        }
        self.trouble = Some(trouble);
    }
}

fn stands(stream: &TcpStream) -> io::Result<()> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    // Where nobody listens at a port that the kernel gives out, it may connect us with ourselves.
    if stream.peer_addr()? == stream.local_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(())
}
