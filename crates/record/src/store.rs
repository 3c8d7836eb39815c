//! Where records lie: one directory, bounded in size and age, on a disk that may be full.
//!
//! ```text
//! 00042-2026-11-24T15-18-58Z.mcap     the record
//! 00042-2026-11-24T15-18-58Z.tlog     its MAVLink
//! ```
//!
//! The number counts up, whatever the clock says: many drones have none that lasts without power.
//! What has other names is left alone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::age::{Calendar, age};
use crate::cut;

/// How many pieces the bound on size is divided into: as the oldest goes, the others stay.
const PIECES: u64 = 8;
/// Records that stay whatever the clock says, the newest ones: several flights of a day. A clock
/// that is wrong from the start, by a rollover of GPS for instance, would take them all for old.
const NEWEST: usize = 8;
/// The ends of the names.
const RECORD: &str = "mcap";
const MAVLINK: &str = "tlog";

/// How much is kept, for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all records together.
    pub bytes: u64,
    /// Age of the oldest, by dates that can be true; the newest eight records stay at any age.
    pub age: Duration,
}

/// The records of one directory, of which the newest grows.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    limits: Limits,
    pieces: Vec<Piece>,
    next: u64,
    open: Option<Open>,
    calendar: Calendar,
    /// Whether what lies in the directory is known.
    known: bool,
}

/// A record that has ended, with its MAVLink.
#[derive(Debug)]
struct Piece {
    number: u64,
    files: Vec<PathBuf>,
    bytes: u64,
    changed: SystemTime,
}

/// The record that grows.
#[derive(Debug)]
struct Open {
    number: u64,
    record: Growing,
    /// From the first frame on.
    mavlink: Option<Growing>,
}

#[derive(Debug)]
struct Growing {
    path: PathBuf,
    file: File,
    bytes: u64,
    unsynced: bool,
}

/// Which of a record's two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The record itself.
    Record,
    /// Its MAVLink.
    Mavlink,
}

impl Store {
    /// Knows where records are to lie; nothing is there, or looked at, before [`Store::open`] or
    /// the first [`Store::begin`]: a card may come later.
    pub fn new(directory: &Path, limits: Limits) -> Self {
        Self {
            directory: directory.to_owned(),
            limits,
            pieces: Vec::new(),
            next: 1,
            open: None,
            calendar: Calendar::new(SystemTime::now),
            known: false,
        }
    }

