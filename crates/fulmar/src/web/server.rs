//! Connections: how many, how long, how large a request may be.
//!
//! One thread serves all of them. What is bounded here: connections, in all and of one address; the time of a
//! handshake, of a request's head, of a whole connection; and the size of a head. Nobody is turned away for want of room:
//! a newcomer takes the place of who matters least ([`Connections`]), so that those who hold connections open hold
//! nobody up.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::access::{Verdict, network};
use super::arguments::Plan;
use super::routes::{Site, answer};

/// Connections at a time.
const CONNECTIONS: usize = 128;
/// Connections of one address that is neither this host's nor a proxy's, whose users share them.
const OF_ONE_ADDRESS: usize = 24;
/// How long a TLS handshake may take, and how long a connection may wait for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection lives: who reads slowly holds it no longer. A browser opens another one without a word.
const LIFETIME: Duration = Duration::from_secs(120);
/// How long the last answer may take then.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// The largest head of a request.
const HEAD: usize = 16 << 10;

/// A server that listens.
pub(super) struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    address: String,
}

/// Waits for SIGTERM or SIGINT; from its making on they do not end the process by themselves.
///
/// # Errors
/// Those of the signal handlers.
pub(super) fn end() -> io::Result<impl Future<Output = ()>> {
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    Ok(async move {
        let [terminate, interrupt] = &mut signals;
        first(terminate, interrupt).await;
    })
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    /// Says why it cannot be had.
    pub(super) async fn open(plan: &Plan) -> Result<Self, String> {
        let listener = TcpListener::bind(plan.listen).await.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "; another program is there (ss -tlpn shows which), --listen names another place"
                }
                io::ErrorKind::AddrNotAvailable => "; no interface of this host has that address",
                io::ErrorKind::PermissionDenied => "; ports below 1024 need root",
                _ => "",
            };
            format!("listen at {}: {error}{hint}", plan.listen)
        })?;
        let at = listener.local_addr().map_err(|error| error.to_string())?;
        let scheme = if plan.tls.is_some() { "https" } else { "http" };
        let tls = plan.tls.clone().map(TlsAcceptor::from);
        Ok(Self { listener, tls, address: format!("{scheme}://{at}/") })
    }

    /// Returns what to type into a browser.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Serves until `end` comes.
    pub(super) async fn run(self, site: Arc<Site>, end: impl Future<Output = ()>) {
        let served = self.serve(site);
        let (mut served, mut end) = (std::pin::pin!(served), std::pin::pin!(end));
        std::future::poll_fn(|context| {
            let _ = served.as_mut().poll(context);
            end.as_mut().poll(context)
        })
        .await;
    }

    async fn serve(&self, site: Arc<Site>) {
        // An ended task gives its place back a moment after it was ended.
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let connections = Connections::default();
        loop {
            let (stream, from) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => {
                    // Out of descriptors, for instance: the next try finds some.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let from = from.ip();
            let is_shared = from.to_canonical().is_loopback() || site.access.is_proxy(from);
            let place = Arc::new(connections.enter(network(from), is_shared));
            // Nobody closes it: this only waits.
            let permit = room.clone().acquire_owned().await.ok();
            let (site, tls, held) = (site.clone(), self.tls.clone(), place.clone());
            let task = tokio::spawn(async move {
                serve_stream(stream, from, site, tls, held).await;
                drop(permit);
            });
            place.ends_by(task.abort_handle());
        }
    }
}

