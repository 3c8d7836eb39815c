//! What carries a path: `carrier`, `connections`, `fallback` and `proxy` of a `[[path]]`, `carrier`
//! of a `[[listen]]`.
//!
//! ```text
//! carrier      paths of the session that a [[path]] becomes
//! "udp"        one
//! "tcp"        one for each connection: the first carries what the file says, the others control
//! "auto"       one by UDP, and one for each connection to `fallback`, which are there only while
//!              nothing comes by UDP
//! ```

use proto::select::Tier;
use proto::{Carries, PathUse};
use toml_keys::Section;

use super::proxy::{self, Login, Proxy};
use super::{PathConfig, Remote};

/// Connections of a link where the file does not say.
const CONNECTIONS: u64 = 2;
/// The most that it may say: what a fourth adds nobody has seen.
const MOST_CONNECTIONS: u64 = 4;

/// What datagrams of a path travel in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Each by itself.
    #[default]
    Udp,
    /// One after the other, in a connection of TCP.
    Tcp,
}

impl Carrier {
    /// Returns its word in files and reports.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// Says which path of the same file a path shares its interface with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Its name.
    pub(crate) path: String,
    /// It is there only while nothing comes by that one.
    pub(crate) stands_in: bool,
}

/// What the file says of the carrier of a path.
pub(super) struct Carried {
    /// None for `auto`.
    carrier: Option<Carrier>,
    connections: u64,
    fallback: Vec<Remote>,
    proxy: Option<(Remote, Option<Login>)>,
}

/// Reads what carries a path.
pub(super) fn read(
    section: &Section<'_>,
    fallback: impl FnOnce(&Section<'_>) -> Vec<Remote>,
) -> Carried {
    let words = [("udp", Some(Carrier::Udp)), ("tcp", Some(Carrier::Tcp)), ("auto", None)];
    let chosen = section.choice("carrier", &words);
    let carrier = chosen.unwrap_or(Some(Carrier::Udp));
    let connections = section.number("connections", 1..=MOST_CONNECTIONS);
    let fallback = fallback(section);
    let proxy = proxy::read(section);
    if section.has("relay") {
        let _ = section.has("carrier");
        section.exclusive(&["relay", "carrier", "connections", "fallback", "proxy"]);
    } else if chosen.is_some() || !section.has("carrier") {
        if carrier == Some(Carrier::Udp) && section.has("connections") {
            let what = "is of connections, and carrier is \"udp\", which has none: write carrier = \"tcp\" or \"auto\", \
                        or leave it out";
            section.wrong("connections", what);
        }
        if carrier == Some(Carrier::Udp) && section.has("proxy") {
            let what = "carries TCP alone, and carrier is \"udp\": write carrier = \"tcp\" or \"auto\", or leave it out";
            section.wrong("proxy", what);
        }
        if carrier.is_some() && section.has("fallback") {
            let what = "is where carrier = \"auto\" goes when nothing comes by UDP: write that, or leave it out";
            section.wrong("fallback", what);
        }
        if carrier.is_none() && !section.has("fallback") {
            let what = "is missing: carrier = \"auto\" needs fallback = \"HOST:PORT\", where the station has a [[listen]] with \
                        carrier = \"tcp\"";
            section.wrong("fallback", what);
        }
    }
    Carried { carrier, connections: connections.unwrap_or(CONNECTIONS), fallback, proxy }
}

/// Reads what carries the paths that come to an address of a station.
pub(super) fn of_listen(section: &Section<'_>) -> Carrier {
    if section.is_text("carrier", "auto") {
        let what = "\"auto\" is a drone's choice: write one [[listen]] with carrier = \"udp\" and one with \"tcp\", which \
                    may have the same port";
        section.wrong("carrier", what);
        return Carrier::Udp;
    }
    let words = [("udp", Carrier::Udp), ("tcp", Carrier::Tcp)];
    section.choice("carrier", &words).unwrap_or_default()
}

impl Carried {
    /// Returns the paths that one of the file becomes.
    pub(super) fn paths(self, path: PathConfig) -> Vec<PathConfig> {
        let mut first = match self.carrier {
            Some(Carrier::Udp) => return vec![path],
            Some(Carrier::Tcp) => PathConfig { carrier: Carrier::Tcp, ..path.clone() },
            None => PathConfig {
                name: format!("{} tcp", path.name),
                carrier: Carrier::Tcp,
                remotes: self.fallback,
                beside: Some(Beside { path: path.name.clone(), stands_in: true }),
                ..path.clone()
            },
        };
        if let Some((at, login)) = self.proxy {
            let targets = std::mem::replace(&mut first.remotes, vec![at]);
            first.proxy = Some(Proxy { targets, login });
        }
        // The others are for copies of control; where the link carries none, they carry nothing.
        let others = if path.usage.carries.has(Tier::Control) { self.connections } else { 1 };
        let carries = Carries::new([Tier::Control]).unwrap_or_default();
        let other = |number: u64| PathConfig {
            name: format!("{} {number}", first.name),
            beside: Some(Beside { path: path.name.clone(), stands_in: self.carrier.is_none() }),
            usage: PathUse { carries, ..path.usage },
            ..first.clone()
        };
        let others: Vec<_> = (2..=others).map(other).collect();
        let by_udp = self.carrier.is_none().then(|| path.clone());
        by_udp.into_iter().chain([first.clone()]).chain(others).collect()
    }
}
