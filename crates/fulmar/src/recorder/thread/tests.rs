//! Records of processes that are killed, of disks that fill up, and of dates that jump.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU64;
use std::time::Duration as Wait;

use proto::select::Class;
use proto::{Outcome, PathId, SessionId, Step};
use record::flight::Flight;
use record::store::Limits;
use sys::sandbox::skip;
use units::Rng;

use super::*;
use crate::recorder::Recorder;

const SESSION: SessionId = SessionId(1);
const EVERY: Duration = Duration::from_millis(5);
/// 24 November 2026.
const DATE_NS: u64 = 1_795_547_717_000_000_000;

fn config(directory: &Path) -> RecordConfig {
    let limits = Limits { bytes: 16 << 20, age: Wait::from_secs(86_400) };
    RecordConfig { directory: directory.to_owned(), limits, mavlink: true }
}

/// Says all there is to say of one control message, and with every twentieth what a path is.
fn notes(number: u64, at: Instant) -> Vec<Note> {
    let peer: Arc<str> = "gcs".into();
    let path = PathRef { session: SESSION, path: PathId(0) };
    let (class, channel, mavlink, bytes) = (Class::Control, 1, Some(76), 41);
    let kinds = [
        StepKind::HandedIn { class, channel, mavlink, bytes, life: Duration::from_secs(1) },
        StepKind::Sent { path: PathId(0) },
        StepKind::Acked { path: PathId(0), sent_at: at, arrived: Some((at, Duration::ZERO)) },
        StepKind::Ended(Outcome::Delivered),
    ];
    let step = |kind| Note::Step(Arc::clone(&peer), SESSION, Step { at, message: number, kind });
    let mut notes: Vec<Note> = kinds.into_iter().map(step).collect();
    if number.is_multiple_of(20) {
        let sample = schema::Path { name: "wifi".into(), ..schema::Path::default() };
        notes.push(Note::Path(at, peer, path, Box::new(sample)));
    }
    notes
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == "mcap")).collect();
    files.sort();
    files
}

/// Counts the control messages of files; a file to which nothing was written yet has none.
fn messages(files: &[PathBuf]) -> u64 {
    let written: Vec<_> =
        files.iter().filter(|file| std::fs::metadata(file).unwrap().len() > 0).collect();
    let flight = Flight::read(&written).unwrap();
    flight.control.get("gcs").map_or(0, |messages| messages.len() as u64)
}

/// Records for ever, and says after each batch how many messages it has handed on.
fn record_until_killed(directory: &Path) {
    let mut recorder = Recorder::open(clock::now(), &config(directory), "drone");
    for number in 0.. {
        notes(number, clock::now()).into_iter().for_each(|note| recorder.note(note));
        if number % 20 == 19 {
            recorder.hand_on();
            // Nobody reads it any more: that was the end.
            writeln!(std::io::stdout(), "handed on {}", number + 1).unwrap();
        }
        std::thread::sleep(EVERY.into());
    }
}

/// Kills a process that records, after a time; returns how many messages it had handed on.
fn kill_after(name: &str, directory: &Path, time: Wait) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("FULMAR_RECORD_UNTIL_KILLED", directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = said.find(|line| line.as_ref().is_ok_and(|line| line.contains("handed on")));
    assert!(begun.is_some(), "it records");
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
    let count = |line: String| line.strip_prefix("handed on ")?.parse().ok();
    said.map_while(Result::ok).filter_map(count).last().unwrap_or(20)
}

#[test]
fn record_of_a_process_killed_at_any_moment_opens_and_holds_all_but_the_last_second() {
    let name = "recorder::thread::tests::record_of_a_process_killed_at_any_moment_opens_and_holds_all_but_the_last_second";
    if let Some(directory) = std::env::var_os("FULMAR_RECORD_UNTIL_KILLED") {
        return record_until_killed(Path::new(&directory));
    }
    let mut rng = Rng::stream(1, "kills");
    for _ in 0..2 {
        let kills: Vec<_> =
            (0..20).map(|_| Wait::from_micros(200_000 + rng.below(1_800_000))).collect();
        std::thread::scope(|scope| {
            for time in kills {
                scope.spawn(move || {
                    let directory = tempfile::tempdir().unwrap();
                    let handed_on = kill_after(name, directory.path(), time);
                    let cut = messages(&files(directory.path()));
                    // The promise is a second, of 200 messages at most; a machine that is busy
                    // writes late.
                    assert!(cut + 400 >= handed_on, "{cut} of {handed_on}, killed after {time:?}");
                    let limits = config(directory.path()).limits;
                    Store::new(directory.path(), limits).open().unwrap();
                    let files = files(directory.path());
                    assert_eq!(messages(&files), cut, "what was cut has an end now");
                    assert!(cut == 0 || Flight::read(&files).unwrap().cut.is_empty());
                });
            }
        });
    }
}

/// A recorder in virtual time.
struct Virtual {
    recording: Recording,
    now: Instant,
    next: u64,
}

/// What the date is; each test has its own.
type Date = fn() -> u64;

impl Virtual {
    fn begin(directory: &Path, date: Date) -> Self {
        let now = Instant::from_millis(5_000);
        let shared = Arc::<Shared>::default();
        let recording = Recording::open_at(now, date, &config(directory), "drone", shared);
        Self { recording, now, next: 0 }
    }

