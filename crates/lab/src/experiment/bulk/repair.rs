//! How much of what a session's tunnel sends is repair: where its counters become the figure
//! `repair_share`.
//!
//! Packets of TCP that are sent again are no repair, nor are FlowCode's combinations: they are in
//! `wire_overhead` alone.

use proto::TunnelStatus;
use serde_json::Value;

/// Returns the share of a session in the world; none where nothing went by the tunnel's own
/// delivery.
pub(super) fn of_session(tunnel: &TunnelStatus) -> Option<f64> {
    share(tunnel.repairs, tunnel.symbols)
}

/// Returns that of a daemon, by its status.
pub(super) fn of_daemon(status: &Value) -> Option<f64> {
    let tcp = &status["peers"][0]["tcp"];
    share(tcp["repairs"].as_u64().unwrap_or(0), tcp["packets"].as_u64()?)
}

/// Returns repair over what it repairs.
fn share(repairs: u64, packets: u64) -> Option<f64> {
    (packets > 0).then(|| repairs as f64 / packets as f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_daemon_that_sends_no_combinations_has_no_repair() {
        let status = |tcp: Value| json!({"peers": [{"tcp": tcp}]});
        assert_eq!(of_daemon(&status(json!({"packets": 200, "repairs": 10}))), Some(0.05));
        assert_eq!(of_daemon(&status(json!({"packets": 200}))), Some(0.0));
        assert_eq!(of_daemon(&status(json!({"packets": 0}))), None);
        assert_eq!(of_daemon(&json!({"peers": []})), None);
    }
}
