//! TCP in the tunnel: its packets arrive, each flow in its order, whatever the links lose.
//!
//! No TCP takes part: packets that look like it are handed in at a steady rate.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use fulmar_world::{DRONE, Pair, STATION, two_links};
use ip::{Packet, TCP};
use proto::{
    CongestionKind, Duration, FlowCodeParameters, Instant, SessionConfig, Source, TunnelForm,
};

const DATA: u8 = 0x10;
const SYN: u8 = 0x02;
const MS: Duration = Duration::from_millis(1);

const WIFI: &str = "delay_ms = 10\nrate_mbps = 20\nqueue_bytes = 150_000\n";
const LTE: &str = "delay_ms = 35\nrate_mbps = 10\nqueue_bytes = 125_000\n";

fn lossy(link: &str, loss: f64) -> String {
    format!("{link}loss = {loss}\n")
}

/// A packet of a flow, which names it, with its number in the flow.
fn segment(flow: u16, number: u32, flags: u8, payload: usize) -> Vec<u8> {
    let mut segment = [flow.to_be_bytes(), 80_u16.to_be_bytes()].concat();
    segment.extend_from_slice(&number.to_be_bytes());
    segment.extend_from_slice(&[0, 0, 0, 1, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    segment.resize(segment.len() + payload, 0);
    ip::ipv4(Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2), TCP, &segment)
}

fn datagram(number: u32) -> Vec<u8> {
    let at = |host| SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, host), 7);
    ip::udp4(at(1), at(2), &number.to_be_bytes())
}

/// What came at the station: of each flow the numbers, and when each came.
fn came(pair: &Pair) -> BTreeMap<u16, Vec<(u32, Instant)>> {
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    for seen in &pair.seen[STATION] {
        let packet = Packet::read(&seen.delivery.bytes).expect("a packet went in");
        let transport = packet.transport().expect("it is whole");
        let word = |at| transport.bytes[at..][..4].try_into().expect("four bytes");
        let (flow, number) = match transport.protocol {
            TCP => (u16::from_be_bytes([transport.bytes[0], transport.bytes[1]]), word(4)),
            _ => (0, word(8)),
        };
        flows.entry(flow).or_default().push((u32::from_be_bytes(number), seen.at));
    }
    flows
}

fn send(pair: &mut Pair, packet: &[u8]) {
    pair.send(DRONE, Source::Tunnel, packet).expect("it is taken");
}

fn numbers(flow: &[(u32, Instant)]) -> Vec<u32> {
    flow.iter().map(|(number, _)| *number).collect()
}

#[test]
fn tcp_sees_no_loss_and_no_reordering_at_ten_percent() {
    const PACKETS: u32 = 5_000;
    for seed in 1..=3 {
        let mut pair = Pair::connected(&two_links(&lossy(WIFI, 0.1), &lossy(LTE, 0.1), None), seed);
        for number in 0..PACKETS {
            send(&mut pair, &segment(1, number, DATA, 1_000));
            pair.run_for(MS / 2);
        }
        pair.run_for(Duration::from_secs(3));
        let order = numbers(&came(&pair)[&1]);
        let tcp = pair.status(DRONE).expect("a session").tunnel;
        let due = PACKETS as usize - tcp.dropped as usize;
        assert!(order.len() == due && order.is_sorted(), "seed {seed}: {} of {due}", order.len());
        assert!(tcp.again > 400 && tcp.dropped < 250, "seed {seed}: {tcp:?}");
        let tcp = pair.status(STATION).expect("a session").tunnel;
        assert_eq!(tcp.expired, 0, "seed {seed}: {tcp:?}");
    }
}

