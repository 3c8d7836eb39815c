//! A drone is paired with a station by a code, while both daemons run; and what a code is not good
//! for.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::Value;
use sys::netns::Namespace;
use sys::sandbox;

use crate::rig::{Daemon, Rig};

/// `fulmar pair` at a station; it is killed when it is dropped.
struct Pairing {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Pairing {
    fn begin(rig: &Rig, more: &[&str]) -> Self {
        Self::begin_at(rig, "station", more)
    }

    fn begin_at(rig: &Rig, station: &str, more: &[&str]) -> Self {
        let mut command = fulmar(&rig.station);
        command.args(["pair", "--json", "--config"]).arg(file(rig, station)).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for an event of a kind.
    fn wait_for(&mut self, kind: &str) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before {kind}");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == kind {
                return event;
            }
        }
    }

    fn code(&mut self) -> String {
        self.wait_for("code")["code"].as_str().unwrap().to_owned()
    }
}

impl Drop for Pairing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fulmar(host: &Namespace) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    host.place(&mut command);
    command
}

fn file(rig: &Rig, name: &str) -> PathBuf {
    rig.directory.path().join(format!("{name}.toml"))
}

fn head(rig: &Rig, role: &str, name: &str) -> String {
    let socket = rig.directory.path().join(format!("{name}.sock"));
    let socket = socket.display();
    format!("role = \"{role}\"\nprivate_key_file = \"{name}.key\"\nstatus.socket = \"{socket}\"\n")
}

fn start_station(rig: &Rig, more: &str) -> Daemon {
    start_station_at(rig, "station", 14_700, more)
}

fn start_station_at(rig: &Rig, name: &str, port: u16, more: &str) -> Daemon {
    let text = head(rig, "station", name);
    rig.start(
        name,
        &rig.station,
        &format!("{text}listen = [{{ address = \"0.0.0.0:{port}\" }}]\n{more}"),
    )
}

/// Starts a drone without peer and paths.
fn start_drone(rig: &Rig, name: &str, more: &str) -> Daemon {
    rig.make_keys(name);
    rig.start(name, &rig.drone, &format!("{}{more}", head(rig, "drone", name)))
}

/// Runs `fulmar pair` on a drone.
fn pair(rig: &Rig, name: &str, arguments: &[&str]) -> Output {
    let mut command = fulmar(&rig.drone);
    command.args(["pair", "--no-tunnel", "--wait", "20s", "--name", name, "--config"]);
    command.arg(file(rig, name)).args(arguments).env("TMPDIR", rig.directory.path());
    command.output().unwrap()
}

fn peers(rig: &Rig, arguments: &[&str]) -> Output {
    peers_of(rig, "station", arguments)
}

fn peers_of(rig: &Rig, station: &str, arguments: &[&str]) -> Output {
    let mut command = fulmar(&rig.station);
    command.arg("peers").args(arguments).arg("--config").arg(file(rig, station)).output().unwrap()
}

fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

const CONTROL: &str = "[[control]]\nname = \"c\"\nchannel = 9\naddress = \"127.0.0.1:7009\"\n";

#[test]
fn a_drone_is_paired_over_any_link_while_both_daemons_run_and_removed_at_once() {
    let name =
        "pairing::a_drone_is_paired_over_any_link_while_both_daemons_run_and_removed_at_once";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let station = start_station(&rig, CONTROL);
    let door = station.socket().with_extension("pair");
    let mode = door.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "who may look at the daemon may not let anybody in");
    let drone = start_drone(&rig, "alpha", CONTROL);
    let mut pairing = Pairing::begin(&rig, &[]);
    let code = pairing.code();
    // The first address of the code is of a link that carries nothing.
    rig.drone.run(|| sys::interface_setup::remove("l0").unwrap()).unwrap();

    let output = pair(&rig, "alpha", &[&code.to_lowercase()]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("alpha at the station"), "{}", text(&output));
    assert_eq!(pairing.wait_for("enrolled")["name"], "alpha");
    assert_eq!(pairing.wait_for("settled")["name"], "alpha");
    assert!(pairing.child.wait().unwrap().success(), "it ends when the code is used");
    for daemon in [&drone, &station] {
        let status = daemon.wait_for_paths(1);
        assert_eq!(status["endpoints"][0]["name"], "c", "what waited for a peer has one");
    }
    let leftover = std::fs::read_dir(rig.directory.path()).unwrap();
    let leftover = leftover.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let odd: Vec<_> =
        leftover.filter(|name| name.contains("pair-") || name.ends_with("new")).collect();
    assert!(odd.is_empty(), "{odd:?}");

    let output = peers(&rig, &["rename", "alpha", "bravo"]);
    assert!(output.status.success(), "{}", text(&output));
    let status = station.status();
    assert_eq!(
        (&status["peers"][0]["name"], &status["peers"][0]["connected"]),
        (&"bravo".into(), &true.into())
    );
    let listed = peers(&rig, &["--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(
        (&listed["peers"][0]["name"], &listed["peers"][0]["connected"]),
        (&"bravo".into(), &true.into())
    );
    assert!(peers(&rig, &["remove", "bravo"]).status.success());
    drone.wait_for("it is cut off", |status| status["peers"][0]["connected"] == false);
    assert!(station.status()["peers"].as_array().unwrap().is_empty());
}

