//! What is wrong with a link, in the words of an operator who has to do something about it.

use std::collections::BTreeSet;

use proto::{Carries, OtherVersion, WIRE_VERSION};

use super::table::{is_in_reserve, span};
use super::{PathReport, PeerReport};
use crate::config::{Role, path_use};

/// Loss worth a word: control survives it, a video does not.
const LOSSY_PERCENT: f64 = 5.0;
/// A round trip this much longer than the least means a full queue.
const QUEUE_MS: f64 = 100.0;
/// Silence worth a word, whatever the path's state.
const SILENT_MS: f64 = 3_000.0;

/// What left before a link died is there by then.
const UNDER_WAY_MS: f64 = 1_000.0;

/// The same of a backup that nothing calls for: each end probes it every 25 s.
const RESERVE_SILENT_MS: f64 = 30_000.0;

/// Says what is wrong with a path; `lacks` is what its socket or interface lacks.
pub(crate) fn path_trouble(path: &PathReport, lacks: Option<&str>) -> String {
    if let Some(trouble) = lacks {
        return trouble.to_owned();
    }
    let silent = path.silent_ms.map(seconds);
    match (path.state.as_str(), silent) {
        ("absent", _) => format!("interface {} is missing or has no address", path.interface),
        ("validating", None) if path.carrier == "tcp" => {
            format!("connected to {}, and no answer: is that the peer's daemon?", path.remote)
        }
        ("validating", None) => {
            format!(
                "no answer from {}: is the peer running, does a firewall block UDP?",
                path.remote
            )
        }
        ("validating", Some(_)) => "address not confirmed yet".into(),
        ("suspected", Some(silent)) => match path.unanswered_ms.filter(|_| is_heard(path)) {
            Some(unanswered) => format!(
                "what we send is not answered for {}, though the peer was heard {silent} ago: dead from here to there",
                seconds(unanswered)
            ),
            None => format!("silent for {silent}: dead or out of range"),
        },
        ("suspected", None) => "silent: dead or out of range".into(),
        ("closed", _) => "given up".into(),
        _ => active_trouble(path),
    }
}

/// Says that the other end speaks another version of the wire.
pub(crate) fn version_words(other: &OtherVersion) -> String {
    let (wire, release) = (WIRE_VERSION, env!("CARGO_PKG_VERSION"));
    let here = format!("this one speaks version {wire} (Fulmar {release})");
    let theirs = match other {
        OtherVersion { wire: Some(wire), release } if release.is_empty() => {
            format!("version {wire}")
        }
        OtherVersion { wire: Some(wire), release } => format!("version {wire} (Fulmar {release})"),
        OtherVersion { wire: None, .. } => "another version and does not say which".into(),
    };
    format!("the other end speaks {theirs}; {here}: install the same release at both ends")
}

/// Says what is wrong with a peer as a whole; `own_key` is our public key.
pub(crate) fn peer_trouble(peer: &PeerReport, role: Role, own_key: &str) -> String {
    if !peer.connected {
        let why = match peer.other_version.as_str() {
            "" => absence(peer, role, own_key),
            other => other.to_owned(),
        };
        return format!("not connected: {why}");
    }
    let states = |state: &str| count(peer, state);
    match (states("active"), peer.paths.len(), class_without_path(peer)) {
        (0, ..) => "no path works: nothing gets through".into(),
        (.., Some(class)) => {
            format!("no path that carries {class} works: {class} waits, and is dropped")
        }
        (1, all, None) if all > 1 => "only one path works: nothing is left if it fails".into(),
        _ if peer.queue_free_percent < 20 => {
            "the links carry less than is sent: telemetry and bulk are dropped".into()
        }
        _ => String::new(),
    }
}

/// Tells whether something came in by a path since it was suspected, and of late: what was under
/// way then is no sign.
fn is_heard(path: &PathReport) -> bool {
    let Some((silent, unanswered)) = path.silent_ms.zip(path.unanswered_ms) else { return false };
    silent < SILENT_MS && silent + UNDER_WAY_MS < unanswered
}

/// Returns the first class that paths carry, but none that works.
fn class_without_path(peer: &PeerReport) -> Option<&'static str> {
    let has = |words: &str, class: &str| words.split(", ").any(|word| word == class);
    Carries::TIERS.into_iter().map(path_use::word).find(|class| {
        let works = |path: &&PathReport| path.state == "active" && has(&path.serves, class);
        peer.paths.iter().any(|path| has(&path.carries, class))
            && !peer.paths.iter().any(|path| works(&path))
    })
}

/// Says why there is no session, as far as this end can tell.
fn absence(peer: &PeerReport, role: Role, own_key: &str) -> String {
    let ended = peer.ended_s.map(|ended| {
        let (ago, why) = (span(ended), &peer.ended_why);
        format!("last heard {ago} ago, when its session ended: {why}")
    });
    match (role, ended) {
        (Role::Station, ended) => match (asked(peer), ended) {
            (Some(asked), None) => asked,
            (Some(asked), Some(ended)) => format!("{ended}; {asked}"),
            (None, Some(ended)) => ended,
            (None, None) => "nothing was heard from it yet".into(),
        },
        (Role::Drone, ended) => {
            let ended = ended.map_or(String::new(), |ended| format!("{ended}; "));
            format!("{ended}{}", no_answer(peer, own_key))
        }
    }
}

