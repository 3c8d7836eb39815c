//! `fulmar web`: one page that shows the daemons of this host, and their metrics for Prometheus.
//!
//! ```text
//! status and event sockets → watch/ (reports, events, ten minutes of each path) → view.rs, metrics.rs → server.rs
//! ```
//!
//! A process of its own: the daemon keeps one loop and parses no HTTP. It only reads, unless it is
//! told to pair (`pairing.rs`); nothing else here changes a daemon.

mod access;
mod arguments;
mod metrics;
mod pairing;
mod room;
mod routes;
mod server;
mod view;

use std::sync::Arc;

use sys::print::tell;
use tokio::sync::watch::channel;

pub(crate) use arguments::WebArguments;

use crate::watch::Watch;
use access::Access;
use pairing::Pairing;
use routes::Site;
use server::Server;

/// Serves until a signal ends it.
///
/// # Errors
/// Where the arguments do not go together, and where the address cannot be had.
pub(crate) fn run(arguments: WebArguments) -> Result<(), String> {
    let plan = arguments.plan()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("start the event loop: {error}"))?;
    runtime.block_on(async {
        // Before any thread of the watch starts.
        let end = server::end().map_err(|error| format!("wait for signals: {error}"))?;
        let server = Server::open(&plan).await?;
        let (bell, news) = channel(0_u64);
        let watch = Watch::start(&plan.sockets, move || bell.send_modify(|count| *count += 1));
        let access = Access::new(&plan);
        let pairing = plan.pairing.as_ref().map(Pairing::new);
        tell(format_args!("fulmar: the page is at {}", server.address()));
        plan.advice().into_iter().for_each(tell);
        server.run(Arc::new(Site { watch, news, access, pairing }), end).await;
        Ok(())
    })
}

/// Answers a request with nothing to show: a query, then headers, a line each.
#[cfg(fuzzing)]
pub(crate) fn try_request(text: &str) {
    let (query, headers) = text.split_once('\n').unwrap_or((text, ""));
    let asked = view::Asked::parse(query);
    let shown = view::show(&std::collections::BTreeMap::new(), 1, &asked);
    assert!(shown.to_string().len() < 10_000, "the answer says no more than there is");
    access::try_headers(headers, [192, 0, 2, 7].into());
}
