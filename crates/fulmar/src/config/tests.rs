//! Tables of files and what is said about them.

mod path_use;
mod ports;
mod relay;

use std::path::Path;

use super::*;

const SECRET: &str = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=";
const OTHER: &str = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";

/// The shortest file of a drone, with `more` after it.
pub(crate) fn drone(more: &str) -> String {
    format!(
        "role = \"drone\"\nprivate_key = \"{SECRET}\"\n\
         [[peer]]\nname = \"ground\"\npublic_key = \"{OTHER}\"\n\
         [[path]]\ninterface = \"wlan0\"\nremote = \"192.0.2.1:14700\"\n{more}"
    )
}

pub(super) fn problems(text: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    match parse(text, file.path()) {
        Ok(_) => Vec::new(),
        Err(error) => error.mistakes.iter().map(Mistake::to_string).collect(),
    }
}

#[test]
fn shortest_drone_file_has_sensible_defaults() {
    let config = parse(&drone(""), Path::new("/etc/fulmar/drone.toml")).unwrap();
    assert_eq!(config.role, Role::Drone);
    assert_eq!(config.paths[0].name, "wlan0");
    assert_eq!(config.status, Path::new("/run/fulmar/drone.sock"));
    assert_eq!(config.transport.control_dscp, 46);
    assert_eq!(config.tunnel, None);
    assert!(config.warnings.iter().any(|warning| warning.contains("nothing to carry")));
}

#[test]
fn every_section_is_understood() {
    let text = drone(
        r#"
[tunnel]
address = ["10.77.0.2/24", "fd77::2/64"]
[[mavlink]]
name = "autopilot"
kind = "serial"
device = "/dev/ttyAMA0"
baud = 921600
radio_status_hz = 2
statustext = false
renumber = true
[[mavlink]]
name = "companion"
kind = "udp-server"
address = "127.0.0.1:14555"
[[control]]
name = "sticks"
channel = 10
address = "127.0.0.1:14800"
order = "latest"
ttl_ms = 300
copies = "best"
[selector]
inspected_ports = "any"
[selector.to_vehicle]
76 = "drop"
420 = "live"
unknown = "bulk"
[transport]
scheduler = "redundant"
congestion = "cubic"
protect_control = "strict"
bulk_max_age_ms = 200
control_dscp = 48
segmentation_offload = false
[status]
socket = "/run/other.sock"
[log]
level = "debug"
format = "json"
"#,
    );
    let config = parse(&text, Path::new("drone.toml")).unwrap();
    let tunnel = config.tunnel.unwrap();
    assert_eq!((tunnel.mtu, tunnel.addresses.len()), (1_280, 2));
    assert_eq!(config.endpoints.len(), 3);
    let second = Duration::from_millis(500);
    let content =
        MavlinkContent { radio_status: Some(second), renumber: true, ..MavlinkContent::default() };
    assert_eq!(config.endpoints[0].content, Content::Mavlink(content));
    let Content::Declared(policy) = &config.endpoints[2].content else { panic!("not control") };
    assert_eq!(policy.ttl, Duration::from_millis(300));
    assert_eq!(policy.copies, proto::select::Copies::Best);
    assert_eq!(config.transport.session.protect_control, proto::ProtectControl::Strict);
    let selector = &config.transport.session.selector;
    assert_eq!(selector.to_vehicle.overrides[&76], None);
    assert_eq!(selector.to_vehicle.overrides[&420], Some(Policy::LIVE));
    assert_eq!(selector.to_vehicle.unknown, Some(Policy::TRANSFER));
    assert_eq!(config.log, LogConfig { level: tracing::Level::DEBUG, json: true });
}

/// Each file with what is said about it, in the order of the lines.
fn check(table: &[(String, &[&str])]) {
    for (text, expected) in table {
        let found = problems(text);
        assert_eq!(found.len(), expected.len(), "{text}\n{found:#?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(found.starts_with(expected), "{text}\nfound {found}\nwanted {expected}");
        }
    }
}