#[test]
fn what_a_long_path_loses_is_decoded_before_it_could_be_sent_again() {
    const LINK: &str = "delay_ms = 150\nrate_mbps = 4\nqueue_bytes = 125_000\nloss = 0.02\n";
    const PACKETS: u32 = 6_000;
    let mut pair = Pair::connected(&two_links(LINK, LINK, None), 1);
    for number in 0..PACKETS {
        send(&mut pair, &segment(1, number, DATA, 1_000));
        pair.run_for(MS * 4);
    }
    pair.run_for(Duration::from_secs(3));
    let order = numbers(&came(&pair)[&1]);
    let [sent, came] = [DRONE, STATION].map(|end| pair.status(end).expect("a session").tunnel);
    let due = PACKETS as usize - sent.dropped as usize;
    assert!(order.len() == due && order.is_sorted(), "{} of {due}", order.len());
    assert!(came.recovered * 10 > sent.again * 8, "{sent:?}, {came:?}");
    assert!(sent.repairs < u64::from(PACKETS) / 10, "{sent:?}");
    assert!(came.wait.p99 < MS * 150, "{came:?}");
}

#[test]
fn a_flow_waits_for_no_others_packets() {
    let mut pair = Pair::connected(&two_links(&lossy(WIFI, 0.05), &lossy(LTE, 0.05), None), 1);
    let mut sent = Vec::new();
    for step in 0..10_000_u32 {
        send(&mut pair, &segment(1, step, DATA, 1_000));
        if step % 20 == 0 {
            sent.push(pair.world.now());
            send(&mut pair, &segment(2, step / 20, DATA, 100));
        }
        pair.run_for(MS / 2);
    }
    pair.run_for(Duration::from_secs(3));
    let came = came(&pair);
    assert!(numbers(&came[&2]).iter().copied().eq(0..500));
    let age = |(number, at): &(u32, Instant)| at.since(sent[*number as usize]);
    // 35 ms of the longer way and two short queues: beyond that it has waited for one of its own.
    let late = came[&2].iter().filter(|packet| age(packet) > 75 * MS).count();
    assert!(late < 500 / 10, "{late} of 500 waited");
}

#[test]
fn udp_is_not_delayed_by_what_tcp_has_lost() {
    let mut pair = Pair::connected(&two_links(&lossy(WIFI, 0.05), &lossy(LTE, 0.05), None), 1);
    let mut sent = Vec::new();
    for step in 0..10_000_u32 {
        send(&mut pair, &segment(1, step, DATA, 1_000));
        if step % 20 == 0 {
            sent.push(pair.world.now());
            send(&mut pair, &datagram(step / 20));
        }
        pair.run_for(MS / 2);
    }
    pair.run_for(Duration::from_secs(3));
    let udp = &came(&pair)[&0];
    let age = |(number, at): &(u32, Instant)| at.since(sent[*number as usize]);
    let longest = udp.iter().map(age).max().expect("some came");
    assert!(longest < 100 * MS, "{longest:?}");
    // It is lost as it always was: nobody sends it again.
    assert!((440..=500).contains(&udp.len()), "{} came", udp.len());
}

#[test]
fn an_outage_of_all_paths_loses_nothing_that_was_taken() {
    let outage = "[[link.outage]]\nstart_s = 10\nseconds = 20\nmode = \"drop\"\n";
    let link = |link: &str| format!("{}{outage}", lossy(link, 0.02));
    for seed in 1..=3 {
        let scenario = two_links(&link(WIFI), &link(LTE), None);
        let mut pair = Pair::at_once(&scenario, seed);
        let start = pair.world.now();
        let mut number = 0;
        while pair.world.now().since(start) < Duration::from_secs(25) {
            send(&mut pair, &segment(1, number, DATA, 1_228));
            number += 1;
            // Six Mbit/s before, what TCP's last tries come to meanwhile.
            let in_outage = pair.world.now().since(start) > Duration::from_secs(10);
            pair.run_for(if in_outage { MS * 200 } else { MS * 2 });
        }
        pair.run_for(Duration::from_secs(10));
        let came = &came(&pair)[&1];
        let tcp = pair.status(DRONE).expect("a session").tunnel;
        assert!(numbers(came).iter().copied().eq(0..number), "seed {seed}: {tcp:?}");
        let gap = came.windows(2).map(|pair| pair[1].1.since(pair[0].1)).max().unwrap_or_default();
        assert!(gap < MS * 20_500, "seed {seed}: {gap:?} without a packet");
    }
}

