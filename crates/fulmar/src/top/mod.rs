//! `fulmar top`: a terminal screen that shows what is wrong first, the last minutes of each path,
//! and what flows.

mod screen;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use sys::signals::Signals;

use crate::status::find_socket;
use crate::watch::{Row, Seen, Watch, rows};
use screen::draw;

/// How often the screen is drawn anew, and how long a signal may wait.
const EVERY: Duration = Duration::from_millis(250);
/// The longest filter.
const LONGEST: usize = 64;

/// The exit code of a process that panicked, as Rust has it.
const PANICKED: i32 = 101;

const KEYS: &str = "\
Keys: ↑ ↓ (or k j), PgUp PgDn, Home choose a peer; / filters by name (Enter keeps it, Esc ends it); q, Esc or Ctrl-C ends.

It watches every daemon in /run/fulmar, or those that --socket names, and keeps ten minutes of each path while it runs. \
`fulmar web` shows the same on a page.";

/// The arguments of `fulmar top`.
#[derive(Debug, Args)]
#[command(after_long_help = KEYS, after_help = "fulmar top --help lists the keys.")]
pub(crate) struct TopArguments {
    /// A daemon's socket, that of `fulmar status`; may be given several times. Without it: all in
    /// /run/fulmar.
    #[arg(short, long, value_name = "PATH")]
    socket: Vec<PathBuf>,
}

/// What the operator has chosen.
#[derive(Debug, Default)]
struct Choice {
    /// The chosen peer, which keeps its mark when others take its place in the list.
    id: Option<String>,
    filter: String,
    is_typing: bool,
}

/// Shows the screen until a key or a signal ends it.
///
/// # Errors
/// Where there is no terminal, or no daemon.
pub(crate) fn run(arguments: &TopArguments) -> Result<(), String> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let what = "needs a terminal; for scripts there are `fulmar status --json` and `fulmar events --json`";
        return Err(format!("fulmar top {what}"));
    }
    if arguments.socket.is_empty()
        && let Err(error) = find_socket()
        && crate::status::sockets().is_empty()
    {
        return Err(error);
    }
    // Before any thread starts: they inherit it.
    let signals = Signals::block().map_err(|error| format!("block the signals: {error}"))?;
    let watch = Watch::start(&arguments.socket, || {});
    let is_ended = end_by(signals);
    on_terminal(|terminal| show(terminal, &watch, &is_ended))
}

/// Takes the terminal for as long as `show` takes, and gives it back as it was: also when something
/// panics, in this thread or in one of those that watch. Then the process ends, for what nobody
/// watches would be shown as it was.
fn on_terminal(
    show: impl FnOnce(&mut ratatui::DefaultTerminal) -> std::io::Result<()>,
) -> Result<(), String> {
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("set up the terminal: {error}"))?;
    // That of ratatui, which gives the terminal back and says what happened.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        std::process::exit(PANICKED);
    }));
    let shown = show(&mut terminal);
    let restored = ratatui::try_restore();
    shown.and(restored).map_err(|error| format!("the terminal: {error}"))
}

/// Tells whether a signal has come, SIGHUP too, by which a terminal says that it has gone; and ends
/// the process if that is not heeded.
fn end_by(signals: Signals) -> Arc<AtomicBool> {
    let is_ended = Arc::new(AtomicBool::new(false));
    let told = is_ended.clone();
    std::thread::spawn(move || {
        while signals.take().is_none() {
            std::thread::sleep(EVERY);
        }
        told.store(true, Ordering::Relaxed);
        // Crossterm reads the end of a terminal that has gone again and again, and does not come
        // back.
        std::thread::sleep(4 * EVERY);
        std::process::exit(0);
    });
    is_ended
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    watch: &Watch,
    is_ended: &AtomicBool,
) -> std::io::Result<()> {
    let mut choice = Choice::default();
    loop {
        terminal.draw(|frame| draw(frame, &watch.seen(), &choice))?;
        if is_ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Several keys at once are one picture.
        let mut wait = EVERY;
        while event::poll(wait)? {
            wait = Duration::ZERO;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && choice.take(key, &watch.seen())
            {
                return Ok(());
            }
        }
    }
}