    /// Records for half a second, then writes; `tick` is told how much time passes.
    fn step(&mut self, tick: impl Fn(u64)) {
        let mut batch = Vec::new();
        for _ in 0..WRITE.as_nanos() / EVERY.as_nanos() {
            batch.extend(notes(self.next, self.now));
            self.next += 1;
            self.now += EVERY;
            tick(EVERY.as_nanos());
        }
        self.recording.take(&[], batch);
        self.recording.write(self.now);
    }
}

#[test]
fn full_disk_at_any_moment_leaves_records_that_open_and_the_next_has_all_from_then_on() {
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let date = || DATE_NS + PASSED.load(Ordering::Relaxed);
    let tick = |ns| _ = PASSED.fetch_add(ns, Ordering::Relaxed);
    let name = "recorder::thread::tests::full_disk_at_any_moment_leaves_records_that_open_and_the_next_has_all_from_then_on";
    if std::env::var_os("FULMAR_DISK").is_none() {
        return in_namespace_of_mounts(name);
    }
    for room_kib in [0, 4, 8, 12, 20, 40, 64, 100, 160] {
        let disk = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(disk.path()).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            return skip(name, "a tmpfs cannot be mounted");
        }
        let ballast = disk.path().join("ballast");
        let directory = disk.path().join("records");
        std::fs::write(&ballast, vec![1; (1_024 - room_kib) << 10]).unwrap();
        let mut flight = Virtual::begin(&directory, date);
        let mut before = 0;
        while flight.recording.paused.is_none() && flight.next < 4_000 {
            before = messages(&files(&directory));
            flight.step(tick);
        }
        assert!(flight.recording.paused.is_some(), "{room_kib} KiB last for less than 20 s");
        let held = messages(&files(&directory));
        assert!(held >= before, "{room_kib} KiB: {held} of {before}");
        for _ in 0..30 {
            flight.step(tick);
            let trouble = flight.recording.shared.text(&flight.recording.shared.trouble);
            assert!(room_kib > 0 || !trouble.is_empty(), "that a file could be begun helps nobody");
        }
        let during = messages(&files(&directory));
        assert!(during > 0 || held == 0, "{room_kib} KiB: the newest record of {held} stays");
        std::fs::remove_file(&ballast).unwrap();
        (0..12).for_each(|_| flight.step(tick));
        assert!(flight.recording.paused.is_none(), "there is room again");
        let resumed = flight.next;
        (0..4).for_each(|_| flight.step(tick));
        let shared = &flight.recording.shared;
        assert_eq!(shared.text(&shared.trouble), "", "{room_kib} KiB: it goes on");
        flight.recording.end();
        let (after, written) = (flight.next - resumed, files(&directory));
        assert!(messages(&written) >= after, "{room_kib} KiB: all that came after is there");
        let whole = Flight::read(&written).unwrap();
        assert!(whole.cut.is_empty(), "{room_kib} KiB: {:?}", whole.cut);
        assert!(whole.recorder.last().unwrap().1.dropped > 0, "it says what it lacks");
        Command::new("umount").arg(disk.path()).status().unwrap();
    }
}

/// Runs the test where it may mount a disk that nobody else sees.
fn in_namespace_of_mounts(name: &str) {
    let apart = |flags: &str| {
        let mut command = Command::new("unshare");
        command.args([flags, "--"]).stdout(Stdio::null());
        command
    };
    let works = |flags: &&&str| {
        apart(flags).arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let Some(flags) = ["-m", "-Urm"].iter().find(works) else {
        return skip(name, "there are no namespaces for mounts");
    };
    let mut test = apart(flags);
    test.arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture"]);
    assert!(test.env("FULMAR_DISK", "1").status().unwrap().success(), "it failed in its namespace");
}

#[test]
fn date_that_jumps_back_or_ahead_begins_another_file_and_no_message_is_lost_or_out_of_order() {
    static DATE: AtomicU64 = AtomicU64::new(DATE_NS);
    let date = || DATE.load(Ordering::Relaxed);
    let tick = |ns| _ = DATE.fetch_add(ns, Ordering::Relaxed);
    const HOUR_NS: u64 = 3_600_000_000_000;
    let directory = tempfile::tempdir().unwrap();
    let mut flight = Virtual::begin(directory.path(), date);
    (0..6).for_each(|_| flight.step(tick));
    DATE.fetch_sub(HOUR_NS, Ordering::Relaxed);
    (0..6).for_each(|_| flight.step(tick));
    DATE.fetch_add(2 * HOUR_NS, Ordering::Relaxed);
    (0..6).for_each(|_| flight.step(tick));
    // A correction of less than a second is none.
    DATE.fetch_sub(300_000_000, Ordering::Relaxed);
    (0..6).for_each(|_| flight.step(tick));
    flight.recording.end();
    let written = files(directory.path());
    assert_eq!(written.len(), 3, "{written:?}");
    assert_eq!(messages(&written), flight.next, "each is there once");
    let mut began = Vec::new();
    for file in &written {
        let flight = Flight::read(&[file]).unwrap();
        assert!(flight.cut.is_empty(), "{:?}", flight.cut);
        let numbers: Vec<u64> = flight.control["gcs"].iter().map(|(_, it)| it.number).collect();
        assert!(numbers.is_sorted(), "in the order in which they were handed in");
        began.push(flight.span().unwrap().0);
    }
    assert!(began[1] + HOUR_NS / 2 < began[0] && began[0] + HOUR_NS / 2 < began[2], "{began:?}");
}
