//! Connections: how many, how long, how large a request may be.
//!
//! One thread serves all of them. What is bounded here: connections, in all and of one address; the time of a
//! handshake, of a request's head, of a whole connection; and the size of a head.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::arguments::Plan;
use super::routes::{Site, answer};

/// Connections at a time.
const CONNECTIONS: usize = 128;
/// Connections of one address that is not this host's; behind a proxy all are the proxy's.
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
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let counts = Counts::default();
        loop {
            // Nobody closes it: this only waits.
            let permit = room.clone().acquire_owned().await.ok();
            let (stream, from) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => {
                    // Out of descriptors, for instance: the next try finds some.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Some(place) = counts.enter(from) else { continue };
            let (site, tls) = (site.clone(), self.tls.clone());
            tokio::spawn(async move {
                serve_stream(stream, from, site, tls).await;
                drop((place, permit));
            });
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
    from: SocketAddr,
    site: Arc<Site>,
    tls: Option<TlsAcceptor>,
) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => serve_connection(stream, from.ip(), site).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(PATIENCE, tls.accept(stream)).await {
                serve_connection(stream, from.ip(), site).await;
            }
        }
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    from: IpAddr,
    site: Arc<Site>,
) {
    let service = service_fn(move |request| {
        let site = site.clone();
        async move { Ok::<_, std::convert::Infallible>(answer(&site, request, from).await) }
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

/// How many connections each foreign address has.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A connection's place in the counts.
struct Place(Counts, IpAddr);

impl Counts {
    /// Counts one more; none where the address has as many as it may.
    fn enter(&self, from: SocketAddr) -> Option<Place> {
        let address = from.ip();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= OF_ONE_ADDRESS && !address.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Place(self.clone(), address))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}