#[test]
fn a_code_is_taken_from_a_picture_a_file_and_a_list() {
    let name = "pairing::a_code_is_taken_from_a_picture_a_file_and_a_list";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = start_station(&rig, "");
    let (list, codes) = (rig.directory.path().join("list"), rig.directory.path().join("codes"));
    std::fs::write(&list, "# the fleet\none\ntwo # spare\n").unwrap();
    let (list, folder) = (list.to_str().unwrap(), codes.to_str().unwrap());
    let mut pairing = Pairing::begin(&rig, &["--list", list, "--out", folder]);
    pairing.wait_for("code");
    pairing.wait_for("code");
    for (drone, argument, end) in
        [("first", "--picture", "two.png"), ("second", "--file", "one.txt")]
    {
        let daemon = start_drone(&rig, drone, "");
        let code = codes.join(end);
        assert_eq!(code.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let output = pair(&rig, drone, &[argument, code.to_str().unwrap(), "--json"]);
        assert!(output.status.success(), "{}", text(&output));
        let done: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&done["name"], &done["daemon"]), (&end[..3].into(), &"reloaded".into()));
        daemon.wait_for_paths(1);
    }
    assert!(pairing.child.wait().unwrap().success());
    let status = station.wait_for("both are connected", |status| {
        status["peers"].as_array().unwrap().iter().all(|peer| peer["connected"] == true)
    });
    assert_eq!(status["peers"].as_array().unwrap().len(), 2);
}

#[test]
fn a_used_code_a_crashed_pair_and_an_expired_code_let_nobody_in() {
    let name = "pairing::a_used_code_a_crashed_pair_and_an_expired_code_let_nobody_in";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = start_station(&rig, "");
    let _first = start_drone(&rig, "first", "");
    let _second = start_drone(&rig, "second", "");
    let before = std::fs::read_to_string(file(&rig, "second")).unwrap();
    let refused = |code: &str, why: &str| {
        let output = pair(&rig, "second", &[code]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(why), "{}", text(&output));
        assert_eq!(std::fs::read_to_string(file(&rig, "second")).unwrap(), before);
    };

    let mut pairing = Pairing::begin(&rig, &["--stay"]);
    let code = pairing.code();
    assert!(pair(&rig, "first", &[&code]).status.success());
    pairing.wait_for("settled");
    refused(&code, "the code was used by first");
    let why = pairing.wait_for("refused")["why"].to_string();
    assert!(why.contains("used by first") && why.contains("fulmar peers remove first"), "{why}");

    // As after a crash: what was asked for is gone with who asked.
    drop(pairing);
    station.wait_for_log("pairing codes are no longer valid");
    refused(&code, "does not take this code");

    let mut pairing = Pairing::begin(&rig, &["--valid", "1s"]);
    let code = pairing.code();
    assert_eq!(pairing.child.wait().unwrap().code(), Some(1));
    refused(&code, "does not take this code");
    assert_eq!(station.status()["peers"].as_array().unwrap().len(), 1);
}

