//! Paths over TCP: networks that let nothing else through, from the start or all of a sudden, and
//! strangers who connect.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::sandbox;

use crate::lossy::LossyLink;
use crate::rig::{Daemon, Rig, inside_with_tunnels, on};
use crate::stream::Stream;

/// How long something takes that takes a moment: beyond what a busy machine adds.
const MOMENT: Duration = Duration::from_secs(10);
const LISTEN: &str = "[[listen]]\naddress = \"0.0.0.0:443\"\ncarrier = \"tcp\"\n";
const PATH: &str = "[[path]]\nname = \"lte\"\ninterface = \"l0\"\n";

/// Starts the daemons of a link where the station listens by TCP at port 443.
fn start(rig: &Rig, path: &str, listen: &str, ends: (&str, &str)) -> (Daemon, Daemon) {
    let head = rig.head("station", "drone", "10.77.0.2/32");
    let station = rig.start("station", &rig.station, &format!("{head}{listen}{}", ends.1));
    let head = rig.head("drone", "station", "10.77.0.1/32");
    let drone = rig.start("drone", &rig.drone, &format!("{head}{PATH}{path}{}", ends.0));
    (drone, station)
}

/// Starts the daemons of a link that lets TCP alone through.
fn start_tcp(rig: &Rig, more: &str, ends: (&str, &str)) -> (Daemon, Daemon) {
    let path = format!("remote = \"192.168.0.2:443\"\ncarrier = \"tcp\"\n{more}");
    start(rig, &path, LISTEN, ends)
}

fn paths(status: &Value) -> Vec<(String, String, String)> {
    let text = |path: &Value, key: &str| path[key].as_str().unwrap().to_owned();
    let paths = status["peers"][0]["paths"].as_array().unwrap().iter();
    paths.map(|path| (text(path, "name"), text(path, "carrier"), text(path, "state"))).collect()
}

fn named<'s>(status: &'s Value, name: &str) -> &'s Value {
    let paths = status["peers"][0]["paths"].as_array().unwrap();
    paths.iter().find(|path| path["name"] == name).unwrap()
}

fn states(status: &Value) -> Vec<String> {
    paths(status).into_iter().map(|(_, _, state)| state).collect()
}

#[test]
fn a_whole_session_works_over_connections_alone() {
    let name = "carriers::a_whole_session_works_over_connections_alone";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let (drone, station) = start_tcp(&rig, "", (Stream::DRONE, Stream::STATION));
    let status = drone.wait_for_paths(2);
    station.wait_for_paths(2);
    let by = |name: &str| (name.to_owned(), "tcp".to_owned(), "active".to_owned());
    assert_eq!(paths(&status), [by("lte"), by("lte 2")]);
    assert_eq!(named(&status, "lte 2")["carries"], "control");
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_secs(2));
    for daemon in [&drone, &station] {
        let status = daemon.status();
        let control = |class: &&Value| class["class"] == "control";
        let classes = status["peers"][0]["classes"].as_array().unwrap();
        let control = classes.iter().find(control).unwrap();
        let count = |key: &str| control[key].as_u64().unwrap() as f64;
        // A processor that is away for a moment costs a copy, or adds one.
        let each = count("copies_sent") / count("submitted");
        assert!((1.9..2.1).contains(&each), "one on each: {control}");
        assert_eq!(named(&status, "lte")["lost_packets"], 0);
    }
    assert!(drone.table().contains("l0, tcp"), "{}", drone.table());
    assert_eq!(station.status()["strangers"]["connections_of_sessions"], 2);
}

#[test]
fn tcp_of_the_tunnel_goes_by_the_first_connection() {
    let name = "carriers::tcp_of_the_tunnel_goes_by_the_first_connection";
    if !inside_with_tunnels(name) {
        return;
    }
    let rig = Rig::new(1);
    let tunnel = |last| format!("[tunnel]\naddress = \"10.77.0.{last}/24\"\n");
    let (drone, station) = start_tcp(&rig, "", (&tunnel(2), &tunnel(1)));
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    let listener = rig.station.run(|| std::net::TcpListener::bind("10.77.0.1:5001").unwrap());
    let mut near = rig.drone.run(|| TcpStream::connect("10.77.0.1:5001").unwrap()).unwrap();
    let (mut far, _) = listener.unwrap().accept().unwrap();
    let sender = std::thread::spawn(move || near.write_all(&vec![7; 20_000_000]).unwrap());
    let mut all = Vec::new();
    far.read_to_end(&mut all).unwrap();
    sender.join().unwrap();
    assert_eq!(all.len(), 20_000_000);
    let status = drone.status();
    let sent = |name: &str| named(&status, name)["sent_bytes"].as_u64().unwrap();
    assert!(
        sent("lte") > 20_000_000 && sent("lte 2") < 1_000_000,
        "{:?}",
        (sent("lte"), sent("lte 2"))
    );
}