#[test]
fn mistakes_about_peers_and_paths_are_told_with_line_and_key() {
    check(&[
        ("role = ".into(), &["1: role: not TOML: "]),
        ("".into(), &["1: role: is missing", "1: private_key_file: is missing"]),
        (
            drone("interfce = \"wlan0\""),
            &[
                "9: path[0].interfce: unknown key; the keys here are relay, interface, name, peer, remote, \
                 cost, backup, carries",
            ],
        ),
        (
            drone("[[path]]\ninterface = \"wwan0\"\nremote = \"192.0.2.1\""),
            &["11: path[1].remote: \"192.0.2.1\" is not an address or name with a port"],
        ),
        (
            drone("[[path]]\ninterface = \"a-name-that-is-too-long\"\n"),
            &[
                "9: path[1].remote: is missing, and the peer has no endpoint",
                "10: path[1].interface: \"a-name-that-is-too-long\" cannot be an interface",
            ],
        ),
        (
            drone("[[path]]\ninterface = \"wlan0\"\nremote = \"192.0.2.2:1\""),
            &["9: path[1].name: \"wlan0\" names two paths"],
        ),
        (
            drone("[[listen]]\naddress = \"0.0.0.0:14700\""),
            &["9: listen: belongs to a station's file"],
        ),
        (drone("").replace(OTHER, "abc"), &["5: peer[0].public_key: \"abc\" is not a key"]),
        (drone("").replace("private_key =", "private_key_file ="), &["2: private_key_file: "]),
        (drone("").replace(OTHER, &own_public_key()), &["5: peer[0].public_key: is our own"]),
        (
            drone(&format!("[[peer]]\nname = \"b\"\npublic_key = \"{OTHER}\"")),
            &[
                "6: path[0].peer: is missing: the file has several peers, name one",
                "11: peer[1].public_key: belongs to two peers",
            ],
        ),
    ]);
}

#[test]
fn mistakes_about_local_matters_are_told_with_line_and_key() {
    check(&[
        (drone("[tunel]\nmtu = 3"), &["9: tunel: unknown key; the keys here are role, "]),
        (
            drone("[tunnel]\nmtu = 9000"),
            &[
                "9: tunnel.address: is missing",
                "10: tunnel.mtu: 9000 is not a whole number from 576 to 1400",
            ],
        ),
        (
            drone("[tunnel]\nmtu = 600\naddress = \"fd77::2/64\""),
            &["10: tunnel.mtu: IPv6 needs at least 1280"],
        ),
        (
            drone("[tunnel]\naddress = [\"10.0.0.1/24\", 7]"),
            &["10: tunnel.address: a value of type"],
        ),
        (drone("[status]\nport = 1"), &["10: status.port: unknown key; the keys here are socket"]),
        (drone("[log]\nlevel = \"loud\""), &["10: log.level: \"loud\" is not one of "]),
    ]);
}

#[test]
fn mistakes_about_endpoints_are_told_with_line_and_key() {
    check(&[
        (
            drone("[[mavlink]]\nname = \"a\"\nkind = \"udp\"\naddress = \"127.0.0.1:1\""),
            &["11: mavlink[0].kind: \"udp\" is not one of \"udp-server\", \"udp-client\", "],
        ),
        (
            drone("[[mavlink]]\nname = \"a\"\nkind = \"serial\"\naddress = \"127.0.0.1:1\""),
            &[
                "9: mavlink[0].device: is missing",
                "12: mavlink[0].address: belongs to UDP and TCP, not to a serial port",
            ],
        ),
        (
            drone(
                "[[mavlink]]\nname = \"a\"\nkind = \"udp-client\"\naddress = \"127.0.0.1:1\"\n\
                 [[control]]\nname = \"a\"\nchannel = 1\naddress = \"127.0.0.1:2\"\nttl_ms = 1",
            ),
            &[
                "14: control[0].name: \"a\" names two endpoints",
                "15: control[0].channel: 1 is the channel of endpoint \"a\"",
                "17: control[0].ttl_ms: 1 is not a whole number from 10 to 60000",
            ],
        ),
    ]);
}