impl Choice {
    /// Takes a key; true when it ends the program.
    fn take(&mut self, key: KeyEvent, daemons: &BTreeMap<String, Seen>) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return true,
            KeyCode::Esc if self.is_typing || !self.filter.is_empty() => {
                (self.is_typing, self.filter) = (false, String::new());
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Backspace if self.is_typing => _ = self.filter.pop(),
            KeyCode::Char(_) if self.is_typing && (is_control || self.filter.len() >= LONGEST) => {}
            KeyCode::Char(typed) if self.is_typing => self.filter.extend(typed.to_lowercase()),
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Up | KeyCode::Char('k') => self.step(daemons, -1),
            KeyCode::Down | KeyCode::Char('j') => self.step(daemons, 1),
            KeyCode::PageUp => self.step(daemons, -10),
            KeyCode::PageDown => self.step(daemons, 10),
            KeyCode::Home => self.id = None,
            _ => {}
        }
        false
    }

    /// Returns the peers that the filter leaves, and the place of the chosen one.
    fn peers<'a>(&self, daemons: &'a BTreeMap<String, Seen>) -> (Vec<Row<'a>>, usize) {
        let mut rows = rows(daemons);
        rows.retain(|row| row.peer.name.to_lowercase().contains(&self.filter));
        let place = rows.iter().position(|row| Some(row.id()) == self.id).unwrap_or(0);
        (rows, place)
    }

    /// Chooses another peer; who chooses none looks at the worst.
    fn step(&mut self, daemons: &BTreeMap<String, Seen>, by: isize) {
        let (rows, place) = self.peers(daemons);
        let last = rows.len().saturating_sub(1);
        let place = place.saturating_add_signed(by).min(last);
        self.id = rows.get(place).map(Row::id);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Says, in the process that has a terminal, where it is to panic.
    const WHERE: &str = "FULMAR_TEST_OF_PANICS";

    #[test]
    fn a_panic_gives_the_terminal_back_and_ends_the_program() {
        let name = "top::tests::a_panic_gives_the_terminal_back_and_ends_the_program";
        match std::env::var(WHERE).as_deref() {
            Ok("here") => _ = on_terminal(|_| panic!("something is wrong")),
            Ok(_) => {
                let _ = on_terminal(|_| {
                    let watching = std::thread::spawn(|| panic!("something is wrong"));
                    let _ = watching.join();
                    std::thread::sleep(Duration::from_secs(60));
                    Ok(())
                });
            }
            Err(_) => {}
        }
        if std::env::var_os(WHERE).is_some() {
            return;
        }
        if Command::new("script").arg("--version").output().is_err() {
            return sys::sandbox::skip(
                name,
                "no program script (util-linux), which makes a terminal",
            );
        }
        for place in ["here", "in a thread"] {
            let binary = std::env::current_exe().unwrap();
            let line = format!(
                "{} --exact {name} --nocapture; echo \"code $?\"; stty -a",
                binary.display()
            );
            let mut script = Command::new("script");
            script.args(["-qfc", &line, "/dev/null"]).env(WHERE, place).stdin(Stdio::null());
            let output = script.output().unwrap();
            let told = String::from_utf8_lossy(&output.stdout);
            let (before, after) = told.split_once("\x1b[?1049l").expect(&told);
            assert!(before.contains("\x1b[?1049h"), "{place}: {told}");
            assert!(after.contains("something is wrong"), "{place}: {told}");
            assert!(after.contains(&format!("code {PANICKED}")), "{place}: {told}");
            assert!(!told.contains("-icanon") && !told.contains("-echo "), "{place}: {told}");
        }
    }
}
