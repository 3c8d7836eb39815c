//! Doors for the fuzz targets in `fuzz/`; not part of the program otherwise.

use std::collections::BTreeSet;
use std::path::Path;

pub use crate::daemon::fuzzing::{told, tunnel_packet};
use crate::pair::{Code, Message};
use crate::{config, names, status};

/// Reads a configuration: it is refused with lines that say where and why, or all of it makes
/// sense.
pub fn configuration(text: &str) {
    match config::parse_any(text, Path::new("fuzz/fuzz.toml")) {
        Ok(config::Kind::End(config)) => check(&config),
        Ok(config::Kind::Relay(relay)) => assert!((1..=63).contains(&relay.number)),
        Err(error) => {
            assert!(!error.mistakes.is_empty(), "refused without a reason");
            let lines = text.lines().count().max(1);
            for mistake in error.mistakes {
                assert!((1..=lines + 1).contains(&mistake.line), "{mistake}");
            }
        }
    }
}

/// Takes the answer of a status socket, as `fulmar status` does, and shows it.
pub fn status_answer(bytes: &[u8]) {
    let Ok(report) = status::parse(bytes) else { return };
    let table = status::table(&report, status::ENDLESS);
    assert!(table.lines().count() <= 64 + bytes.len(), "no more lines than were told");
    assert!(table.chars().all(|c| c == '\n' || !c.is_control()), "nothing steers the terminal");
    let again = serde_json::to_string(&report).expect("what was read can be written");
    let again: status::Report = serde_json::from_str(&again).expect("and read again");
    assert_eq!(again.peers.len(), report.peers.len());
}

/// Reads the answer of a name server to a question for a host.
pub fn name_answer(bytes: &[u8]) {
    for (id, is_ipv6) in [(0x1234, false), (0x1234, true)] {
        let found = names::addresses_in(bytes, id, "station.example", is_ipv6);
        let found = found.unwrap_or_default();
        assert!(found.len() <= 16 && found.iter().all(|it| it.is_ipv6() == is_ipv6));
        assert!(found.iter().all(|it| !it.is_unspecified() && !it.is_loopback()));
    }
}

/// Reads a pairing code, and what is said while a drone is enrolled.
pub fn pairing(text: &str) {
    match Code::read(text) {
        Ok(code) => {
            let again = code.text().expect("what was read is no longer than a code");
            assert!(Code::read(&again).is_ok_and(|again| again == code));
        }
        Err(why) => assert!(!why.is_empty() && why.chars().all(|c| !c.is_control())),
    }
    if let Ok(message) = Message::read(text) {
        let again = Message::read(&message.text()).expect("what was read can be said");
        assert_eq!(again, message);
    }
}

/// Reads a flight record, and shows it as a table, as a page and as CSV.
pub fn flight_record(input: &[u8]) {
    if let Some(flight) = record::fuzzing::flight(input) {
        crate::look_back::try_all(&flight);
    }
}

/// Answers a request to the web view: the first line is the query, then come headers, a token and
/// who asks.
pub fn web_request(text: &str) {
    crate::web::try_request(text);
}

fn check(config: &config::Config) {
    let peers = config.peers.len();
    assert!(peers <= proto::MAX_SESSIONS && config.paths.len() <= proto::MAX_PATHS * peers.max(1));
    assert!(config.paths.iter().all(|path| path.peer < peers && !path.remotes.is_empty()));
    assert!(config.endpoints.iter().all(|endpoint| endpoint.peer < peers && endpoint.channel > 0));
    let keys: BTreeSet<_> = config.peers.iter().map(|peer| peer.key).collect();
    assert_eq!(keys.len(), peers, "each peer has a key of its own");
    let nets: Vec<_> = config.peers.iter().flat_map(|peer| &peer.allowed).collect();
    assert_eq!(
        nets.iter().collect::<BTreeSet<_>>().len(),
        nets.len(),
        "each prefix is of one peer"
    );
    let at = |a: usize, b: usize| (&config.endpoints[a].kind, &config.endpoints[b].kind);
    let pairs = (0..config.endpoints.len()).flat_map(|a| (0..a).map(move |b| at(a, b)));
    assert!(pairs.into_iter().all(|(one, other)| !one.collides_with(other)));
}