#[test]
fn a_full_size_packet_handed_in_while_no_path_works_is_taken() {
    let outage = "[[link.outage]]\nstart_s = 5\nseconds = 10\nmode = \"drop\"\n";
    let link = |link: &str| format!("{link}{outage}");
    let mut pair = Pair::at_once(&two_links(&link(WIFI), &link(LTE), None), 1);
    let full = |number| segment(1, number, DATA, 1_240);
    (0..200).for_each(|number| {
        send(&mut pair, &full(number));
        pair.run_for(MS * 10);
    });
    pair.run_for(Duration::from_secs(7));
    assert_eq!(pair.active_paths(DRONE), 0);
    send(&mut pair, &full(200));
    pair.run_for(Duration::from_secs(10));
    assert!(numbers(&came(&pair)[&1]).iter().copied().eq(0..201));
}

#[test]
fn one_of_two_paths_dies_and_what_it_had_under_way_comes_by_the_other() {
    for seed in 1..=5 {
        let scenario = two_links(&lossy(WIFI, 0.02), &lossy(LTE, 0.01), Some(10.0));
        let mut pair = Pair::at_once(&scenario, seed);
        for number in 0..8_000 {
            send(&mut pair, &segment(1, number, DATA, 1_000));
            pair.run_for(MS * 2);
        }
        pair.run_for(Duration::from_secs(2));
        let came = &came(&pair)[&1];
        assert!(numbers(came).iter().copied().eq(0..8_000), "seed {seed}");
        let gap = came.windows(2).map(|pair| pair[1].1.since(pair[0].1)).max().unwrap_or_default();
        assert!(gap < MS * 400, "seed {seed}: {gap:?} without a packet");
    }
}

#[test]
fn the_beginning_of_a_connection_arrives_although_a_path_loses_it() {
    let scenario = two_links(&lossy(WIFI, 0.5), &lossy(LTE, 0.05), None);
    let mut pair = Pair::connected(&scenario, 1);
    let mut sent = Vec::new();
    for flow in 1..=200 {
        sent.push(pair.world.now());
        send(&mut pair, &segment(flow, 0, SYN, 0));
        pair.run_for(MS * 50);
    }
    pair.run_for(Duration::from_secs(2));
    let came = came(&pair);
    assert!(came.values().all(|packets| packets.len() == 1), "each once");
    let age = |(flow, packets): (&u16, &Vec<(u32, Instant)>)| {
        packets[0].1.since(sent[usize::from(*flow) - 1])
    };
    let mut ages: Vec<Duration> = came.iter().map(age).collect();
    ages.sort_unstable();
    assert_eq!(ages.len(), 200);
    assert!(ages[189] < 50 * MS, "19 of 20 came by the first copy: {:?}", ages[189]);
}

#[test]
fn acknowledgements_alone_are_neither_numbered_nor_kept() {
    let mut pair = Pair::connected(&two_links(&lossy(WIFI, 0.1), LTE, None), 1);
    for number in 0..1_000 {
        send(&mut pair, &segment(1, number, DATA, 0));
        pair.run_for(MS);
    }
    pair.run_for(Duration::from_secs(1));
    let tcp = pair.status(DRONE).expect("a session").tunnel;
    assert_eq!((tcp.symbols, tcp.again), (0, 0));
    let count = came(&pair)[&1].len();
    assert!((860..1_000).contains(&count), "{count} of 1,000: some are lost, as before");
}

