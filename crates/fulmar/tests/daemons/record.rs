//! Flight records: what a killed daemon leaves can be read, a full disk stops no flight, other
//! readers agree.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use crate::rig::{Daemon, Rig};
use proto::select::{Version, encode_frame};
use record::flight::Flight;
use serde_json::Value;
use sys::sandbox;

const COMMAND_LONG: u32 = 76;
const GLOBAL_POSITION_INT: u32 = 33;
const EVERY: Duration = Duration::from_millis(10);

fn endpoint(port: u16) -> String {
    format!(
        "[[mavlink]]\nname = \"local\"\nkind = \"udp-server\"\naddress = \"127.0.0.1:{port}\"\nradio_status_hz = 0\n"
    )
}

fn section(directory: &Path) -> String {
    format!("[record]\ndirectory = \"{}\"\nmax_mib = 16\n", directory.display())
}

fn records(directory: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == end)).collect();
    files.sort();
    files
}

/// A small file system of its own, which goes with the value, however a test ends.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(size: &str) -> Option<Self> {
        let disk = Self(tempfile::tempdir().unwrap());
        let mut command = Command::new("mount");
        let mounted =
            command.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(disk.0.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a daemon that was killed a moment ago may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

/// An autopilot and a ground station, which talk through two daemons of which the station's
/// records.
struct Talk {
    rig: Rig,
    drone: Daemon,
    autopilot: UdpSocket,
    ground: UdpSocket,
    sequence: u8,
}

impl Talk {
    fn begin(rig: Rig, station: &Daemon) -> Self {
        let drone = rig.start_drone(&[0, 1], &endpoint(14_555));
        drone.wait_for_paths(2);
        station.wait_for_paths(2);
        let local = |host: &sys::netns::Namespace, to: &str| {
            let socket = host.run(|| UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            socket.connect(to).unwrap();
            socket
        };
        let autopilot = local(&rig.drone, "127.0.0.1:14555");
        let ground = local(&rig.station, "127.0.0.1:14550");
        Self { rig, drone, autopilot, ground, sequence: 0 }
    }

    /// Sends commands and positions for a while.
    fn go_on(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let mut position = vec![0; 28];
            position[4..8].copy_from_slice(&473_977_420_i32.to_le_bytes());
            position[8..12].copy_from_slice(&(85_455_940 + i32::from(self.sequence)).to_le_bytes());
            let frame = |source, id, payload: &[u8]| {
                encode_frame(Version::V2, self.sequence, source, id, payload).unwrap()
            };
            self.ground.send(&frame((255, 190), COMMAND_LONG, &[7; 33])).unwrap();
            self.autopilot.send(&frame((1, 1), GLOBAL_POSITION_INT, &position)).unwrap();
            self.sequence = self.sequence.wrapping_add(1);
            sleep(EVERY);
        }
    }
}

/// Returns what a flight's control to the drone came to: messages, and the age of the newest.
fn control(flight: &Flight, killed: SystemTime) -> (usize, f64) {
    let messages = &flight.control["drone"];
    let killed = killed.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as f64;
    (messages.len(), messages.last().map_or(f64::INFINITY, |(at, _)| (killed - *at as f64) / 1e9))
}

#[test]
fn what_a_killed_daemon_recorded_opens_and_holds_all_but_the_last_second() {
    let name = "record::what_a_killed_daemon_recorded_opens_and_holds_all_but_the_last_second";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(2);
    let directory = rig.directory.path().join("records");
    let more = endpoint(14_550) + &section(&directory);
    let mut station = rig.start_station(&more);
    let mut talk = Talk::begin(rig, &station);
    for (kill, after_ms) in [1_730, 2_310].into_iter().enumerate() {
        talk.go_on(Duration::from_millis(after_ms));
        station.signal("KILL");
        let killed = SystemTime::now();
        station.end();
        let file = records(&directory, "mcap").pop().unwrap();
        let cut = directory.join(format!("cut-{kill}.copy"));
        std::fs::copy(&file, &cut).unwrap();
        let flight = Flight::read(&[&cut]).unwrap();
        assert!(!flight.cut.is_empty(), "it has no end yet");
        let (messages, age) = control(&flight, killed);
        // A machine that is busy writes late; the bound is the promise, and room for its
        // scheduling.
        assert!(messages > 40 && age < 2.0, "{messages} messages, the newest {age:.3} s old");
        assert!(!flight.positions.is_empty() && flight.events.len() > 2 && flight.paths.len() == 2);
        let delivered = flight.control["drone"].iter().filter(|(_, it)| it.outcome == "delivered");
        assert!(delivered.count() * 10 > messages * 8);
        station = talk.rig.start_station(&more);
        let whole = Flight::read(&[&file]).unwrap();
        assert!(whole.cut.is_empty(), "the next start has given it an end: {:?}", whole.cut);
        assert_eq!(whole.control["drone"].len(), messages);
        station.wait_for_paths(2);
        talk.drone.wait_for_paths(2);
    }
    check_tlog(&records(&directory, "tlog")[0]);
    check_with_official_reader(name, &records(&directory, "mcap")[0]);
    check_commands(&directory);
}

/// Reads MAVLink as Mission Planner does: eight bytes of time, a frame.
fn check_tlog(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let (mut at, mut frames) = (0, 0);
    while at + 10 < bytes.len() {
        let micros = u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        assert!(micros > 1_600_000_000_000_000, "frame {frames}");
        assert_eq!(bytes[at + 8], 0xFD, "frame {frames}");
        at += 8 + 12 + usize::from(bytes[at + 9]);
        frames += 1;
    }
    assert!(frames > 100, "{frames}");
}

/// Reads a record with the format's own reader, where the machine has it.
fn check_with_official_reader(name: &str, file: &Path) {
    let script = "\
import sys
try:
    from mcap.reader import make_reader
    import lz4.frame
except ImportError as error:
    sys.exit('SKIP ' + str(error))
import json
seen = {}
with open(sys.argv[1], 'rb') as file:
    for schema, channel, message in make_reader(file).iter_messages():
        seen.setdefault((channel.topic, schema.name, schema.encoding), 0)
        seen[(channel.topic, schema.name, schema.encoding)] += 1
        value = json.loads(message.data)
        for key in json.loads(schema.data)['required']:
            assert key in value, (channel.topic, key)
for key, count in sorted(seen.items()):
    print(*key, count)
";
    let output = Command::new("python3").args(["-c", script]).arg(file).output();
    let Ok(output) = output else {
        return sandbox::skip(name, "there is no python3 (its last part)");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if let Some(why) = said.strip_prefix("SKIP ") {
        return sandbox::skip(name, &format!("{} (its last part)", why.trim()));
    }
    assert!(output.status.success(), "{said}");
    let channels = String::from_utf8_lossy(&output.stdout);
    for wanted in [
        "/control/drone fulmar.Control jsonschema",
        "/events foxglove.Log jsonschema",
        "/position foxglove.LocationFix jsonschema",
        "/path/drone/",
    ] {
        assert!(channels.contains(wanted), "{wanted}: {channels}");
    }
}

/// Looks at a record as people and scripts do.
fn check_commands(directory: &Path) {
    let files = records(directory, "mcap");
    let call = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        let output = command.arg("record").args(arguments).args(&files).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let summary: Value = serde_json::from_str(&call(&["show", "--json"])).unwrap();
    assert_eq!(
        (summary["role"].as_str(), summary["paths"].as_array().unwrap().len()),
        (Some("station"), 2)
    );
    assert!(summary["control"][0]["messages"].as_u64().unwrap() > 80);
    assert!(call(&["show"]).contains("to drone: "));
    let out = directory.join("csv");
    call(&["export", "--out", out.to_str().unwrap()]);
    let rows = std::fs::read_to_string(out.join("control-drone.csv")).unwrap();
    assert!(rows.lines().count() > 80 && rows.starts_with("time_s,number,class,"), "{rows:.200}");
    let page = directory.join("report.html");
    call(&["report", "--out", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<h2>Track</h2>") && page.ends_with("</html>\n"));
}

#[test]
fn full_disk_pauses_the_record_and_not_the_flight_and_it_goes_on_when_there_is_room() {
    let name =
        "record::full_disk_pauses_the_record_and_not_the_flight_and_it_goes_on_when_there_is_room";
    if !sandbox::inside(name) {
        return;
    }
    // Goes last, after the daemons that have files there.
    let Some(mounted) = Disk::mount("size=1m") else {
        return sandbox::skip(name, "a tmpfs cannot be mounted");
    };
    let disk = mounted.0.path();
    let rig = Rig::new(2);
    let directory = disk.join("records");
    let station = rig.start_station(&(endpoint(14_550) + &section(&directory)));
    let mut talk = Talk::begin(rig, &station);
    talk.go_on(Duration::from_millis(1_200));
    let ballast = disk.join("ballast");
    // As much as there is.
    let _ = std::fs::write(&ballast, vec![1; 2 << 20]);
    talk.go_on(Duration::from_millis(2_000));
    let paused = station.wait_for("the record pauses", |status| {
        status["record"]["trouble"].as_str().is_some_and(|why| why.starts_with("paused: write"))
    });
    assert_eq!(paused["peers"][0]["connected"], true, "the flight goes on");
    let before = paused["peers"][0]["classes"][2]["submitted"].as_u64().unwrap();
    talk.go_on(Duration::from_millis(300));
    let during = station.status();
    assert!(during["peers"][0]["classes"][2]["submitted"].as_u64().unwrap() > before);
    assert!(during["record"]["dropped"].as_u64().unwrap() > 0, "{}", during["record"]);
    let files = records(&directory, "mcap");
    let flight = Flight::read(&files).unwrap();
    assert!(flight.control["drone"].len() > 40, "what was recorded before is whole");
    std::fs::remove_file(&ballast).unwrap();
    station.wait_for_within(20, "the record goes on", |status| {
        status["record"]["trouble"] == "" && status["record"]["file"] != ""
    });
    talk.go_on(Duration::from_millis(1_200));
    station.signal("TERM");
    assert!(station.end().success());
    let files = records(&directory, "mcap");
    assert!(files.len() > 1, "it goes on in another file: {files:?}");
    let flight = Flight::read(&files).unwrap();
    assert!(flight.recorder.last().unwrap().1.dropped > 0, "the record says what it lacks");
}

#[test]
fn records_made_under_a_clock_of_1970_are_there_after_the_next_start() {
    let name = "record::records_made_under_a_clock_of_1970_are_there_after_the_next_start";
    if !sandbox::inside(name) {
        return;
    }
    let rig = Rig::new(1);
    let directory = rig.directory.path().join("records");
    std::fs::create_dir(&directory).unwrap();
    // More than those that stay at any age.
    for number in 1..=12 {
        let path = directory.join(format!("{number:05}-1970-01-01T00-01-00Z.mcap"));
        let file = std::fs::File::create(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(60)).unwrap();
    }
    let drone = rig.start_drone(&[0], &section(&directory));
    drone.wait_for("it records", |status| status["record"]["file"] != "");
    assert_eq!(records(&directory, "mcap").len(), 13);
}