    /// Opens the directory, which is made where it is missing; a record that was cut is given an
    /// end.
    ///
    /// # Errors
    /// Say the operation and the path.
    pub fn open(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.directory)
            .map_err(|error| about("make", &self.directory, &error))?;
        self.look().map_err(|error| about("read", &self.directory, &error))?;
        for piece in &self.pieces {
            for file in piece.files.iter().filter(|file| has_end(file, RECORD)) {
                // One that cannot be given an end, on a full disk for instance, is readable
                // without.
                let _ = cut::give_end(file);
            }
        }
        self.look().map_err(|error| about("read", &self.directory, &error))?;
        self.known = true;
        Ok(())
    }

    /// Begins a new record; that before it has ended. `utc` stands in its name.
    ///
    /// # Errors
    /// Say the operation and the path.
    pub fn begin(&mut self, utc: &str) -> io::Result<()> {
        self.end()?;
        if !self.known {
            self.open()?;
        }
        self.make_room(0);
        let number = self.next;
        let stem = format!("{number:05}-{utc}");
        let record = Growing::create(self.directory.join(format!("{stem}.{RECORD}")));
        let record = record.inspect_err(|error| {
            // Somebody has taken the directory away, or put another one there.
            let is_other =
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists);
            self.known &= !is_other;
        })?;
        self.next += 1;
        self.open = Some(Open { number, record, mavlink: None });
        // The names are on disk, too.
        File::open(&self.directory).and_then(|directory| directory.sync_all())
    }

    /// Adds bytes to the record that grows, all or none; the oldest records make room for them.
    ///
    /// # Errors
    /// When the disk takes nothing although no older record is left, and without a record that
    /// grows.
    pub fn append(&mut self, part: Part, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.make_room(bytes.len() as u64);
        loop {
            let Some(open) = &mut self.open else { return Err(io::ErrorKind::NotFound.into()) };
            let growing = match part {
                Part::Record => &mut open.record,
                Part::Mavlink => open.mavlink()?,
            };
            match growing.append(bytes) {
                Ok(()) => return Ok(()),
                // The newest of the others stays: a disk that others fill does not take the flight
                // that just ended.
                Err(error) if is_full(&error) && self.pieces.len() > 1 => {
                    self.drop_oldest();
                }
                Err(error) => return Err(about("write", &growing.path, &error)),
            }
        }
    }

    /// Waits until what was added is on the disk.
    ///
    /// # Errors
    /// Say the path.
    pub fn sync(&mut self) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.mavlink.iter_mut().chain([&mut open.record]).try_for_each(Growing::sync)
    }

    /// Ends the record that grows.
    ///
    /// # Errors
    /// Say the path.
    pub fn end(&mut self) -> io::Result<()> {
        let synced = self.sync();
        let Some(Open { number, record, mavlink }) = self.open.take() else { return synced };
        let mut files = Vec::new();
        let bytes = record.bytes + mavlink.as_ref().map_or(0, |mavlink| mavlink.bytes);
        for growing in [record].into_iter().chain(mavlink) {
            // What nothing was written to is no record.
            if growing.bytes > 0 || fs::remove_file(&growing.path).is_err() {
                files.push(growing.path);
            }
        }
        // What is empty must not count as the newest: on a full disk each try to go on leaves such
        // a one.
        if !files.is_empty() {
            let changed = self.calendar.now();
            self.pieces.push(Piece { number, files, bytes, changed });
        }
        synced
    }

    /// Ends the record that grows although it has no end yet, and gives it one if the disk takes
    /// that.
    pub fn abandon(&mut self) {
        let path = self.current().map(Path::to_owned);
        // What is wrong with the disk has been said.
        let _ = self.end();
        if let Some(path) = path {
            let _ = cut::give_end(&path);
        }
    }

    /// Returns the file that grows.
    pub fn current(&self) -> Option<&Path> {
        self.open.as_ref().map(|open| open.record.path.as_path())
    }

    /// Tells whether the record that grows is as large as one is to be.
    pub fn is_large(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.bytes() >= self.limits.bytes / PIECES)
    }

    /// Removes the oldest records until there is room within the bounds.
    fn make_room(&mut self, more: u64) {
        let now = self.calendar.now();
        while self.is_first_old(now) || self.bytes() + more > self.limits.bytes {
            if !self.drop_oldest() {
                break;
            }
        }
    }

    /// Tells whether the oldest record is too old: by the first date that can be true, which is
    /// that of a later record where its own cannot be.
    fn is_first_old(&self, now: SystemTime) -> bool {
        let mut ages = self.pieces.iter().filter_map(|piece| age(piece.changed, now));
        self.pieces.len() > NEWEST && ages.next().is_some_and(|age| age > self.limits.age)
    }

    fn bytes(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, Open::bytes);
        self.pieces.iter().map(|piece| piece.bytes).sum::<u64>() + open
    }

    /// Removes the oldest record that has ended; false when there is none.
    fn drop_oldest(&mut self) -> bool {
        if self.pieces.is_empty() {
            return false;
        }
        for file in self.pieces.remove(0).files {
            // Gone already, or not ours to remove: then the disk says what is wrong.
            let _ = fs::remove_file(file);
        }
        true
    }

    /// Takes stock of the directory.
    fn look(&mut self) -> io::Result<()> {
        self.pieces.clear();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let Some(number) = number_of(&path) else { continue };
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if !about.is_file() {
                continue;
            }
            let changed = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            self.next = self.next.max(number + 1);
            match self.pieces.iter_mut().find(|piece| piece.number == number) {
                Some(piece) => {
                    piece.bytes += about.len();
                    piece.changed = piece.changed.max(changed);
                    piece.files.push(path);
                }
                None => {
                    let (files, bytes) = (vec![path], about.len());
                    self.pieces.push(Piece { number, files, bytes, changed });
                }
            }
        }
        self.pieces.sort_by_key(|piece| piece.number);
        Ok(())
    }
}

impl Open {
    fn bytes(&self) -> u64 {
        self.record.bytes + self.mavlink.as_ref().map_or(0, |mavlink| mavlink.bytes)
    }

    fn mavlink(&mut self) -> io::Result<&mut Growing> {
        if self.mavlink.is_none() {
            self.mavlink = Some(Growing::create(self.record.path.with_extension(MAVLINK))?);
        }
        self.mavlink.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Growing {
    fn create(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(|error| about("make", &path, &error))?;
        Ok(Self { path, file, bytes: 0, unsynced: false })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(bytes) {
            // A piece of a chunk is worth nothing, and what follows would not be found behind it.
            self.file.set_len(self.bytes)?;
            io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.bytes))?;
            return Err(error);
        }
        self.bytes += bytes.len() as u64;
        self.unsynced = true;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.unsynced) {
            self.file.sync_data().map_err(|error| about("write", &self.path, &error))?;
        }
        Ok(())
    }
}

/// Tells whether the disk, or what one may have of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the number of a file that is part of a record.
fn number_of(path: &Path) -> Option<u64> {
    if !has_end(path, RECORD) && !has_end(path, MAVLINK) {
        return None;
    }
    let (number, time) = path.file_stem()?.to_str()?.split_once('-')?;
    let is_number = number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && time.ends_with('Z')).then(|| number.parse().ok()).flatten()
}