#[test]
fn control_goes_on_soon_after_an_outage_that_nobody_announces() {
    let name = "carriers::control_goes_on_soon_after_an_outage_that_nobody_announces";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let (drone, station) = start_tcp(&rig, "", (Stream::DRONE, Stream::STATION));
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_secs(1));
    // What is sent goes to a host that is not there.
    for (host, other) in [(&rig.drone, 2), (&rig.station, 1)] {
        on(
            host,
            &format!(
                "ip neigh replace 192.168.0.{other} lladdr 02:00:00:00:00:99 dev l0 nud permanent"
            ),
        );
    }
    drone.wait_for("all is silent", |status| !states(status).contains(&"active".to_owned()));
    std::thread::sleep(Duration::from_secs(12));
    let before = named(&drone.status(), "lte")["connections"].as_u64().unwrap();
    for (host, other) in [(&rig.drone, 2), (&rig.station, 1)] {
        let mac = format!("02:00:00:00:00:0{other}");
        on(host, &format!("ip neigh replace 192.168.0.{other} lladdr {mac} dev l0 nud permanent"));
    }
    let returned = Instant::now();
    drone.wait_for("the paths are back", |status| states(status) == ["active", "active"]);
    eprintln!("MEASURED: active after {:?}", returned.elapsed());
    assert!(named(&drone.status(), "lte")["connections"].as_u64().unwrap() > before, "a fresh one");
    stream.run_for(Duration::from_secs(1));
}

#[test]
fn connections_stand_in_for_udp_while_it_is_blocked() {
    let name = "carriers::connections_stand_in_for_udp_while_it_is_blocked";
    if !sandbox::inside(name) {
        return;
    }
    let mut rig = Rig::new(1);
    let link = LossyLink::new(&mut rig, 1_000, Duration::from_millis(5));
    let path =
        "remote = \"192.168.0.2:14700\"\ncarrier = \"auto\"\nfallback = \"192.168.0.2:443\"\n";
    let listen = format!("{LISTEN}[[listen]]\naddress = \"127.0.0.1:14701\"\n");
    let began = Instant::now();
    let (drone, station) = start(&rig, path, &listen, (Stream::DRONE, Stream::STATION));
    let by_tcp = |status: &Value| states(status)[1..] == ["active", "active"];
    drone.wait_for("TCP stands in", by_tcp);
    eprintln!("MEASURED: connected after {:?}", began.elapsed());
    station.wait_for_paths(2);
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_secs(1));
    link.lose(0);
    // Every message arrives once, whatever carries it.
    let deadline = Instant::now() + 6 * MOMENT;
    let is_back = || states(&drone.status()) == ["active", "absent", "absent"];
    let unblocked = Instant::now();
    stream.run_while(|| !is_back() && Instant::now() < deadline);
    assert!(is_back(), "{:?}", paths(&drone.status()));
    eprintln!("MEASURED: back on UDP alone after {:?}", unblocked.elapsed());
    station.wait_for("no more is said of TCP", |status| {
        let state = |name| named(status, name)["state"].as_str().unwrap();
        [state("lte"), state("lte tcp"), state("lte tcp 2")] == ["active", "absent", "absent"]
    });
    for daemon in [&drone, &station] {
        assert_eq!(daemon.table().matches("stands by").count(), 2, "{}", daemon.table());
        assert_eq!(named(&daemon.status(), "lte tcp")["trouble"], "");
    }
    stream.run_for(Duration::from_secs(1));
    link.lose(1_000);
    let blocked = Instant::now();
    drone.wait_for("TCP stands in again", by_tcp);
    eprintln!("MEASURED: stands in after {:?}", blocked.elapsed());
    stream.run_for(Duration::from_secs(1));
    assert_eq!(named(&station.status(), "lte")["state"], "suspected");
}