/// Says that a peer's handshakes come, and that it does not get what we answer.
fn asked(peer: &PeerReport) -> Option<String> {
    let ago = span(peer.asked_s?);
    Some(format!(
        "its handshakes come from {}, the last {ago} ago, and none of our answers arrives: does a firewall of this computer, \
         or one on the way, keep them back?",
        peer.asked_from
    ))
}

/// Says why a drone that goes on trying is not answered.
fn no_answer(peer: &PeerReport, own_key: &str) -> String {
    if peer.refused {
        return format!(
            "it answers, but does not know our public key {own_key}, which its file must have in a \
             [[peer]], or one end has another preshared key"
        );
    }
    let names: BTreeSet<&str> = peer.paths.iter().map(|path| path.name_trouble.as_str()).collect();
    let mut told: Vec<String> =
        names.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let lacks_interface =
        |path: &PathReport| path.state == "absent" && path.name_trouble.is_empty();
    // Where each path says what is wrong with it, nothing points at the keys.
    let is_open = |path: &PathReport| path.state != "absent" && !is_explained(path);
    if count(peer, "absent") < peer.paths.len() {
        if peer.ended_s.is_none() && !told.is_empty() && !peer.paths.iter().any(is_open) {
            return told.join("; ");
        }
        told.push(match peer.ended_s {
            Some(_) => "no answer since".into(),
            None => format!(
                "no answer yet on any path; are the keys and addresses right at both ends? The \
                 public key there must be {}",
                peer.public_key
            ),
        });
    } else if told.is_empty() {
        told.push("no interface of any path is there".into());
    } else if peer.paths.iter().any(lacks_interface) {
        told.push("no interface of the other paths is there".into());
    }
    told.join("; ")
}

/// Tells whether more is known of a path that does not work than that nobody answers.
fn is_explained(path: &PathReport) -> bool {
    !path.trouble.is_empty() && path.trouble != path_trouble(path, None)
}

fn count(peer: &PeerReport, state: &str) -> usize {
    peer.paths.iter().filter(|path| path.state == state).count()
}

fn active_trouble(path: &PathReport) -> String {
    let mut troubles = Vec::new();
    let longest = if is_in_reserve(path) { RESERVE_SILENT_MS } else { SILENT_MS };
    if let Some(silent) = path.silent_ms.filter(|&silent| silent > longest) {
        troubles.push(format!("nothing comes from the peer for {}", seconds(silent)));
    }
    if path.loss_percent >= LOSSY_PERCENT {
        let bursts = if path.burst >= 2.0 {
            format!(", in bursts of {:.0}", path.burst)
        } else {
            String::new()
        };
        troubles.push(format!("loses {:.0} % of what we send{bursts}", path.loss_percent));
    }
    if path.loss_in_percent >= LOSSY_PERCENT {
        troubles.push(format!("loses {:.0} % of what the peer sends", path.loss_in_percent));
    }
    if let (Some(srtt), Some(least)) = (path.srtt_ms, path.min_rtt_ms)
        && srtt > least + QUEUE_MS
    {
        troubles.push(format!("{:.0} ms of queue: something else fills the link", srtt - least));
    }
    if path.marks_dropped {
        troubles
            .push("drops what is marked as control (control_dscp): it goes unmarked here".into());
    }
    troubles.join("; ")
}