#[test]
fn messages_have_streams_orders_and_deadlines() {
    let text = drone(
        "[[message]]\nname = \"a\"\nchannel = 30\nkind = \"seqpacket\"\npath = \"/run/a\"\n\
         [[message]]\nname = \"b\"\nchannel = 30\nstream = 1\nkind = \"udp-server\"\n\
         address = \"127.0.0.1:1\"\norder = \"unordered\"\ndeadline_ms = 500\n\
         [[message]]\nname = \"c\"\nchannel = 31\nkind = \"rtp-client\"\n\
         address = \"127.0.0.1:2\"",
    );
    let config = parse(&text, Path::new("drone.toml")).unwrap();
    let content = |place: usize| match config.endpoints[place].content {
        Content::Message(content) => content,
        _ => panic!("not messages"),
    };
    assert_eq!(config.endpoints[0].kind, EndpointKind::Seqpacket("/run/a".into(), 0o660));
    let usual = MessageContent { stream: MessageStream::default(), rtp: false };
    assert_eq!(content(0), usual);
    let half = Some(Duration::from_millis(500));
    let order = proto::MessageOrder::Unordered;
    let stream = MessageStream { id: 1, order, deadline: half };
    assert_eq!(content(1), MessageContent { stream, rtp: false });
    let stream = MessageStream { id: 0, order, deadline: Some(Duration::from_millis(200)) };
    assert_eq!(content(2), MessageContent { stream, rtp: true });
}

#[test]
fn mistakes_about_messages_are_told_with_line_and_key() {
    let message = |more: &str| drone(&format!("[[message]]\nname = \"m\"\n{more}"));
    let usual = "channel = 3\nkind = \"udp-server\"\naddress = \"127.0.0.1:1\"\n";
    check(&[
        (message(""), &["9: message[0].channel: is missing", "9: message[0].kind: is missing"]),
        (
            message("channel = 3\nkind = \"stream\"\n"),
            &["12: message[0].kind: \"stream\" is not one of \"udp-server\", \"udp-client\", "],
        ),
        (
            message(&format!("{usual}order = \"latest\"\ndeadline_ms = 0\nstream = 65536\n")),
            &[
                "14: message[0].order: \"latest\" is not one of \"in-order\", \"unordered\"",
                "15: message[0].deadline_ms: 0 is not a whole number from 10 to 60000",
                "16: message[0].stream: 65536 is not a whole number from 0 to 65535",
            ],
        ),
        (
            message("channel = 3\nkind = \"seqpacket\"\naddress = \"127.0.0.1:1\"\nmode = \"9\""),
            &[
                "9: message[0].path: is missing",
                "13: message[0].address: belongs to UDP",
                "14: message[0].mode: \"9\" is not permissions such as \"0660\"",
            ],
        ),
        (
            message("channel = 3\nkind = \"seqpacket\"\npath = \"fulmar.sock\""),
            &["13: message[0].path: needs an absolute path of at most 107 bytes"],
        ),
        (
            message(&usual.replace("udp-server", "rtp-server")) + "order = \"in-order\"",
            &["14: message[0].order: RTP numbers its packets"],
        ),
        (
            message(usual) + "[[message]]\nname = \"n\"\n" + &usual.replace(":1", ":2"),
            &["14: message[1].stream: 0 of channel 3 is the stream of endpoint \"m\""],
        ),
        (
            message(usual) + "[[control]]\nname = \"n\"\nchannel = 3\naddress = \"127.0.0.1:2\"",
            &["11: message[0].channel: 3 is the channel of endpoint \"n\""],
        ),
    ]);
}

#[test]
fn mistakes_about_traffic_are_told_with_line_and_key() {
    check(&[
        (
            drone("[selector.to_vehicle]\n76 = \"fast\"\nNO_SUCH_MESSAGE = \"live\"\n77 = 3"),
            &[
                "10: selector.to_vehicle.76: \"fast\" is not one of transactional, ",
                "11: selector.to_vehicle.NO_SUCH_MESSAGE: no such MAVLink message",
                "12: selector.to_vehicle.77: needs the name of a policy",
            ],
        ),
        (
            drone("[transport]\ncontrol_dscp = 64\nsegmentation_offload = \"no\""),
            &[
                "10: transport.control_dscp: 64 is not a whole number from 0 to 63",
                "11: transport.segmentation_offload: \"no\" is not true or false",
            ],
        ),
    ]);
}

