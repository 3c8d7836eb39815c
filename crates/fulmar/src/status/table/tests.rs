//! Tests of `../table.rs`.

use super::*;
use crate::status::{ENDLESS, RejectedReport, TunnelReport};

#[test]
fn table_says_what_is_wrong_with_which_path() {
    let wifi = PathReport {
        name: "wifi".into(),
        state: "suspected".into(),
        trouble: "silent for 4.2 s: dead or out of range".into(),
        ..PathReport::default()
    };
    let lte = PathReport {
        name: "lte".into(),
        state: "active".into(),
        srtt_ms: Some(71.3),
        rttvar_ms: Some(4.25),
        out_mbps: 3.2,
        mtu: 1_372,
        ..PathReport::default()
    };
    let peer = PeerReport {
        name: "ground".into(),
        connected: true,
        session_s: Some(192.0),
        trouble: "only one path works: nothing is left if it fails".into(),
        paths: vec![wifi, lte],
        rejected_datagrams: 12,
        rejected: RejectedReport { bad_tag: 9, replayed: 3, ..RejectedReport::default() },
        processor_s: 2.54,
        late_datagrams: 7,
        dropped_datagrams: 1,
        not_forwarded: vec![
            NotForwardedReport { channel: 1, what: "SETUP_SIGNING".into(), count: 2 },
            NotForwardedReport { channel: 1, what: "broken frames".into(), count: 3 },
        ],
        classes: vec![ClassReport {
            class: "control".into(),
            submitted: 3,
            superseded: 2,
            ..Default::default()
        }],
        messages: MessageReport {
            submitted: 10,
            source_symbols: 20,
            repair_symbols: 4,
            resent_symbols: 1,
            delivered: 9,
            received_symbols: 18,
            decoded_symbols: 2,
            ..MessageReport::default()
        },
        ..PeerReport::default()
    };
    let tunnel = Some(TunnelReport { spoofed: 2, refused: 1, ..TunnelReport::default() });
    let report = Report { role: "drone".into(), peers: vec![peer], tunnel, ..Report::default() };
    let text = table(&report, ENDLESS);
    let line = |word: &str| {
        text.lines().find(|line| line.trim_start().starts_with(word)).unwrap().to_owned()
    };
    let heading = "ground: connected for 3 min 12 s, 12 datagrams rejected (9 not authentic, 3 replayed), \
                   2.5 s of the processor: 7 datagrams served late, 1 dropped";
    assert_eq!(line("ground"), heading);
    assert!(line("!").contains("only one path works"));
    assert!(line("wifi").ends_with("silent for 4.2 s: dead or out of range"));
    assert!(line("lte").contains("71 ms") && line("lte").ends_with("ok"));
    let control = line("control");
    let cells: Vec<_> = control.split_whitespace().collect();
    assert_eq!(cells, ["control", "3", "0", "0", "2", "0", "0", "0", "–", "–", "–", "–"]);
    let kept = "not forwarded from channel 1: 2 SETUP_SIGNING, 3 broken frames";
    assert_eq!(line("not forwarded").trim(), kept);
    assert!(line("tunnel").ends_with("0 in, 2 from a wrong address, 1 turned away"), "{text}");
    assert!(line("messages out").ends_with("20 symbols, 4 repair and 1 again (+25 %)"));
    assert!(line("messages in").ends_with("9 delivered, 0 skipped; 2 of 20 symbols decoded"));
}

#[test]
fn of_the_clocks_it_says_how_well_they_are_known_and_not_which_computer_was_started_first() {
    let mut peer = PeerReport { name: "ground".into(), ..PeerReport::default() };
    peer.clock_offset_ms = Some(-86_400_000.0);
    peer.clock_error_ms = Some(10.06);
    assert_eq!(peer_text(&peer, ENDLESS), "ground: not connected, clocks known to ± 10.1 ms\n");
}

#[test]
fn a_path_has_its_interface_and_its_loss_in_both_directions() {
    let lte = PathReport {
        name: "lte".into(),
        interface: "wwan0".into(),
        state: "active".into(),
        loss_percent: 1.25,
        loss_in_percent: 11.04,
        ..PathReport::default()
    };
    let text = rows(PATHS, &[lte], ENDLESS);
    let cells: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[..9], ["lte", "wwan0", "active", "–", "–", "1.2", "%", "11.0", "%"]);
}

#[test]
fn a_target_stands_beside_what_was_achieved_and_what_limits_it() {
    let live = ReliabilityReport {
        name: "live".into(),
        target: 0.999,
        deadline_ms: 100.0,
        state: "met".into(),
        predicted: Some(0.999_981),
        achieved: Some(1.0),
        copies_per_message: Some(1.137),
        limit: "wifi and lte fail together in 1 in 6 failures of wifi".into(),
        ..Default::default()
    };
    let peer = PeerReport { reliability: vec![live], ..PeerReport::default() };
    let text = table(&Report { peers: vec![peer], ..Report::default() }, ENDLESS);
    let line = text.lines().find(|line| line.trim_start().starts_with("live")).unwrap();
    assert!(line.contains("99.90 % in 100 ms") && line.contains("met"), "{line}");
    assert!(line.contains("99.9981 %") && line.ends_with("failures of wifi"), "{line}");
}