fn seconds(millis: f64) -> String {
    if millis < 1_000.0 { format!("{millis:.0} ms") } else { format!("{:.1} s", millis / 1_000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(state: &str) -> PathReport {
        PathReport {
            state: state.into(),
            interface: "wlan0".into(),
            remote: "192.0.2.1:14700".into(),
            srtt_ms: Some(20.0),
            min_rtt_ms: Some(18.0),
            ..PathReport::default()
        }
    }

    fn drone(peer: &PeerReport) -> String {
        peer_trouble(peer, Role::Drone, "OURS")
    }

    fn station(peer: &PeerReport) -> String {
        peer_trouble(peer, Role::Station, "OURS")
    }

    #[test]
    fn another_version_is_told_with_both() {
        let other = OtherVersion { wire: Some(9), release: "2.0.1".into() };
        let told = version_words(&other);
        assert!(told.starts_with("the other end speaks version 9 (Fulmar 2.0.1); "), "{told}");
        let ours = format!(
            "this one speaks version {WIRE_VERSION} (Fulmar {})",
            env!("CARGO_PKG_VERSION")
        );
        assert!(told.contains(&ours), "{told}");
        let silent = version_words(&OtherVersion::default());
        assert!(silent.contains("another version and does not say which"), "{silent}");
    }

    #[test]
    fn a_healthy_path_has_no_trouble() {
        assert_eq!(path_trouble(&path("active"), None), "");
    }

    #[test]
    fn trouble_names_its_cause() {
        let dead = PathReport { silent_ms: Some(4_200.0), ..path("suspected") };
        assert_eq!(path_trouble(&dead, None), "silent for 4.2 s: dead or out of range");
        let mut one_way =
            PathReport { silent_ms: Some(12.0), unanswered_ms: Some(5_000.0), ..path("suspected") };
        assert_eq!(
            path_trouble(&one_way, None),
            "what we send is not answered for 5.0 s, though the peer was heard 12 ms ago: dead from here to there"
        );
        // What was heard last may have left before the link died.
        one_way.silent_ms = Some(4_200.0);
        assert_eq!(path_trouble(&one_way, None), "silent for 4.2 s: dead or out of range");
        let lossy = PathReport { loss_percent: 12.4, burst: 3.2, ..path("active") };
        assert_eq!(path_trouble(&lossy, None), "loses 12 % of what we send, in bursts of 3");
        let deaf = PathReport { loss_in_percent: 11.3, ..path("active") };
        assert_eq!(path_trouble(&deaf, None), "loses 11 % of what the peer sends");
        let picky = PathReport { marks_dropped: true, ..path("active") };
        assert!(path_trouble(&picky, None).starts_with("drops what is marked as control"));
        let full = PathReport { srtt_ms: Some(480.0), ..path("active") };
        assert_eq!(path_trouble(&full, None), "462 ms of queue: something else fills the link");
        assert!(path_trouble(&path("validating"), None).contains("192.0.2.1:14700"));
        assert!(path_trouble(&path("absent"), None).contains("wlan0"));
        assert_eq!(path_trouble(&path("absent"), Some("no carrier")), "no carrier");
    }

    #[test]
    fn a_peer_on_its_last_path_is_told() {
        let mut peer =
            PeerReport { connected: true, queue_free_percent: 100, ..Default::default() };
        peer.paths = vec![path("active"), path("suspected")];
        assert!(drone(&peer).starts_with("only one path"));
        peer.paths[1].state = "active".into();
        assert_eq!(drone(&peer), "");
    }

    #[test]
    fn a_class_whose_paths_do_not_work_is_named_and_a_path_in_reserve_is_no_trouble() {
        let mut peer =
            PeerReport { connected: true, queue_free_percent: 100, ..Default::default() };
        let all = "control, telemetry, message, bulk";
        let wifi = PathReport { carries: all.into(), serves: all.into(), ..path("suspected") };
        let (carries, serves) = ("control, telemetry".into(), "control, telemetry".into());
        let lte = PathReport { carries, serves, ..path("active") };
        peer.paths = vec![wifi, lte];
        assert!(drone(&peer).starts_with("no path that carries message works"), "{}", drone(&peer));
        peer.paths[0].state = "active".into();
        assert_eq!(drone(&peer), "");
        let silent_ms = Some(24_000.0);
        let reserve = PathReport { backup: true, silent_ms, ..path("active") };
        assert_eq!(path_trouble(&reserve, None), "");
        let used = PathReport { in_use: "no path before it works".into(), ..reserve };
        assert_eq!(path_trouble(&used, None), "nothing comes from the peer for 24.0 s");
    }

    #[test]
    fn a_peer_without_a_session_is_told_why() {
        let peer = PeerReport { public_key: "THEIRS".into(), ..PeerReport::default() };
        let mut peer = PeerReport { paths: vec![path("validating")], ..peer };
        assert!(drone(&peer).contains("keys and addresses"), "{}", drone(&peer));
        assert!(drone(&peer).ends_with("must be THEIRS"), "{}", drone(&peer));
        assert_eq!(station(&peer), "not connected: nothing was heard from it yet");
        (peer.ended_s, peer.ended_why) = (Some(72.4), "the peer closed it".into());
        let ended =
            "not connected: last heard 1 min 12 s ago, when its session ended: the peer closed it";
        assert_eq!(station(&peer), ended);
        assert_eq!(drone(&peer), format!("{ended}; no answer since"));
        peer.refused = true;
        assert!(drone(&peer).contains("does not know our public key OURS"), "{}", drone(&peer));
        peer = PeerReport { paths: vec![path("absent")], ..PeerReport::default() };
        assert_eq!(drone(&peer), "not connected: no interface of any path is there");
        let name_trouble = "ground.example cannot be looked up: no such name";
        let named = PathReport { name_trouble: name_trouble.into(), ..path("absent") };
        peer.paths.extend([named.clone(), named]);
        let told =
            format!("not connected: {name_trouble}; no interface of the other paths is there");
        assert_eq!(drone(&peer), told);
        peer.paths[0].state = "validating".into();
        assert!(drone(&peer).contains(name_trouble), "{}", drone(&peer));
        assert!(drone(&peer).contains("no answer yet on any path"), "{}", drone(&peer));
        peer.paths.remove(0);
        assert_eq!(drone(&peer), format!("not connected: {name_trouble}"));
    }
}