#[test]
fn station_takes_many_drones_and_wants_each_named() {
    let station = |more: &str| {
        format!(
            "role = \"station\"\nprivate_key = \"{SECRET}\"\n\
             [[listen]]\naddress = \"0.0.0.0:14700\"\n\
             [[peer]]\nname = \"a\"\npublic_key = \"{OTHER}\"\nallowed_addresses = \"10.77.0.2/32\"\n\
             [[peer]]\nname = \"b\"\npublic_key = \"{}\"\nallowed_addresses = [\"10.77.0.2/32\"]\n{more}",
            own_public_key().replace('A', "B"),
        )
    };
    assert_eq!(
        problems(&station("")),
        ["12: peer[1].allowed_addresses: 10.77.0.2/32 belongs to peer \"a\" already"]
    );
    let text =
        station("[[mavlink]]\nname = \"m\"\nkind = \"udp-client\"\naddress = \"127.0.0.1:14550\"")
            .replace("[\"10.77.0.2/32\"]", "[\"10.77.0.3/32\"]");
    assert_eq!(
        problems(&text),
        ["13: mavlink[0].peer: is missing: the file has several peers, name one"]
    );
    let text = text + "\npeer = \"c\"";
    assert_eq!(
        problems(&text),
        ["17: mavlink[0].peer: there is no [[peer]] named \"c\"; there are a, b"]
    );
}

fn own_public_key() -> String {
    let key = crate::keys::decode(SECRET).unwrap();
    StaticSecret::from_bytes(*key).public().to_string()
}

#[test]
fn keys_that_protect_nothing_are_mistakes() {
    let zeros = format!("{}=", "A".repeat(43));
    let found = problems(&drone("").replace(OTHER, &zeros));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("5: peer[0].public_key: is nobody's"), "{found:?}");
    let found = problems(&drone("").replace(SECRET, &zeros));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("2: private_key: is all zeros"), "{found:?}");
}

#[test]
fn paths_that_could_never_work_are_mistakes() {
    let path = |number: usize| {
        format!("[[path]]\ninterface = \"l{number}\"\nremote = \"192.0.2.1:14700\"\n")
    };
    let paths = |count: usize| (1..count).map(path).collect::<String>();
    assert!(problems(&drone(&paths(16))).is_empty());
    let found = problems(&drone(&paths(17)));
    assert!(found.len() == 1 && found[0].contains("path[16].peer: has 16 paths"), "{found:?}");
    for remote in ["192.0.2.1:0", "0.0.0.0:14700", "[::]:14700"] {
        let found = problems(&drone("").replace("192.0.2.1:14700", remote));
        assert!(found.len() == 1 && found[0].contains("path[0].remote: needs"), "{found:?}");
    }
}

#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let error = load(Path::new("/dev/zero")).unwrap_err();
    assert!(error.to_string().contains("larger than 1048576 bytes"), "{error}");
}

#[test]
fn the_published_form_of_message_delivery_has_keys_of_its_own() {
    let text = "[transport]\nmessage_form = \"lrt\"\nlrt_symbols = 32\nlrt_redundancy = 0.5\n";
    let config = parse(&drone(text), Path::new("drone.toml")).unwrap();
    let published = proto::MessageForm::Lrt { k: 32, redundancy: 0.5, beta: 1.0 };
    assert_eq!(config.transport.session.message, published);
    check(&[(
        drone("[transport]\nlrt_symbols = 32\n"),
        &["10: transport.lrt_symbols: belongs to message_form = \"lrt\""],
    )]);
}

