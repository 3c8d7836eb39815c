//! What status says is what was: nothing that arrived is called dropped, and no idle link thin.

use proto::select::{Class, Policy};
use proto::{Duration, Rate, SessionStatus, Source};

use fulmar_world::{DRONE, Pair, STATION, one_link, two_links};

const LIVE: Source = Source::Declared { channel: 1, policy: Policy::LIVE };
const CONTROL: Source = Source::Declared { channel: 1, policy: Policy::TRANSACTIONAL };

#[test]
fn set_points_that_are_replaced_after_they_left_are_not_called_dropped() {
    for seed in 1..6 {
        // At 50 Hz the next one comes before the answer to the last.
        let link = "delay_ms = 40\nrate_mbps = 10";
        let mut pair = Pair::connected(&two_links(link, link, None), seed);
        for number in 0..500_u32 {
            pair.send(STATION, LIVE, &number.to_be_bytes()).expect("there is room");
            pair.run_for(Duration::from_millis(20));
        }
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.seen[DRONE].len(), 500, "seed {seed}");
        let status = pair.status(STATION).expect("a session");
        let live = status.classes.iter().find(|class| class.submitted == 500).expect("the class");
        assert_eq!(live.dropped, 0, "seed {seed}");
        assert!(live.superseded > 400, "seed {seed}: {}", live.superseded);
    }
}

#[test]
fn what_became_of_packets_and_of_control_is_told() {
    for seed in 1..6 {
        let mut pair =
            Pair::connected(&one_link("delay_ms = 20\nrate_mbps = 10\nloss = 0.1"), seed);
        for number in 0..500_u32 {
            pair.send(STATION, CONTROL, &number.to_be_bytes()).expect("there is room");
            pair.run_for(Duration::from_millis(20));
        }
        pair.run_for(Duration::from_secs(1));
        let [drone, station] = [DRONE, STATION].map(|host| pair.status(host).expect("a session"));
        let class = |status: &SessionStatus| {
            status.classes.iter().find(|class| class.class == Class::Control).cloned().expect("it")
        };
        let (sent, received) = (class(&station), class(&drone));
        let ended = (sent.acknowledged, sent.indeterminate, received.delivered);
        assert_eq!(ended, (500, 0, 500), "seed {seed}");
        assert!(received.held > 0, "seed {seed}: in order, a later one waits for an earlier");
        let path = &station.paths[0];
        assert!(path.acked > 400 && path.lost > 20, "seed {seed}: {} {}", path.acked, path.lost);
        assert_eq!(path.bad_acks, 0, "seed {seed}");
        assert!(path.loss_in > 0.02, "seed {seed}: {}", path.loss_in);
        assert!(path.acked + path.lost - path.late <= path.sent.0, "seed {seed}");
    }
}

#[test]
fn what_a_link_can_carry_is_told_when_something_has_filled_it() {
    for seed in 1..6 {
        let mut pair = Pair::connected(&one_link("delay_ms = 20\nrate_mbps = 20"), seed);
        let capacity = |pair: &Pair| pair.status(DRONE).expect("a session").paths[0].capacity;
        for number in 0..500_u32 {
            pair.send(DRONE, LIVE, &number.to_be_bytes()).expect("there is room");
            pair.run_for(Duration::from_millis(20));
        }
        let idle = capacity(&pair);
        assert!(idle.is_none_or(|rate| rate > Rate::from_mbps(10.0)), "seed {seed}: {idle:?}");
        // 40 Mbit/s for two seconds.
        let packet = [&[0x45, 0, 0x04, 0xb0][..], &[0; 1_196]].concat();
        for _ in 0..8_000 {
            let _ = pair.send(DRONE, Source::Tunnel, &packet);
            pair.run_for(Duration::from_micros(250));
        }
        let full = capacity(&pair).expect("it was filled").as_mbps();
        assert!((15.0..=21.0).contains(&full), "seed {seed}: {full} Mbit/s");
        pair.run_for(Duration::from_secs(31));
        let later = capacity(&pair);
        assert!(later.is_none(), "seed {seed}: {later:?}, long after");
    }
}
