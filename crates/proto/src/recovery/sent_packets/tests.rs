//! Tests of `../sent_packets.rs`: what is acknowledged, lost, and forgotten.

use std::collections::BTreeSet;

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;

const RTT: Duration = Duration::from_millis(20);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn packet(pn: u64, sent_at: Instant) -> SentPacket {
    SentPacket {
        pn,
        sent_at,
        bytes: 1_000,
        ack_eliciting: true,
        bulk: true,
        delivery: DeliveryState::default(),
        counts: true,
        marked: false,
        stood: 0,
        frames: smallvec![SentFrame::Ack { path: PathId(0), largest: pn }],
    }
}

/// Sends packets 0..`count`, one each millisecond from 1 ms on.
fn sent(count: u64) -> SentPackets {
    let mut packets = SentPackets::new(false);
    (0..count).for_each(|pn| packets.on_sent(packet(pn, at(1 + pn))));
    packets
}

fn ack(packets: &mut SentPackets, now: Instant, ranges: &[RangeInclusive<u64>]) -> NewlyAcked {
    let largest = ranges.iter().map(|range| *range.end()).max().unwrap_or_default();
    let delay = Duration::ZERO;
    packets.on_ack(now, &AckInfo { largest, received_at_us: 0, delay, ranges, elsewhere: false })
}

fn numbers(packets: &[SentPacket]) -> Vec<u64> {
    packets.iter().map(|packet| packet.pn).collect()
}

#[test]
fn three_later_acknowledgements_make_a_packet_lost() {
    let mut packets = sent(6);
    assert_eq!(numbers(&ack(&mut packets, at(21), &[1..=2]).packets), [1, 2]);
    assert_eq!(numbers(&packets.detect_lost(at(21), RTT)), []);
    ack(&mut packets, at(22), &[3..=3]);
    assert_eq!(numbers(&packets.detect_lost(at(22), RTT)), [0]);
    assert_eq!(packets.in_flight(), 2_000);
}

#[test]
fn nine_eighths_of_the_round_trip_make_a_packet_lost() {
    let mut packets = sent(2);
    ack(&mut packets, at(22), &[1..=1]);
    assert_eq!(numbers(&packets.detect_lost(at(22), RTT)), []);
    let due = packets.loss_time().expect("a packet is missing");
    assert_eq!(due, at(1) + RTT * 9 / 8);
    assert_eq!(numbers(&packets.detect_lost(due, RTT)), [0]);
    assert_eq!(packets.loss_time(), None);
}

#[test]
fn a_late_acknowledgement_is_told_and_makes_the_thresholds_wider() {
    let mut packets = sent(20);
    ack(&mut packets, at(22), &[3..=3]);
    assert_eq!(numbers(&packets.detect_lost(at(22), RTT)), [0]);
    let newly = ack(&mut packets, at(23), &[0..=3]);
    assert_eq!((numbers(&newly.packets), numbers(&newly.late)), (vec![1, 2], vec![0]));
    assert_eq!(packets.loss().loss(), 0.0);
    ack(&mut packets, at(24), &[7..=7]);
    assert_eq!(numbers(&packets.detect_lost(at(24), RTT)), [], "a distance of three is usual now");
}

#[test]
fn loss_is_that_of_packets_that_elicit_an_acknowledgement() {
    let mut packets = SentPackets::new(false);
    for pn in 0..2_000 {
        let ack_eliciting = pn % 2 == 0;
        packets.on_sent(SentPacket { ack_eliciting, ..packet(pn, at(pn)) });
        // Every fifth packet is lost, of either kind.
        if pn % 5 != 0 {
            ack(&mut packets, at(pn + 20), &[pn..=pn]);
            packets.detect_lost(at(pn + 20), RTT);
        }
    }
    assert!((packets.loss().loss() - 0.2).abs() < 0.02, "{}", packets.loss().loss());
}

#[test]
fn what_silence_costs_is_no_loss_of_the_link_and_may_still_arrive() {
    let mut packets = sent(10);
    assert_eq!(numbers(&packets.give_up_before(at(6))), [0, 1, 2, 3, 4]);
    assert_eq!((packets.in_flight(), packets.loss().loss()), (5_000, 0.0));
    let newly = ack(&mut packets, at(2_000), &[0..=9]);
    assert_eq!(numbers(&newly.late), [0, 1, 2, 3, 4]);
    assert_eq!(numbers(&newly.packets), [5, 6, 7, 8, 9]);
    assert_eq!(packets.in_flight(), 0);
}

#[test]
fn a_peer_that_acknowledges_nothing_makes_nothing_grow() {
    let mut packets = SentPackets::new(false);
    for pn in 0..3 * limits::SENT_PACKETS as u64 {
        packets.on_sent(packet(pn, at(pn)));
        if pn % 1_000 == 0 {
            packets.give_up_before(at(pn));
        }
    }
    assert!(packets.entries.len() <= limits::SENT_PACKETS);
    assert!(packets.lost.len() <= LOST_PACKETS);
    assert!(packets.in_flight() <= limits::SENT_PACKETS as u64 * 1_000);
}

#[test]
fn ranges_without_end_or_sense_are_taken_in_stride() {
    let mut packets = sent(10);
    #[expect(clippy::reversed_empty_ranges, reason = "what a peer without sense sends")]
    let newly = ack(&mut packets, at(30), &[5..=3, 0..=u64::MAX, u64::MAX..=0, 7..=7]);
    assert_eq!(newly.packets.len(), 10);
    assert_eq!(packets.in_flight(), 0);
}

proptest! {
    /// Whatever is acknowledged and whenever, each packet ends once, as acknowledged or lost,
    /// late acknowledgements aside, and nothing stays in flight at the end.
    #[test]
    fn every_packet_ends_exactly_once(
        steps in proptest::collection::vec((0_u64..200, 0_u64..20, 1_u64..60), 1..60)
    ) {
        let mut packets = sent(200);
        let (mut acked, mut lost, mut now) = (BTreeSet::new(), BTreeSet::new(), 21);
        for (first, length, later) in steps {
            now += later;
            let last = (first + length).min(199);
            let newly = ack(&mut packets, at(now), &[first..=last]);
            for packet in &newly.packets {
                prop_assert!(acked.insert(packet.pn) && !lost.contains(&packet.pn));
            }
            for packet in &newly.late {
                prop_assert!(acked.insert(packet.pn) && lost.remove(&packet.pn));
            }
            for packet in packets.detect_lost(at(now), RTT) {
                prop_assert!(lost.insert(packet.pn) && !acked.contains(&packet.pn));
            }
            let ended = acked.len() + lost.len();
            prop_assert_eq!(packets.in_flight(), (200 - ended as u64) * 1_000);
        }
        let rest = packets.give_up_before(at(1 << 40));
        prop_assert_eq!(acked.len() + lost.len() + rest.len(), 200);
        prop_assert_eq!(packets.in_flight(), 0);
    }
}
