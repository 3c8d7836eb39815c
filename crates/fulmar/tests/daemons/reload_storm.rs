//! A hundred reloads under load, with changes of every kind, and a hundred of broken files.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::rig::{Daemon, Rig};
use sys::netns::Namespace;
use sys::sandbox;

const RELOADS: u32 = 100;
/// Between two messages each way.
const INTERVAL: Duration = Duration::from_millis(20);
/// What is later counts as missed by the glossary. It is told, not judged: a busy machine is late
/// without us.
const LATE: Duration = Duration::from_millis(100);

/// Numbers that differ from reload to reload, and not from run to run.
struct Dice(u32);

impl Dice {
    fn below(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % sides
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A stream of control messages from one host to the other.
struct Stream {
    sent: Arc<Mutex<Vec<Instant>>>,
    /// How often each came, and how late the first was.
    came: Arc<Mutex<BTreeMap<u32, (u32, Duration)>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Stream {
    fn start(from: UdpSocket, to: UdpSocket, over: &Arc<AtomicBool>) -> Self {
        let (sent, came) = (Arc::<Mutex<Vec<Instant>>>::default(), Arc::default());
        let (sending, times) = (Arc::clone(over), Arc::clone(&sent));
        let sender = std::thread::spawn(move || {
            for number in 0_u32.. {
                if sending.load(Ordering::Relaxed) {
                    return;
                }
                times.lock().unwrap().push(Instant::now());
                // The daemon's socket is handed from one endpoint to another, and is never away.
                from.send(&number.to_be_bytes()).unwrap();
                std::thread::sleep(INTERVAL);
            }
        });
        let (receiving, times) = (Arc::clone(over), Arc::clone(&sent));
        let numbers: Arc<Mutex<BTreeMap<u32, (u32, Duration)>>> = Arc::clone(&came);
        let receiver = std::thread::spawn(move || {
            let mut buffer = [0; 64];
            let mut quiet = 0;
            while !receiving.load(Ordering::Relaxed) || quiet < 4 {
                let Ok(4) = to.recv(&mut buffer) else {
                    quiet += 1;
                    continue;
                };
                quiet = 0;
                let number = u32::from_be_bytes(buffer[..4].try_into().unwrap());
                let late = times.lock().unwrap()[number as usize].elapsed();
                numbers.lock().unwrap().entry(number).or_insert((0, late)).0 += 1;
            }
        });
        Self { sent, came, threads: vec![sender, receiver] }
    }

    /// Waits for the end; returns how many were sent, which were lost, which came twice, and how
    /// many were late.
    fn end(self) -> (usize, Vec<u32>, Vec<u32>, usize) {
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (sent, came) = (self.sent.lock().unwrap().len(), self.came.lock().unwrap());
        let lost = (0..sent as u32).filter(|number| !came.contains_key(number)).collect();
        let twice = came.iter().filter(|(_, (times, _))| *times > 1).map(|(number, _)| *number);
        let late = came.values().filter(|(_, late)| *late > LATE).count();
        (sent, lost, twice.collect(), late)
    }
}

fn socket(host: &Namespace, own: &str, remote: &str) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(own).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.connect(remote).unwrap();
    socket
}

fn write(rig: &Rig, name: &str, text: &str) {
    std::fs::write(rig.directory.path().join(format!("{name}.toml")), text).unwrap();
}

fn reload(daemon: &Daemon) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.args(["reload", "--socket"]).arg(daemon.socket()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What every file may have one way or the other.
fn of_both(dice: &mut Dice) -> String {
    let mut file = String::new();
    if dice.flip() {
        file += "[reliability.live]\ntarget = 0.99\ndeadline_ms = 100\n";
    }
    if dice.flip() {
        let deadline = 60 + dice.below(40);
        file += &format!("[reliability.control]\ntarget = 0.999\ndeadline_ms = {deadline}\n");
    }
    if dice.flip() {
        file += "[selector]\ninspected_ports = [14550, 5760]\n";
    }
    let (level, format) =
        (["info", "debug"][dice.below(2) as usize], ["text", "json"][dice.below(2) as usize]);
    file += &format!("[log]\nlevel = \"{level}\"\nformat = \"{format}\"\n");
    // Two endpoints that take each other's address.
    let ports = if dice.flip() { [14_901, 14_902] } else { [14_902, 14_901] };
    for (channel, port) in (20..).zip(ports) {
        file += &format!(
            "[[control]]\nname = \"spare-{channel}\"\nchannel = {channel}\naddress = \"127.0.0.1:{port}\"\n"
        );
    }
    if dice.flip() {
        let (share, hertz) = (dice.flip(), dice.below(3));
        file += &format!(
            "[[mavlink]]\nname = \"more\"\nkind = \"tcp-server\"\naddress = \"127.0.0.1:5760\"\n\
             share = {share}\nradio_status_hz = {hertz}\nstatustext = {share}\n"
        );
    }
    if dice.flip() {
        // The address of all interfaces stands in the way of that of one.
        let host = ["127.0.0.1", "0.0.0.0"][dice.below(2) as usize];
        let deadline = 50 + dice.below(200);
        file += &format!(
            "[[message]]\nname = \"images\"\nchannel = 30\nkind = \"udp-server\"\n\
             address = \"{host}:14950\"\ndeadline_ms = {deadline}\n"
        );
    }
    file
}

/// The endpoint that carries the messages, whose target comes and goes.
fn sticks(kind: &str, port: u16, dice: &mut Dice) -> String {
    let target = ["", "target = 0.999\ndeadline_ms = 90\n", "target = 0.99\ndeadline_ms = 80\n"];
    let target = target[dice.below(3) as usize];
    format!(
        "[[control]]\nname = \"sticks\"\nchannel = 10\nkind = \"{kind}\"\naddress = \"127.0.0.1:{port}\"\n{target}"
    )
}

fn drone_file(rig: &Rig, dice: &mut Dice) -> String {
    let mut file = rig.head("drone", "station", "10.77.0.1/32");
    // One path alone, too, which is another one every time; the first never is a backup.
    let set: &[u8] =
        [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[2, 0], &[0, 1, 2]][dice.below(7) as usize];
    for (place, number) in set.iter().enumerate() {
        let name = if dice.flip() { format!("link{number}") } else { format!("l{number}") };
        let cost = 1 + dice.below(3);
        let backup = place > 0 && dice.flip();
        let remotes = ["", ", \"192.168.9.9:14700\""][usize::from(dice.below(8) == 0)];
        file += &format!(
            "[[path]]\nname = \"{name}\"\ninterface = \"l{number}\"\n\
             remote = [\"192.168.{number}.2:14700\"{remotes}]\ncost = {cost}\nbackup = {backup}\n"
        );
    }
    file + &sticks("udp-server", 14_800, dice) + &of_both(dice)
}

fn station_file(rig: &Rig, other: &str, dice: &mut Dice) -> String {
    let allowed = ["10.77.0.2/32", "10.78.0.0/16"][dice.below(2) as usize];
    let mut file = rig.head("station", "drone", allowed);
    if dice.flip() {
        file += &format!("[[peer]]\nname = \"other\"\npublic_key = \"{other}\"\n");
    }
    file += "[[listen]]\naddress = \"0.0.0.0:14700\"\n";
    for port in [14_701, 14_702] {
        if dice.flip() {
            file += &format!("[[listen]]\naddress = \"0.0.0.0:{port}\"\n");
        }
    }
    // With several peers every endpoint says whose it is.
    let endpoints = sticks("udp-client", 14_801, dice) + &of_both(dice);
    let with_peer =
        |head: &str, text: &str| text.replace(head, &format!("{head}peer = \"drone\"\n"));
    let endpoints = with_peer("[[control]]\n", &endpoints);
    file + &with_peer("[[message]]\n", &with_peer("[[mavlink]]\n", &endpoints))
}

/// What of a report says what the daemon is made of.
fn made_of(daemon: &Daemon) -> String {
    let status = daemon.status();
    let names = |list: &serde_json::Value, keys: &[&str]| {
        let one = |item: &serde_json::Value| {
            keys.iter().map(|key| item[*key].to_string()).collect::<Vec<_>>().join(" ")
        };
        list.as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join(", ")
    };
    let paths = names(&status["peers"][0]["paths"], &["name", "remote", "cost", "backup"]);
    format!(
        "{}; {paths}; {}",
        names(&status["peers"], &["name", "connected"]),
        names(&status["endpoints"], &["name", "peer"])
    )
}

#[test]
fn a_hundred_reloads_of_every_kind_lose_no_control_message_and_a_hundred_broken_files_change_nothing()
 {
    let name = "reload_storm::a_hundred_reloads_of_every_kind_lose_no_control_message_and_a_hundred_broken_files_change_nothing";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(3);
    let other = rig.make_keys("other");
    let mut dice = Dice(1);
    let station = rig.start("station", &rig.station, &station_file(&rig, &other, &mut dice));
    let drone = rig.start("drone", &rig.drone, &drone_file(&rig, &mut dice));
    for daemon in [&drone, &station] {
        daemon.wait_for("they are connected", |status| status["peers"][0]["connected"] == true);
    }
    let over = Arc::new(AtomicBool::new(false));
    let at_drone = socket(&rig.drone, "127.0.0.1:14810", "127.0.0.1:14800");
    // The station's daemon speaks from a port of its own, which is heard.
    let at_station = rig.station.run(|| UdpSocket::bind("127.0.0.1:14801").unwrap()).unwrap();
    at_station.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let daemon_port = loop {
        at_drone.send(b"hello").unwrap();
        if let Ok((_, from)) = at_station.recv_from(&mut [0; 64]) {
            break from;
        }
    };
    at_station.connect(daemon_port).unwrap();
    while at_station.recv(&mut [0; 64]).is_ok() {}
    let down = Stream::start(at_drone.try_clone().unwrap(), at_station.try_clone().unwrap(), &over);
    let up = Stream::start(at_station, at_drone, &over);

    let mut changes = Vec::new();
    for count in 0..RELOADS {
        let (daemon, end, file) = match count % 2 {
            0 => (&drone, "drone", drone_file(&rig, &mut dice)),
            _ => (&station, "station", station_file(&rig, &other, &mut dice)),
        };
        write(&rig, end, &file);
        let output = reload(daemon);
        assert!(output.status.success(), "{count}: {}\n{file}", text(&output.stderr));
        changes.push(text(&output.stdout));
    }
    for kind in [
        "peers: 1 added",
        "1 removed",
        "with other addresses",
        "endpoints: 1 opened",
        "1 closed",
        "changed",
        "paths: 1 added",
        "used otherwise",
        "listens: 1 opened",
        "[selector] changed",
        "[reliability] changed",
        "[log] changed",
    ] {
        assert!(changes.iter().any(|change| change.contains(kind)), "{kind}: {changes:?}");
    }
    break_files(&rig, &drone, &mut dice);

    std::thread::sleep(Duration::from_millis(500));
    over.store(true, Ordering::Relaxed);
    for (way, stream) in [("to the station", down), ("to the drone", up)] {
        let (sent, lost, twice, late) = stream.end();
        eprintln!("{way}: {sent} sent, {} lost, {late} later than 100 ms", lost.len());
        assert!(
            lost.is_empty() && twice.is_empty(),
            "{way}: of {sent} lost {lost:?}, twice {twice:?}"
        );
    }
    for daemon in [&drone, &station] {
        assert!(!daemon.log().contains("session ended"), "{}", daemon.log());
    }
}

/// Lets a daemon read broken files; each is refused with a reason, and nothing changes.
fn break_files(rig: &Rig, drone: &Daemon, dice: &mut Dice) {
    // What goes is gone, and what comes is there.
    let good = drone_file(rig, dice);
    write(rig, "drone", &good);
    assert!(reload(drone).status.success());
    std::thread::sleep(Duration::from_secs(6));
    let before = made_of(drone);
    let taken = rig.drone.run(|| UdpSocket::bind("127.0.0.1:14999").unwrap()).unwrap();
    for count in 0..RELOADS {
        let fresh = drone_file(rig, dice);
        let cut = fresh.len() / 2 + dice.below(fresh.len() as u32 / 4) as usize;
        let at_taken =
            "[[control]]\nname = \"late\"\nchannel = 40\naddress = \"127.0.0.1:14999\"\n";
        let (file, why) = match count % 6 {
            0 => (format!("{fresh}nonsense = 1\n"), "nonsense"),
            1 => (format!("{}\n[", &fresh[..cut]), "not TOML"),
            2 => (fresh.replace("role = \"drone\"", "role = \"station\""), "path"),
            3 => (fresh.replace("drone.sock", "elsewhere.sock"), "[status]: cannot change"),
            4 => (format!("{fresh}{at_taken}"), "endpoint late"),
            _ => (fresh.replace("192.168.", "192.1680."), "remote"),
        };
        write(rig, "drone", &file);
        let output = reload(drone);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{count} {why}: {said}");
        assert_eq!(made_of(drone), before, "{count} {why}");
    }
    drop(taken);
}