fn has_end(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|found| found == end)
}

fn about(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTC: &str = "2026-11-24T15-18-58Z";

    fn opened(directory: &Path, limits: Limits) -> Store {
        let mut store = Store::new(directory, limits);
        store.open().unwrap();
        store
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn limits(bytes: u64) -> Limits {
        Limits { bytes, age: Duration::from_secs(3_600) }
    }

    #[test]
    fn oldest_records_go_when_the_bound_is_reached_and_strangers_stay() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("00001-notes.txt"), "mine").unwrap();
        fs::write(directory.path().join("flight.mcap"), "mine").unwrap();
        let mut store = opened(directory.path(), limits(8_000));
        for _ in 0..12 {
            store.begin(UTC).unwrap();
            assert!(!store.is_large());
            store.append(Part::Record, &[0; 900]).unwrap();
            store.append(Part::Mavlink, &[0; 100]).unwrap();
            assert!(store.is_large());
            assert!(store.bytes() <= 8_000);
        }
        let names = names(directory.path());
        assert!(names.contains(&"00001-notes.txt".into()) && names.contains(&"flight.mcap".into()));
        assert_eq!(names.len(), 2 + 2 * 8, "{names:?}");
        assert_eq!(store.current().unwrap().file_stem().unwrap(), format!("00012-{UTC}").as_str());
        drop(store);
        let mut again = opened(directory.path(), limits(8_000));
        again.begin(UTC).unwrap();
        assert!(again.current().unwrap().ends_with(format!("00013-{UTC}.mcap")));
    }

    #[test]
    fn record_to_which_nothing_was_written_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = opened(directory.path(), limits(1 << 20));
        store.begin(UTC).unwrap();
        store.append(Part::Record, b"x").unwrap();
        for _ in 0..3 {
            store.begin(UTC).unwrap();
            store.abandon();
        }
        assert_eq!(store.pieces.len(), 1, "a full disk takes the oldest of several, not this one");
        assert_eq!(names(directory.path()), [format!("00001-{UTC}.mcap")]);
    }

    /// Makes records that ended at these dates, the oldest first, and opens their directory.
    fn store_of(directory: &Path, dates: &[SystemTime]) -> Store {
        let mut store = opened(directory, limits(1 << 20));
        for date in dates {
            store.begin(UTC).unwrap();
            store.append(Part::Record, b"x").unwrap();
            let path = store.current().unwrap().to_owned();
            store.end().unwrap();
            File::options().append(true).open(path).unwrap().set_modified(*date).unwrap();
        }
        opened(directory, limits(1 << 20))
    }

    fn numbers(directory: &Path) -> Vec<u32> {
        names(directory).iter().map(|name| name[..5].parse().unwrap()).collect()
    }

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn records_that_are_too_old_go_but_for_the_newest() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store_of(directory.path(), &[SystemTime::now() - DAY; NEWEST + 3]);
        store.begin(UTC).unwrap();
        store.append(Part::Record, b"y").unwrap();
        assert_eq!(numbers(directory.path()), (4..=12).collect::<Vec<_>>());
    }

    #[test]
    fn records_with_dates_that_cannot_be_true_are_not_old_and_hide_none_that_are() {
        let now = SystemTime::now();
        for wrong in [SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + 10 * 365 * DAY, now + DAY] {
            let directory = tempfile::tempdir().unwrap();
            let mut store = store_of(directory.path(), &[wrong; NEWEST + 3]);
            store.begin(UTC).unwrap();
            assert_eq!(numbers(directory.path()).len(), NEWEST + 4, "{wrong:?}");

            // What came before one that is too old is too old.
            let directory = tempfile::tempdir().unwrap();
            let mut dates = vec![wrong, now - DAY, wrong];
            dates.extend([now; NEWEST]);
            let mut store = store_of(directory.path(), &dates);
            store.begin(UTC).unwrap();
            assert_eq!(numbers(directory.path()), (3..=12).collect::<Vec<_>>(), "{wrong:?}");
        }
    }

    #[test]
    fn a_clock_that_steps_ahead_while_it_records_makes_no_record_old() {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        static AHEAD_S: AtomicU64 = AtomicU64::new(0);
        let directory = tempfile::tempdir().unwrap();
        let mut store = store_of(directory.path(), &[SystemTime::now(); NEWEST + 3]);
        let date = || SystemTime::now() + Duration::from_secs(AHEAD_S.load(Relaxed));
        store.calendar = Calendar::new(date);
        for weeks in [0, 1, 1_024] {
            AHEAD_S.store(weeks * 7 * 86_400, Relaxed);
            store.begin(UTC).unwrap();
            store.append(Part::Record, b"y").unwrap();
        }
        assert_eq!(numbers(directory.path()), (1..=NEWEST as u32 + 6).collect::<Vec<_>>());
    }
}
