//! Programs of others that run in a host of the testbed, and where they are found.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use sys::signals::kill_group;

use super::links::{Copy, Side};
use crate::scheme::CommandScheme;

/// How much is kept of what a program says last, bytes.
const WORDS_MAX: usize = 2_048;
/// How many lines of it are shown.
const LINES: usize = 3;

/// A program that runs; dropping it ends it, and what it has started.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    /// What it said last, where anybody listens.
    words: Arc<Mutex<Vec<u8>>>,
}

impl Program {
    /// Starts a program inside a side's host; what it says is nobody's.
    ///
    /// # Errors
    /// When it is not installed, or does not start.
    pub(crate) fn start(
        copy: &Copy<'_>,
        side: Side,
        name: &str,
        arguments: &[&str],
    ) -> Result<Self, String> {
        let path = find(name).ok_or_else(|| format!("{name} is not installed"))?;
        let mut command = Command::new(path);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Self::spawn(copy, side, command, Arc::default())
    }

    /// Starts a line for a shell inside a side's host; the end of what it says is kept.
    ///
    /// # Errors
    /// When there is no shell.
    pub(crate) fn start_line(copy: &Copy<'_>, side: Side, line: &str) -> Result<Self, String> {
        let describe = |error: std::io::Error| format!("a pipe for what it says: {error}");
        let (mut says, said) = std::io::pipe().map_err(describe)?;
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdout(said.try_clone().map_err(describe)?).stderr(said);
        let words = Arc::new(Mutex::new(Vec::new()));
        let program = Self::spawn(copy, side, command, Arc::clone(&words))?;
        let keep = move || {
            let mut piece = [0; 4_096];
            // It ends with the last process that could say something.
            while let Ok(length @ 1..) = says.read(&mut piece) {
                let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
                words.extend_from_slice(&piece[..length]);
                let old = words.len().saturating_sub(WORDS_MAX);
                words.drain(..old);
            }
        };
        thread::Builder::new().name("hear program".to_owned()).spawn(keep).map_err(describe)?;
        Ok(program)
    }

    fn spawn(
        copy: &Copy<'_>,
        side: Side,
        mut command: Command,
        words: Arc<Mutex<Vec<u8>>>,
    ) -> Result<Self, String> {
        command.stdin(Stdio::null()).process_group(0);
        let child = copy.emulation().spawn(&copy.host(side), command);
        child.map(|child| Self { child, words }).map_err(|error| error.to_string())
    }

    /// Returns the processor time that it has used so far; none where it has ended.
    pub(crate) fn processor_time(&self) -> Option<units::Duration> {
        sys::realtime::processor_time(self.child.id())
    }

    /// Says so when it has ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(format!("it ended with {status}")),
            _ => Ok(()),
        }
    }

    /// Says so when it has ended otherwise than well: one that goes into the background ends well.
    fn check_failed(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(Some(status)) if !status.success() => Err(format!("it ended with {status}")),
            _ => Ok(()),
        }
    }

    /// Adds to what went wrong the last lines that it has said.
    fn with_last_words(&self, why: String) -> String {
        match &self.last_words()[..] {
            "" => why,
            words => format!("{why}; it said: {words}"),
        }
    }

    /// Returns the last lines that it has said, in one.
    fn last_words(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&words).into_owned();
        let plain = |line: &str| {
            let seen = line.chars().map(|c| if c.is_control() { ' ' } else { c });
            seen.collect::<String>().trim().to_owned()
        };
        let mut lines: Vec<String> =
            text.lines().map(plain).filter(|line| !line.is_empty()).collect();
        let first = lines.len().saturating_sub(LINES);
        lines.drain(..first);
        lines.join(" | ")
    }
}

/// The programs of others that carry a scheme; they end when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Whose they are, where they are somebody's own.
    scheme: Option<CommandScheme>,
    all: Vec<Program>,
}

impl Programs {
    pub(super) fn of_scheme(scheme: CommandScheme, all: Vec<Program>) -> Self {
        Self { scheme: Some(scheme), all }
    }

    /// Returns the scheme whose they are, where they are somebody's own.
    pub(super) fn scheme(&self) -> Option<CommandScheme> {
        self.scheme
    }

    /// Notes it with somebody's own scheme where one has failed; called while all have to run.
    pub(crate) fn note_failed(&mut self) {
        if let (Some(scheme), Err(why)) = (self.scheme, self.check_failed()) {
            scheme.fail(format!("while it was measured: {why}"));
        }
    }

    /// Says so when one has failed, with what it said last.
    ///
    /// # Errors
    /// When one has.
    pub(super) fn check_failed(&mut self) -> Result<(), String> {
        self.all.iter_mut().try_for_each(|program| {
            program.check_failed().map_err(|why| program.with_last_words(why))
        })
    }

    /// Adds to what went wrong what the programs said last.
    pub(crate) fn with_last_words(&self, why: String) -> String {
        self.all.iter().fold(why, |why, program| program.with_last_words(why))
    }

    /// Returns the processor time of all of them so far; none where there are none, or where a
    /// shell has started them, whose own it would be.
    pub(crate) fn processor_time(&self) -> Option<units::Duration> {
        match self.all.is_empty() || self.scheme.is_some() {
            true => None,
            false => self.all.iter().map(Program::processor_time).sum(),
        }
    }
}

impl From<Vec<Program>> for Programs {
    fn from(all: Vec<Program>) -> Self {
        Self { scheme: None, all }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Errors mean that all have ended already.
        let _ = kill_group(&self.child);
        let _ = self.child.wait();
    }
}

/// Finds a program in PATH, and in the folders of the system's that are not in every user's.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}