#[test]
fn the_forms_of_the_tunnel_have_keys_of_their_own() {
    let form = |text: &str| {
        let config = parse(&drone(text), Path::new("drone.toml")).unwrap();
        config.transport.session.tunnel
    };
    assert_eq!(form(""), proto::TunnelForm::Window);
    assert_eq!(
        form("[transport]\ntunnel_form = \"plain\"\nresequence_max_ms = 80\n"),
        proto::TunnelForm::Plain
    );
    assert_eq!(
        form("[transport]\nscheduler = \"redundant\"\nresequence_max_ms = 0\n"),
        proto::TunnelForm::Plain
    );
    let published = proto::FlowCodeParameters::default();
    assert_eq!(
        form("[transport]\ntunnel_form = \"flowcode\"\n"),
        proto::TunnelForm::FlowCode(published)
    );
    let set = proto::FlowCodeParameters { k: 8, f: Some(2), r: 3 };
    assert_eq!(
        form(
            "[transport]\ntunnel_form = \"flowcode\"\nflowcode_k = 8\nflowcode_f = 2\nflowcode_r = 3\n"
        ),
        proto::TunnelForm::FlowCode(set)
    );
    check(&[
        (
            drone("[transport]\nflowcode_k = 4\n"),
            &["10: transport.flowcode_k: belongs to tunnel_form = \"flowcode\""],
        ),
        (
            drone("[transport]\ntunnel_form = \"plain\"\nflowcode_f = 2\nflowcode_r = 5\n"),
            &[
                "11: transport.flowcode_f: belongs to tunnel_form = \"flowcode\"",
                "12: transport.flowcode_r: belongs to tunnel_form = \"flowcode\"",
            ],
        ),
        (
            drone("[transport]\ntunnel_form = \"flowcode\"\nflowcode_k = 17\n"),
            &["11: transport.flowcode_k: "],
        ),
        (
            drone("[transport]\nscheduler = \"redundant\"\ntunnel_form = \"flowcode\"\n"),
            &["11: transport.tunnel_form: must be \"plain\" beside scheduler = \"redundant\""],
        ),
        (
            drone("[transport]\nresequence_max_ms = 80\n"),
            &["10: transport.resequence_max_ms: belongs to tunnel_form = \"plain\""],
        ),
        (
            drone("[transport]\nscheduler = \"redundant\"\ntunnel_form = \"window\"\n"),
            &["11: transport.tunnel_form: must be \"plain\" beside scheduler = \"redundant\""],
        ),
        (drone("[transport]\ntunnel_form = \"coded\"\n"), &["10: transport.tunnel_form: "]),
    ]);
}

/// The shortest file of a station, with `more` after it.
fn station(more: &str) -> String {
    format!(
        "role = \"station\"\nprivate_key = \"{SECRET}\"\n[[listen]]\naddress = \"192.0.2.1:14700\"\n{more}"
    )
}

/// A peer with a key of its own that is no weak one.
fn numbered_peer(number: u32) -> String {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    let [_, a, b, c] = number.to_be_bytes();
    format!(
        "[[peer]]\nname = \"drone-{number}\"\npublic_key = \"{}\"\nallowed_addresses = \"10.{a}.{b}.{c}/32\"\n",
        PublicKey(bytes)
    )
}

fn warnings(text: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    parse(text, file.path()).unwrap().warnings
}