#[test]
fn no_message_is_late_when_udp_is_blocked_on_one_link_of_two() {
    let name = "carriers::no_message_is_late_when_udp_is_blocked_on_one_link_of_two";
    if !sandbox::inside(name) {
        return;
    }
    let mut rig = Rig::new(2);
    let link = LossyLink::new(&mut rig, 0, Duration::from_millis(5));
    let path = "remote = \"192.168.0.2:14700\"\ncarrier = \"auto\"\nfallback = \"192.168.0.2:443\"\n\
                [[path]]\nname = \"other\"\ninterface = \"l1\"\nremote = \"192.168.1.2:14701\"\n";
    let listen = format!("{LISTEN}[[listen]]\naddress = \"0.0.0.0:14701\"\n");
    let (drone, _station) = start(&rig, path, &listen, (Stream::DRONE, Stream::STATION));
    let is = |status: &Value, names: &[&str]| {
        names.iter().all(|name| named(status, name)["state"] == "active")
    };
    drone.wait_for("both links work", |status| is(status, &["lte", "other"]));
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_secs(1));
    link.lose(1_000);
    let blocked = Instant::now();
    let by_tcp = || is(&drone.status(), &["lte tcp", "lte tcp 2", "other"]);
    let longest = stream.run_while(|| !by_tcp() && blocked.elapsed() < MOMENT);
    assert!(by_tcp(), "{:?}", paths(&drone.status()));
    eprintln!("MEASURED: the longest delay was {longest:?}, TCP after {:?}", blocked.elapsed());
    stream.run_for(Duration::from_secs(1));
}

/// An HTTP proxy, for whoever knows the password.
#[derive(Default)]
struct Proxy {
    open: Mutex<Vec<TcpStream>>,
    made: AtomicUsize,
    /// What goes through connections made before so many leads nowhere.
    mute: AtomicUsize,
}

impl Proxy {
    /// Starts it on the station's host.
    fn start(rig: &Rig) -> Arc<Self> {
        let proxy: Arc<Self> = Arc::default();
        let own = Arc::clone(&proxy);
        let listen = move || {
            let listener = std::net::TcpListener::bind("192.168.0.2:3128").unwrap();
            std::thread::spawn(move || {
                for near in listener.incoming() {
                    let own = Arc::clone(&own);
                    std::thread::spawn(move || own.serve(near.unwrap()));
                }
            });
        };
        rig.station.run(listen).unwrap();
        proxy
    }

    fn serve(self: Arc<Self>, mut near: TcpStream) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && near.read(&mut byte).is_ok_and(|bytes| bytes > 0) {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut refuse = |why| drop(near.write_all(format!("HTTP/1.1 {why}\r\n\r\n").as_bytes()));
        if !head.contains("\r\nProxy-Authorization: Basic cGlsb3Q6c2t5\r\n") {
            return refuse("407 Proxy Authentication Required");
        }
        let Some(target) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next())
        else {
            return refuse("405 Method Not Allowed");
        };
        let Ok(far) = TcpStream::connect(target) else { return refuse("502 Bad Gateway") };
        near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let twin = |end: &TcpStream| end.try_clone().unwrap();
        self.open.lock().unwrap().extend([&near, &far].map(twin));
        let number = self.made.fetch_add(1, Relaxed);
        let (back, own) = ((twin(&far), twin(&near)), Arc::clone(&self));
        std::thread::spawn(move || own.pass(number, back));
        self.pass(number, (near, far));
    }

    fn pass(&self, number: usize, (mut from, mut to): (TcpStream, TcpStream)) {
        let mut buffer = [0; 4_096];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            if number >= self.mute.load(Relaxed) && to.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}

