//! Connections: how many, how long, how large a request may be.
//!
//! One thread serves all of them. What is bounded: connections, in all and of one address
//! (`room.rs`); the time of a handshake, of a request's head, of a whole connection; and the size
//! of a head.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::access::Verdict;
use super::arguments::Plan;
use super::room::{Place, Room};
use super::routes::{Site, answer};

/// How long a TLS handshake may take, and how long a connection may wait for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection lives: who reads slowly holds it no longer. A browser opens another one
/// without a word.
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
        let room = Room::default();
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
            let place = Arc::new(room.enter(from, site.access.is_proxy(from)));
            let served = serve_stream(stream, from, site.clone(), self.tls.clone(), place.clone());
            // It first runs when this waits again.
            place.is_served_by(tokio::spawn(served).abort_handle());
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
            place.heard();
            let (answer, verdict) = answer(&site, request, from).await;
            if verdict == Verdict::Welcome {
                place.known();
            }
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::path::PathBuf;

    use super::super::access::Access;
    use super::*;
    use crate::watch::Watch;

    const TOKEN: &str = "hVq0jvB1b0vXc0Yp2mYt0c5uW1k8aGd3";

    /// Returns the first line of the answer.
    fn ask(at: SocketAddr, request: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE / 2)).unwrap();
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.lines().next().unwrap_or_default().to_owned()
    }

    fn stop_metrics(at: SocketAddr) {
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        let metrics = || ask(at, "GET /metrics", &bearer, "");
        for page in ["Origin: http://evil.example\r\n", ""].repeat(12) {
            let headers = format!("{page}Content-Length: 7\r\n");
            let answer = ask(at, "POST /login", &headers, "token=x");
            assert_eq!(answer.contains(" 403 "), !page.is_empty(), "{answer}");
        }
        let answer = metrics();
        assert!(answer.contains(" 200 "), "guesses keep it out: {answer:?}");
        let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(at).unwrap()).collect();
        let answer = metrics();
        assert!(answer.contains(" 200 "), "{} silent ones keep it out: {answer:?}", silent.len());
    }

    #[test]
    fn neither_guesses_of_a_foreign_page_nor_silent_connections_stop_metrics() {
        let plan = Plan {
            listen: "127.0.0.1:0".parse().unwrap(),
            sockets: vec![PathBuf::from("/nonexistent/status")],
            token: Some(TOKEN.to_owned()),
            names: Vec::new(),
            tls: None,
            is_behind_proxy: false,
            proxies: Vec::new(),
            pairing: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::open(&plan).await.unwrap();
            let at = server.listener.local_addr().unwrap();
            let (_bell, news) = tokio::sync::watch::channel(0);
            let watch = Watch::start(&plan.sockets, || {});
            let site = Arc::new(Site { watch, news, access: Access::new(&plan), pairing: None });
            let attack = tokio::task::spawn_blocking(move || stop_metrics(at));
            server.run(site, async { attack.await.unwrap() }).await;
        });
    }
}