#[test]
fn more_peers_than_a_daemon_serves_are_refused() {
    let peers = |count| (0..count).map(numbered_peer).collect::<String>();
    assert_eq!(problems(&station(&peers(1_024))), [""; 0]);
    let found = problems(&station(&peers(1_025)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("peer: 1025 are more than the 1024"), "{found:?}");
}

#[test]
fn memory_for_fewer_sessions_than_peers_is_warned_of() {
    let peers: String = (0..20).map(numbered_peer).collect();
    let warned = |mib: u32| {
        let text = station(&format!("{peers}\n[transport]\nmemory_mib = {mib}\n"));
        warnings(&text).iter().any(|warning| warning.contains("16 of 20 peers"))
    };
    assert!(warned(16) && !warned(20));
}

#[test]
fn more_sockets_than_a_daemon_can_name_are_refused() {
    let address = |number| format!("[[listen]]\naddress = \"192.0.2.2:{}\"\n", 10_000 + number);
    let listens = |count| (1..count).map(address).collect::<String>() + &numbered_peer(1);
    assert_eq!(problems(&station(&listens(256))), [""; 0]);
    let found = problems(&station(&listens(257)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("listen: 257 are more than the 256"), "{found:?}");
}

#[test]
fn a_file_of_many_peers_is_read_in_linear_time() {
    let time = |count| {
        let text = station(&(0..count).map(numbered_peer).collect::<String>());
        let run = || {
            let start = std::time::Instant::now();
            assert_eq!(problems(&text).len(), 1);
            start.elapsed()
        };
        // The best of a few: other programs run as well.
        (0..3).map(|_| run()).min().unwrap().as_secs_f64()
    };
    let (few, many) = (time(1_250), time(5_000));
    println!("{few:.3} s for 1,250 peers, {many:.3} s for 5,000");
    assert!(many < 8.0 * few, "{few} s for 1,250 peers, {many} s for 5,000");
}

#[test]
fn names_of_stations_are_understood_and_misprinted_addresses_are_none() {
    let with = |remote: &str| drone("").replace("\"192.0.2.1:14700\"", remote);
    let config = parse(&with("[\"192.0.2.1:14700\", \"gcs.example.org:14700\"]"), Path::new("x"));
    let remotes = &config.unwrap().paths[0].remotes;
    let name = Remote::Name("gcs.example.org".into(), 14_700);
    assert_eq!(remotes[..], [Remote::Address("192.0.2.1:14700".parse().unwrap()), name]);
    for (remote, why) in [
        ("\"300.0.2.1:14700\"", "is not an address or name"),
        ("\"gcs.example.org\"", "is not an address or name"),
        ("\"gcs example:1\"", "is not an address or name"),
        ("\"gcs.example.org:0\"", "a port other than 0"),
        ("[]", "needs an address"),
    ] {
        let found = problems(&with(remote));
        assert!(found.len() == 1 && found[0].contains(why), "{remote}: {found:?}");
    }
}

#[test]
fn what_the_kernel_would_not_take_is_named() {
    let odd = drone("").replace("wlan0", "l\\u0000");
    let found = problems(&odd);
    assert!(found.len() == 1 && found[0].contains("cannot be an interface"), "{found:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display();
    for (section, key) in [
        (format!("[status]\nsocket = \"{path}\"\n"), "status.socket"),
        (
            format!(
                "[[message]]\nname = \"m\"\nchannel = 5\nkind = \"seqpacket\"\npath = \"{path}\"\n"
            ),
            "message[0].path",
        ),
    ] {
        let found = problems(&drone(&section));
        let is_named = found[0].contains(key) && found[0].contains("something else than a socket");
        assert!(found.len() == 1 && is_named, "{found:?}");
    }
}

#[test]
fn what_strangers_and_peers_could_abuse_is_warned_of() {
    let peer = numbered_peer(1).replace("10.0.0.1/32", "10.77.0.0/24");
    let tunnel = "[tunnel]\naddress = \"10.77.0.1/24\"\n";
    let has = |text: &str, what: &str| warnings(text).iter().any(|warning| warning.contains(what));
    let covered = station(&format!("{tunnel}{peer}"));
    assert!(has(&covered, "10.77.0.0/24 covers our own address 10.77.0.1"));
    assert!(!has(&covered.replace("0.0/24\"\n", "0.2/32\"\n"), "covers our own"));
    let listen = station(&numbered_peer(1).replace("10.0.0.1/32", "192.0.2.0/24"));
    assert!(has(&listen, "covers our own address 192.0.2.1"));

    let open = "[[mavlink]]\nname = \"m\"\nkind = \"udp-server\"\naddress = \"0.0.0.0:14550\"\n";
    assert!(has(&drone(open), "endpoint \"m\" listens at 0.0.0.0:14550"));
    assert!(!has(&drone(&open.replace("0.0.0.0", "127.0.0.1")), "listens at"));
    assert!(has(&drone("[tunnel]\naddress = \"10.77.0.2/24\"\n"), "has no allowed_addresses"));
}