#[test]
fn a_session_goes_through_a_proxy_and_comes_back_when_that_ends_or_falls_silent() {
    let name =
        "carriers::a_session_goes_through_a_proxy_and_comes_back_when_that_ends_or_falls_silent";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    // Nothing but the proxy reaches the station.
    on(&rig.station, "ip link set lo up");
    on(&rig.station, "ip addr add 198.51.100.7/32 dev lo");
    let proxy = Proxy::start(&rig);
    let path = |login: &str| {
        format!(
            "remote = [\"198.51.100.8:443\", \"198.51.100.7:443\"]\ncarrier = \"tcp\"\n\
             proxy = \"{login}192.168.0.2:3128\"\n"
        )
    };
    let listen = LISTEN.replace("0.0.0.0", "198.51.100.7");
    let ends = (Stream::DRONE, Stream::STATION);
    let (drone, station) = start(&rig, &path(""), &listen, ends);
    drone.wait_for("it is said that a password is missing", |status| {
        named(status, "lte")["trouble"].as_str().unwrap().contains("NAME:PASSWORD@HOST:PORT")
    });
    drop((drone, station));
    let (drone, station) = start(&rig, &path("pilot:sky@"), &listen, ends);
    drone.wait_for_paths(2);
    station.wait_for_paths(2);
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_secs(2));
    let made = |status: &Value| named(status, "lte")["connections"].as_u64().unwrap();
    let is_anew =
        |status: &Value, before| made(status) > before && states(status) == ["active", "active"];
    let before = made(&drone.status());
    for end in proxy.open.lock().unwrap().drain(..) {
        end.shutdown(Shutdown::Both).unwrap();
    }
    drone.wait_for("connected anew", |status| is_anew(status, before));
    stream.run_for(Duration::from_secs(1));
    let before = made(&drone.status());
    proxy.mute.store(proxy.made.load(Relaxed), Relaxed);
    let silent = Instant::now();
    drone.wait_for("it has noticed", |status| !states(status).contains(&"active".to_owned()));
    drone.wait_for("connected beside it", |status| is_anew(status, before));
    eprintln!("MEASURED: through anew after {:?}", silent.elapsed());
    stream.run_for(Duration::from_secs(1));
    assert!(!drone.status().to_string().contains("sky"), "a password is shown");
}

#[test]
fn strangers_are_few_hear_nothing_and_are_cut_off() {
    let name = "carriers::strangers_are_few_hear_nothing_and_are_cut_off";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let (drone, station) = start_tcp(&rig, "", (Stream::DRONE, Stream::STATION));
    drone.wait_for_paths(2);
    let stream = Stream::new(&rig);
    let connect = || TcpStream::connect("192.168.0.2:443").unwrap();
    let ends = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(3 * MOMENT)).unwrap();
        match stream.read(&mut [0; 64]) {
            Ok(0) | Err(_) => {}
            Ok(bytes) => panic!("a stranger has heard {bytes} bytes"),
        }
    };
    // Lengths that cannot be, and an old session's data, cut off.
    let unknown = [&[40, 0, 4][..], &[7; 39]].concat();
    let long = [&[0xFF, 0xFF][..], &[7; 2_000]].concat();
    for bytes in [&[0, 0][..], &[0xC1, 0x05], &long, &unknown] {
        rig.drone
            .run(|| {
                let mut stranger = connect();
                stranger.write_all(bytes).unwrap();
                ends(&mut stranger);
            })
            .unwrap();
    }
    let waiting: Vec<_> = rig.drone.run(|| (0..20).map(|_| connect()).collect()).unwrap();
    let status = station.wait_for("most are refused", |status| {
        status["strangers"]["connections_refused"].as_u64().unwrap() >= 16
    });
    assert_eq!(status["strangers"]["connections_malformed"], 3, "{:#}", status["strangers"]);
    // Byte after byte, too slowly.
    let mut slow = waiting.into_iter();
    let (mut one, rest) = (slow.next().unwrap(), slow.collect::<Vec<_>>());
    one.set_nonblocking(false).unwrap();
    let began = Instant::now();
    while one.write_all(&[1]).is_ok() && began.elapsed() < 6 * MOMENT {
        stream.run_for(Duration::from_millis(500));
    }
    eprintln!("MEASURED: cut off after {:?}", began.elapsed());
    rest.into_iter().for_each(|mut stranger| ends(&mut stranger));
    let status = station.wait_for("all are cut off", |status| {
        status["strangers"]["connections_cut_off"].as_u64().unwrap() >= 4
    });
    assert_eq!(status["peers"][0]["connected"], true);
    // Two thousand, one after the other, while every message of the session arrives.
    std::thread::scope(|scope| {
        let many = scope.spawn(|| {
            rig.drone.run(|| (0..2_000).for_each(|_| drop(connect()))).unwrap();
        });
        let longest = stream.run_while(|| !many.is_finished());
        eprintln!("MEASURED: beside many connections the longest delay was {longest:?}");
    });
    drone.wait_for_paths(2);
}