#[test]
fn of_two_drones_that_race_with_one_code_one_is_enrolled_also_while_files_are_read_again() {
    let name = "pairing::of_two_drones_that_race_with_one_code_one_is_enrolled_also_while_files_are_read_again";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let station = start_station(&rig, "");
    let names = ["first", "second"];
    let _drones = names.map(|name| start_drone(&rig, name, ""));
    let mut pairing = Pairing::begin(&rig, &["--stay"]);
    let code = pairing.code();
    let (is_over, reloads) = (AtomicBool::new(false), AtomicU32::new(0));
    let outputs = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let mut reload = fulmar(&rig.station);
                reload.args(["reload", "--socket"]).arg(station.socket());
                let output = reload.output().unwrap();
                assert!(output.status.success(), "{}", text(&output));
                reloads.fetch_add(1, Ordering::Relaxed);
            }
        });
        let running = names.map(|name| scope.spawn(|| pair(&rig, name, &[&code])));
        let outputs = running.map(|thread| thread.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        outputs
    });
    assert!(reloads.into_inner() > 0);
    let won = outputs.iter().filter(|output| output.status.success()).count();
    assert_eq!(won, 1, "{}\n{}", text(&outputs[0]), text(&outputs[1]));
    assert_eq!(station.status()["peers"].as_array().unwrap().len(), 1);
}

#[test]
fn a_daemon_of_another_file_is_not_said_to_have_taken_this_one_over() {
    let name = "pairing::a_daemon_of_another_file_is_not_said_to_have_taken_this_one_over";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let _station = start_station(&rig, "");
    let _first = start_drone(&rig, "first", "");
    rig.make_keys("other");
    // This file names the socket of the daemon that runs, as two of one name in different folders
    // do.
    let lines = head(&rig, "drone", "first").replace("first.key", "other.key");
    std::fs::write(file(&rig, "other"), lines).unwrap();
    let mut pairing = Pairing::begin(&rig, &[]);
    let output = pair(&rig, "other", &[&pairing.code()]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("took nothing over") && !said.contains("is connected"), "{said}");
}

#[test]
fn nobody_keeps_a_peer_from_being_removed_by_a_lock_and_who_may_is_named() {
    let name = "pairing::nobody_keeps_a_peer_from_being_removed_by_a_lock_and_who_may_is_named";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let keys = ["one", "two"].map(|name| (name, rig.make_keys(name)));
    let peer = |(name, key): (&str, String)| {
        format!("[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\n")
    };
    let _station = start_station(&rig, &keys.map(peer).concat());
    // Whoever may look into the folder can do this.
    let folder = std::fs::File::open(rig.directory.path()).unwrap();
    folder.lock().unwrap();
    let removed = peers(&rig, &["remove", "one"]);
    assert!(removed.status.success(), "{}", text(&removed));

    let lock = rig.directory.path().join(".fulmar.lock");
    assert_eq!(lock.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let held = std::fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let refused = peers(&rig, &["remove", "two"]);
    let said = text(&refused);
    let who = format!("(process {})", std::process::id());
    assert!(!refused.status.success() && said.contains(&who), "{said}");
    std::fs::set_permissions(&lock, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(text(&peers(&rig, &["remove", "two"])).contains("remove it"));
    std::fs::remove_file(&lock).unwrap();
    assert!(peers(&rig, &["remove", "two"]).status.success());
}

#[test]
fn two_stations_with_files_in_one_folder_leave_each_others_secrets_alone() {
    let name = "pairing::two_stations_with_files_in_one_folder_leave_each_others_secrets_alone";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    rig.make_keys("north");
    let station = start_station(&rig, "");
    let _north = start_station_at(&rig, "north", 14_701, "");
    let secret = |name: &str| std::fs::read(rig.directory.path().join(name)).unwrap();
    let alpha = start_drone(&rig, "alpha", "");
    let pair_with = |name: &str, with: &str| {
        let mut pairing = Pairing::begin_at(&rig, with, &[]);
        let output = pair(&rig, name, &[&pairing.code(), "--replace"]);
        assert!(output.status.success(), "{}", text(&output));
        pairing.wait_for("settled");
    };
    pair_with("alpha", "station");
    let shared = secret("alpha.psk");
    pair_with("alpha", "north");
    assert_eq!(secret("alpha.psk"), shared, "the station's secret stays what it was");
    alpha.wait_for_paths(1);
    let removed = peers_of(&rig, "north", &["remove", "alpha"]);
    assert!(removed.status.success(), "{}", text(&removed));
    assert!(!text(&removed).contains("psk"), "its own secret is gone: {}", text(&removed));

    // A drone says what it is called.
    std::fs::write(rig.directory.path().join("relay.psk"), &shared).unwrap();
    let _relay = start_drone(&rig, "relay", "");
    pair_with("relay", "north");
    assert_eq!(secret("relay.psk"), shared);

    drop(station);
    let lines = std::fs::read_to_string(file(&rig, "station")).unwrap();
    rig.start("station", &rig.station, &lines);
}