#[test]
fn wrong_keys_of_strangers_are_told_in_words() {
    assert_eq!(strangers_text(&StrangersReport::default()), "");
    let strangers = StrangersReport {
        garbage: 14,
        unknown_peers: 12,
        unknown_peers_last_s: Some(3.2),
        other_keys: 2,
        other_keys_last_s: Some(70.0),
        ..StrangersReport::default()
    };
    let text = strangers_text(&strangers);
    let told = [
        "strangers: handshakes with a key, or preshared key, that no peer here has: 12, last 3 s ago",
        "strangers: handshakes for another public key than ours: 2, last 1 min 10 s ago",
    ];
    assert!(told.iter().all(|told| text.lines().any(|line| line == *told)), "{text}");
}

#[test]
fn table_shows_of_each_stream_where_its_delay_arises() {
    let maps = MessageStreamReport {
        name: "maps".into(),
        channel: 31,
        stream: 2,
        order: "in-order".into(),
        direction: "both".into(),
        sent: 7,
        waiting_bytes: 1_048_576,
        delivered: 9,
        skipped: 1,
        delay: DelayReport {
            division_ms: 4.0,
            end_to_end_ms: 50.4,
            decoding_ms: 3.5,
            reconstruction_ms: 12.3,
        },
        ..MessageStreamReport::default()
    };
    let out = MessageStreamReport { direction: "out".into(), expired: 3, ..Default::default() };
    let shown = |streams: Vec<MessageStreamReport>| {
        let text = streams_text(&streams, ENDLESS);
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.map(|words| words.join(" ")).collect::<Vec<String>>()
    };
    let lines = shown(vec![maps.clone(), out]);
    assert_eq!(lines[1], "maps 31/2 in-order 7 1048 kB 0 9 1 70 ms 4.0 ms 50 ms 3.5 ms 12 ms");
    assert_eq!(lines[2], "(no endpoint) 0/0 0 0 B 3 – – – – – – –");
    assert_eq!(shown(Vec::new()), Vec::<String>::new());
    let many = shown(vec![maps; STREAMS_SHOWN + 5]);
    assert_eq!(many.len(), 1 + STREAMS_SHOWN + 1);
    assert!(many.last().is_some_and(|line| line.starts_with("and 5 more")));
}

/// A report with everything that makes lines long.
fn long_report() -> Report {
    let address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:14700";
    let path = |name: &str, trouble: &str| PathReport {
        name: name.into(),
        interface: "enxb827eb123456".into(),
        remote: address.into(),
        state: "suspected".into(),
        backup: true,
        srtt_ms: Some(1_234.0),
        rttvar_ms: Some(250.0),
        trouble: trouble.into(),
        mtu: 1_252,
        cut_datagrams: 123_456,
        ..PathReport::default()
    };
    let (lte, wifi) = ("a-long-name-of-the-lte-modem", "wifi");
    let no_answer =
        format!("no answer from {address}: is the peer running, does a firewall block UDP?");
    let peer = PeerReport {
        name: "a-drone-with-a-long-name".into(),
        trouble: "its autopilot is silent for 12 s: ttyAMA0 sends noise (baud rate?); no path works: nothing gets through".into(),
        paths: vec![path(lte, &no_answer), path(wifi, "ok, but for these words")],
        classes: vec![ClassReport { class: "telemetry".into(), submitted: 123_456_789, ..Default::default() }],
        reliability: vec![ReliabilityReport {
            name: "transactional".into(),
            limit: "wifi and lte fail together in 1 in 6 failures of wifi".into(),
            ..Default::default()
        }],
        message_streams: vec![MessageStreamReport { name: "detections".into(), ..Default::default() }],
        rejected_datagrams: 12,
        rejected: RejectedReport { bad_tag: 9, replayed: 3, ..RejectedReport::default() },
        processor_s: 2.54,
        late_datagrams: 7,
        ..PeerReport::default()
    };
    let endpoint = EndpointReport {
        name: "autopilot".into(),
        peer: "a-drone-with-a-long-name".into(),
        description: "serial /dev/serial/by-id/usb-Holybro_Pixhawk6C_1F0038001451333337363439-if00".into(),
        trouble: "another program has it for itself: mavproxy.py (process 1234); it is tried every second".into(),
        ..EndpointReport::default()
    };
    let strangers =
        StrangersReport { unknown_peers: 12, garbage: 14, ..StrangersReport::default() };
    Report {
        role: "station".into(),
        version: "0.1.0".into(),
        public_key: "V9tLNZ8jrl4Ubk4lEgVnBHIlBjSMFQwUdT0Mkz0E1CE=".into(),
        peers: vec![peer],
        endpoints: vec![endpoint],
        tunnel: Some(TunnelReport {
            interface: "fulmar0".into(),
            spoofed: 2,
            put_back: 1,
            misleading: 4,
            ..Default::default()
        }),
        strangers,
        ..Report::default()
    }
}

#[test]
fn eighty_columns_are_enough_and_nothing_is_cut_off() {
    let report = long_report();
    let of = |width| table(&report, width);
    let endless = of(ENDLESS);
    assert!(endless.lines().any(|line| line.chars().count() > 200), "{endless}");
    for width in [80, 60, 132] {
        let text = of(width);
        let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= width, "{width}: {longest}\n{text}");
        // Every word is there, the long ones perhaps in two parts.
        let letters = text.split_whitespace().collect::<String>();
        // A column of words has no head then.
        let heads = ["what", "is", "wrong", "limits"];
        for word in endless.split_whitespace().filter(|word| !heads.contains(word)) {
            assert!(letters.contains(word), "{width}: {word}\n{text}");
        }
    }
    let text = of(80);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("a-long-name-of-the-lte-modem: no answer from [2001:db8"), "{text}");
    assert!(words.contains("! endpoint autopilot: another program has it for itself"), "{text}");
}
