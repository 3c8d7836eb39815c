//! What is wrong with a link, in the words of an operator who has to do something about it.

use super::{PathReport, PeerReport};

/// Loss worth a word: control survives it, a video does not.
const LOSSY_PERCENT: f64 = 5.0;
/// A round trip this much longer than the least means a full queue.
const QUEUE_MS: f64 = 100.0;
/// Silence worth a word, whatever the path's state.
const SILENT_MS: f64 = 3_000.0;

/// Says what is wrong with a path; `lacks` is what its socket or interface lacks.
pub(crate) fn path_trouble(path: &PathReport, lacks: Option<&str>) -> String {
    if let Some(trouble) = lacks {
        return trouble.to_owned();
    }
    let silent = path.silent_ms.map(seconds);
    match (path.state.as_str(), silent) {
        ("absent", _) => format!("interface {} is missing or has no address", path.interface),
        ("validating", None) => {
            format!(
                "no answer from {}: is the peer running, does a firewall block UDP?",
                path.remote
            )
        }
        ("validating", Some(_)) => "address not confirmed yet".into(),
        ("suspected", Some(silent)) => format!("silent for {silent}: dead or out of range"),
        ("suspected", None) => "silent: dead or out of range".into(),
        ("closed", _) => "given up".into(),
        _ => active_trouble(path),
    }
}

/// Says what is wrong with a peer as a whole.
pub(crate) fn peer_trouble(peer: &PeerReport, role: &str) -> String {
    let states = |state: &str| peer.paths.iter().filter(|path| path.state == state).count();
    if !peer.connected {
        return match role {
            "drone" if states("absent") == peer.paths.len() => {
                "not connected: no interface of any path is there".into()
            }
            "drone" => {
                "not connected: no answer yet on any path; are the keys and addresses right \
                        at both ends?"
                    .into()
            }
            _ => "not connected: nothing was heard from it yet".into(),
        };
    }
    match (states("active"), peer.paths.len()) {
        (0, _) => "no path works: nothing gets through".into(),
        (1, all) if all > 1 => "only one path works: nothing is left if it fails".into(),
        _ if peer.queue_free_percent < 20 => {
            "the links carry less than is sent: telemetry and bulk are dropped".into()
        }
        _ => String::new(),
    }
}

fn active_trouble(path: &PathReport) -> String {
    let mut troubles = Vec::new();
    if let Some(silent) = path.silent_ms.filter(|&silent| silent > SILENT_MS) {
        troubles.push(format!("nothing heard for {}", seconds(silent)));
    }
    if path.loss_percent >= LOSSY_PERCENT {
        let bursts = if path.burst >= 2.0 {
            format!(", in bursts of {:.0}", path.burst)
        } else {
            String::new()
        };
        troubles.push(format!("loses {:.0} % of what we send{bursts}", path.loss_percent));
    }
    if let (Some(srtt), Some(least)) = (path.srtt_ms, path.min_rtt_ms)
        && srtt > least + QUEUE_MS
    {
        troubles.push(format!("{:.0} ms of queue: something else fills the link", srtt - least));
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

    #[test]
    fn a_healthy_path_has_no_trouble() {
        assert_eq!(path_trouble(&path("active"), None), "");
    }

    #[test]
    fn trouble_names_its_cause() {
        let dead = PathReport { silent_ms: Some(4_200.0), ..path("suspected") };
        assert_eq!(path_trouble(&dead, None), "silent for 4.2 s: dead or out of range");
        let lossy = PathReport { loss_percent: 12.4, burst: 3.2, ..path("active") };
        assert_eq!(path_trouble(&lossy, None), "loses 12 % of what we send, in bursts of 3");
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
        assert!(peer_trouble(&peer, "drone").starts_with("only one path"));
        peer.paths[1].state = "active".into();
        assert_eq!(peer_trouble(&peer, "drone"), "");
        peer.connected = false;
        assert!(peer_trouble(&peer, "drone").contains("keys and addresses"));
        assert!(peer_trouble(&peer, "station").contains("nothing was heard"));
    }
}