#[test]
fn a_drone_by_tcp_alone_is_back_after_its_station_died_and_was_started_anew() {
    let name = "carriers::a_drone_by_tcp_alone_is_back_after_its_station_died_and_was_started_anew";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let (drone, station) = start_tcp(&rig, "", (Stream::DRONE, Stream::STATION));
    drone.wait_for_paths(2);
    Stream::new(&rig).run_for(Duration::from_secs(1));
    station.signal("KILL");
    drop(station);
    std::thread::sleep(Duration::from_secs(3));
    let head = rig.head("station", "drone", "10.77.0.2/32");
    let text = format!("{head}{LISTEN}{}", Stream::STATION);
    let station = rig.start("station", &rig.station, &text);
    let started = Instant::now();
    station.wait_for_paths(2);
    drone.wait_for_paths(2);
    eprintln!("MEASURED: both ends again after {:?}", started.elapsed());
    Stream::new(&rig).run_for(Duration::from_secs(1));
}

#[test]
fn a_drone_by_tcp_alone_goes_on_from_another_address_and_after_its_interface_was_down() {
    let name = "carriers::a_drone_by_tcp_alone_goes_on_from_another_address_and_after_its_interface_was_down";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let (drone, station) = start_tcp(&rig, "", (Stream::DRONE, Stream::STATION));
    drone.wait_for_paths(2);
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_secs(1));
    let made = |drone: &Daemon| named(&drone.status(), "lte")["connections"].as_u64().unwrap();
    let is_back = |drone: &Daemon, before: u64| {
        states(&drone.status()) == ["active", "active"] && made(drone) > before
    };
    for (what, commands) in [
        (
            "another address",
            &["ip addr del 192.168.0.1/24 dev l0", "ip addr add 192.168.0.11/24 dev l0"],
        ),
        ("down and up", &["ip link set l0 down", "ip link set l0 up"]),
    ] {
        let before = made(&drone);
        let [down, up] = commands;
        on(&rig.drone, down);
        std::thread::sleep(Duration::from_secs(1));
        on(&rig.drone, up);
        let changed = Instant::now();
        while !is_back(&drone, before) {
            assert!(changed.elapsed() < 3 * MOMENT, "{what}: {:?}", paths(&drone.status()));
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("MEASURED: {what}: active after {:?}", changed.elapsed());
        station.wait_for_paths(2);
        stream.run_for(Duration::from_secs(1));
    }
}

#[test]
fn of_two_links_by_tcp_alone_one_that_goes_dead_silently_costs_no_message() {
    let name = "carriers::of_two_links_by_tcp_alone_one_that_goes_dead_silently_costs_no_message";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let path = "remote = \"192.168.0.2:443\"\ncarrier = \"tcp\"\n[[path]]\nname = \"other\"\n\
                interface = \"l1\"\nremote = \"192.168.1.2:443\"\ncarrier = \"tcp\"\n";
    let (drone, station) = start(&rig, path, LISTEN, (Stream::DRONE, Stream::STATION));
    drone.wait_for_paths(4);
    station.wait_for_paths(4);
    let stream = Stream::new(&rig);
    stream.run_for(Duration::from_secs(1));
    for (host, other) in [(&rig.drone, 2), (&rig.station, 1)] {
        let nobody = "lladdr 02:00:00:00:00:99 dev l0 nud permanent";
        on(host, &format!("ip neigh replace 192.168.0.{other} {nobody}"));
    }
    let longest = stream.run_for(Duration::from_secs(5));
    eprintln!("MEASURED: one of two dead: the longest delay was {longest:?}");
    let is_dead = |name: &str| named(&drone.status(), name)["state"] != "active";
    assert!(is_dead("lte") && is_dead("lte 2") && !is_dead("other") && !is_dead("other 2"));
    for (host, other) in [(&rig.drone, 2), (&rig.station, 1)] {
        let mac = format!("02:00:00:00:00:0{other}");
        on(host, &format!("ip neigh replace 192.168.0.{other} lladdr {mac} dev l0 nud permanent"));
    }
    drone.wait_for("all four are back", |status| !states(status).contains(&"suspected".to_owned()));
    drone.wait_for_paths(4);
    stream.run_for(Duration::from_secs(1));
}