#[test]
fn both_forms_meet_in_one_session() {
    let plain = SessionConfig { tunnel: TunnelForm::Plain, ..SessionConfig::default() };
    let configs = [SessionConfig::default(), plain];
    let mut pair = Pair::between(&two_links(WIFI, LTE, None), 1, configs);
    pair.run_for(Duration::from_secs(3));
    for number in 0..500 {
        for host in [DRONE, STATION] {
            let packet = segment(1, number, DATA, 1_000);
            pair.send(host, Source::Tunnel, &packet).expect("it is taken");
        }
        pair.run_for(MS * 2);
    }
    pair.run_for(Duration::from_secs(1));
    assert!(numbers(&came(&pair)[&1]).iter().copied().eq(0..500));
    assert_eq!(pair.seen[DRONE].len(), 500);
    let symbols = [DRONE, STATION].map(|host| pair.status(host).map(|of| of.tunnel.symbols));
    assert_eq!(symbols, [Some(500), Some(0)]);
}

/// A session whose TCP travels in coded generations.
fn flowcode() -> SessionConfig {
    let tunnel = TunnelForm::FlowCode(FlowCodeParameters::default());
    SessionConfig { tunnel, ..SessionConfig::default() }
}

#[test]
fn tcp_in_coded_generations_sees_no_loss_and_no_reordering_at_two_percent() {
    const PACKETS: u32 = 5_000;
    for seed in 1..=3 {
        let scenario = two_links(&lossy(WIFI, 0.02), &lossy(LTE, 0.02), None);
        let mut pair = Pair::new(&scenario, seed, flowcode());
        pair.run_for(Duration::from_secs(3));
        for number in 0..PACKETS {
            send(&mut pair, &segment(1, number, DATA, 1_000));
            pair.run_for(MS / 2);
        }
        pair.run_for(Duration::from_secs(3));
        let order = numbers(&came(&pair)[&1]);
        let tcp = pair.status(DRONE).expect("a session").tunnel;
        let due = PACKETS as usize - tcp.dropped as usize;
        assert!(order.len() == due && order.is_sorted(), "seed {seed}: {} of {due}", order.len());
        assert!(tcp.generations >= due as u64 / 4 && tcp.again > 50, "seed {seed}: {tcp:?}");
        assert!(tcp.dropped < 250, "seed {seed}: {tcp:?}");
        let station = pair.status(STATION).expect("a session").tunnel;
        assert_eq!((station.expired, station.decoded), (0, tcp.generations), "seed {seed}");
    }
}

#[test]
fn a_single_packet_does_not_wait_for_its_generation_to_fill() {
    let mut pair = Pair::new(&two_links(WIFI, LTE, None), 1, flowcode());
    pair.run_for(Duration::from_secs(3));
    let mut sent = Vec::new();
    for number in 0..50 {
        sent.push(pair.world.now());
        send(&mut pair, &segment(1, number, DATA, 100));
        pair.run_for(MS * 100);
    }
    let came = &came(&pair)[&1];
    assert!(numbers(came).iter().copied().eq(0..50));
    let age = |(number, at): &(u32, Instant)| at.since(sent[*number as usize]);
    let longest = came.iter().map(age).max().expect("some came");
    assert!(longest < 60 * MS, "{longest:?}");
    let tcp = pair.status(DRONE).expect("a session").tunnel;
    assert_eq!((tcp.symbols, tcp.generations), (50, 50));
}

#[test]
fn window_and_coded_generations_meet_in_one_session() {
    let configs = [SessionConfig::default(), flowcode()];
    let links = two_links(&lossy(WIFI, 0.02), &lossy(LTE, 0.02), None);
    let mut pair = Pair::between(&links, 1, configs);
    pair.run_for(Duration::from_secs(3));
    for number in 0..500 {
        for host in [DRONE, STATION] {
            let packet = segment(1, number, DATA, 1_000);
            pair.send(host, Source::Tunnel, &packet).expect("it is taken");
        }
        pair.run_for(MS * 2);
    }
    pair.run_for(Duration::from_secs(1));
    assert!(numbers(&came(&pair)[&1]).iter().copied().eq(0..500));
    assert_eq!(pair.seen[DRONE].len(), 500);
    let [drone, station] = [DRONE, STATION].map(|host| pair.status(host).expect("both").tunnel);
    assert_eq!((drone.generations, drone.symbols, station.symbols), (0, 500, 500));
    assert_eq!((station.generations > 100, station.decoded), (true, 0));
}

