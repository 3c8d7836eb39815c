//! Handshakes complete, over whatever path, through loss, duplication and reordering.

use super::*;

#[test]
fn a_session_comes_up_in_two_round_trips_and_carries_both_ways() {
    let (mut wire, session) = Wire::pair(1);
    wire.run_for(Duration::from_millis(101));
    assert_eq!(wire.hosts[0].connections(), 1);
    assert_eq!(wire.hosts[1].connections(), 1);
    wire.assert_carries(0, session, 1, Duration::from_millis(100));
    let (theirs, _) = wire.hosts[1].endpoint.sessions().next().expect("a session");
    wire.assert_carries(1, theirs, 0, Duration::from_millis(100));
    for kind in [INITIATION, RESPONSE, COOKIE, DATA] {
        assert!(!wire.sent(kind).is_empty());
    }
}