async fn first(one: &mut Signal, other: &mut Signal) {
    std::future::poll_fn(|context| {
        if one.poll_recv(context).is_ready() || other.poll_recv(context).is_ready() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

async fn serve_stream(
    stream: TcpStream,
    from: IpAddr,
    site: Arc<Site>,
    tls: Option<TlsAcceptor>,
    place: Arc<Place>,
) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve_connection(stream, from, site, place).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(PATIENCE, tls.accept(stream)).await {
                serve_connection(stream, from, site, place).await;
            }
        }
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    from: IpAddr,
    site: Arc<Site>,
    place: Arc<Place>,
) {
    let service = service_fn(move |request| {
        let (site, place) = (site.clone(), place.clone());
        async move {
            place.begin();
            let (answer, verdict) = answer(&site, request, from).await;
            place.end(verdict == Verdict::Welcome);
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    if timeout(LIFETIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_WORDS, connection).await;
    }
}

/// The connections that there are. Where one more finds no room, another one ends: first of those who have not shown that
/// they may look, then of those who may; of either first one that waits for a request, then one that is being answered;
/// and of equals the one that has been so for longest. An answer takes milliseconds, or some seconds where the page waits
/// for news and asks again.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Entry>,
}

struct Entry {
    from: IpAddr,
    may_look: bool,
    is_busy: bool,
    since: Instant,
    task: Option<AbortHandle>,
}

/// A connection's place among them.
struct Place(Connections, u64);

impl Connections {
    /// Makes room for one more, whose address many may share.
    fn enter(&self, from: IpAddr, is_shared: bool) -> Place {
        let mut table = self.table();
        let of_one = table.open.values().filter(|entry| entry.from == from).count();
        if !is_shared && of_one >= OF_ONE_ADDRESS {
            table.end_one(|entry| entry.from == from);
        }
        if table.open.len() >= CONNECTIONS {
            table.end_one(|_| true);
        }
        let number = table.next;
        table.next += 1;
        let (may_look, is_busy, since) = (false, false, Instant::now());
        let entry = Entry { from, may_look, is_busy, since, task: None };
        table.open.insert(number, entry);
        Place(self.clone(), number)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Ends the connection that matters least of some.
    fn end_one(&mut self, is_one: impl Fn(&Entry) -> bool) {
        let some = self.open.iter().filter(|(_, entry)| is_one(entry));
        let least = some.min_by_key(|(_, entry)| (entry.may_look, entry.is_busy, entry.since));
        let Some(number) = least.map(|(number, _)| *number) else { return };
        if let Some(task) = self.open.remove(&number).and_then(|entry| entry.task) {
            task.abort();
        }
    }
}

impl Place {
    /// Says how the connection is ended; at once where that was wanted before.
    fn ends_by(&self, task: AbortHandle) {
        match self.0.table().open.get_mut(&self.1) {
            Some(entry) => entry.task = Some(task),
            None => task.abort(),
        }
    }

    /// Notes that a request is being answered.
    fn begin(&self) {
        self.note(|entry| entry.is_busy = true);
    }

    /// Notes that it was, and whether who asked may look.
    fn end(&self, may_look: bool) {
        self.note(|entry| (entry.is_busy, entry.may_look) = (false, entry.may_look || may_look));
    }

    fn note(&self, note: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.0.table().open.get_mut(&self.1) {
            note(entry);
            entry.since = Instant::now();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.table().open.remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of some connections are still there.
    fn there(connections: &Connections, places: &[Place]) -> Vec<bool> {
        let table = connections.table();
        places.iter().map(|place| table.open.contains_key(&place.1)).collect()
    }

    #[test]
    fn a_newcomer_takes_the_place_of_who_matters_least() {
        let connections = Connections::default();
        let address = |number: u8| IpAddr::from([10, 0, 0, number]);
        let places: Vec<Place> = (0..CONNECTIONS as u8)
            .map(|number| connections.enter(address(number), false))
            .collect();
        // The first four: may look and is answered, may look, is answered, waits; the others wait and came later.
        places[0].end(true);
        places[1].end(true);
        places[0].begin();
        places[2].begin();
        let enter = || connections.enter(address(200), true);
        let mut newcomers = vec![enter()];
        let expected: Vec<bool> = (0..CONNECTIONS).map(|at| at != 3).collect();
        assert_eq!(there(&connections, &places), expected);
        newcomers.extend((0..CONNECTIONS - 4).map(|_| enter()));
        let left = |count: usize| (0..CONNECTIONS).map(|at| at < count).collect::<Vec<_>>();
        assert_eq!(there(&connections, &places), left(3), "those that wait go first");
        newcomers.iter().for_each(|newcomer| newcomer.begin());
        newcomers.push(enter());
        newcomers.push(enter());
        assert!(there(&connections, &places)[..2].iter().all(|there| *there), "they may look");
        assert_eq!(connections.table().open.len(), CONNECTIONS);
    }

    #[test]
    fn one_address_has_its_share_and_makes_room_among_its_own() {
        let connections = Connections::default();
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let first = connections.enter(other, false);
        let places: Vec<Place> =
            (0..2 * OF_ONE_ADDRESS).map(|_| connections.enter(one, false)).collect();
        let expected: Vec<bool> = (0..2 * OF_ONE_ADDRESS).map(|at| at >= OF_ONE_ADDRESS).collect();
        assert_eq!(there(&connections, &places), expected);
        assert_eq!(there(&connections, &[first]), [true]);
        let shared: Vec<Place> =
            (0..2 * OF_ONE_ADDRESS).map(|_| connections.enter(other, true)).collect();
        assert!(there(&connections, &shared).iter().all(|there| *there));
    }
}