#[test]
fn an_outage_of_all_paths_loses_nothing_of_coded_generations() {
    let outage = "[[link.outage]]\nstart_s = 10\nseconds = 20\nmode = \"drop\"\n";
    let link = |link: &str| format!("{}{outage}", lossy(link, 0.02));
    for seed in 1..=3 {
        let scenario = two_links(&link(WIFI), &link(LTE), None);
        let mut pair = Pair::new(&scenario, seed, flowcode());
        let start = pair.world.now();
        let mut number = 0;
        while pair.world.now().since(start) < Duration::from_secs(25) {
            send(&mut pair, &segment(1, number, DATA, 1_228));
            number += 1;
            let in_outage = pair.world.now().since(start) > Duration::from_secs(10);
            pair.run_for(if in_outage { MS * 200 } else { MS * 2 });
        }
        pair.run_for(Duration::from_secs(10));
        let came = &came(&pair)[&1];
        let tcp = pair.status(DRONE).expect("a session").tunnel;
        assert!(numbers(came).iter().copied().eq(0..number), "seed {seed}: {tcp:?}");
        let gap = came.windows(2).map(|pair| pair[1].1.since(pair[0].1)).max().unwrap_or_default();
        assert!(gap < MS * 20_500, "seed {seed}: {gap:?} without a packet");
    }
}

#[test]
fn packets_as_long_as_the_session_takes_fit_generations_of_any_size() {
    for k in [1, 16] {
        let parameters = FlowCodeParameters { k, ..FlowCodeParameters::default() };
        let tunnel = TunnelForm::FlowCode(parameters);
        let config = SessionConfig { tunnel, ..SessionConfig::default() };
        let mut pair = Pair::new(&two_links(WIFI, LTE, None), 1, config);
        pair.run_for(Duration::from_secs(10));
        let fits = |payload: &usize| {
            let packet = segment(1, *payload as u32, DATA, *payload);
            pair.send(DRONE, Source::Tunnel, &packet).is_ok()
        };
        let taken = (1_300..1_472).filter(fits).count();
        pair.run_for(Duration::from_secs(2));
        assert!(taken > 50 && taken < 150, "k = {k}: {taken}");
        assert_eq!(came(&pair)[&1].len(), taken, "k = {k}");
    }
}

#[test]
fn many_flows_share_alike() {
    const FLOWS: u16 = 20;
    let mut pair = Pair::connected(&two_links(WIFI, LTE, None), 1);
    for number in 0..1_000 {
        // One asks for five times what the others do; together they ask for twice what there is.
        for flow in 0..FLOWS + 4 {
            send(&mut pair, &segment(flow.min(FLOWS - 1) + 1, number, DATA, 1_000));
        }
        pair.run_for(MS * 3);
    }
    let came = came(&pair);
    let counts: Vec<usize> = came.values().map(Vec::len).collect();
    let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
    assert!(
        least.is_some_and(|least| most.is_some_and(|most| most * 10 < least * 12)),
        "{counts:?}"
    );
}

#[test]
fn paths_without_congestion_control_carry_tcp_as_well() {
    let config = SessionConfig { congestion: CongestionKind::None, ..SessionConfig::default() };
    let mut pair = Pair::new(&two_links(&lossy(WIFI, 0.02), &lossy(LTE, 0.02), None), 1, config);
    pair.run_for(Duration::from_secs(3));
    for number in 0..1_000 {
        send(&mut pair, &segment(1, number, DATA, 1_000));
        pair.run_for(MS * 2);
    }
    pair.run_for(Duration::from_secs(1));
    assert!(numbers(&came(&pair)[&1]).iter().copied().eq(0..1_000));
}
