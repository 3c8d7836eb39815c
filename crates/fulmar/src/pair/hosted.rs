//! A pairing at the station that another part of this program shows: the page of `fulmar web`.
//!
//! It is the same as that of `fulmar pair`, in a thread of its own: the code ends with it, and so
//! with the process.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use sys::print::Reader;
use zeroize::Zeroizing;

use super::arguments::PairArguments;
use super::code::grouped;
use super::qr::Symbol;
use super::station::{Audience, open};
use super::{find_file, load_of};
use crate::config::Role;

/// Events of one code that are kept: a code has a few, and somebody who uses it wrongly some more.
const EVENTS: usize = 32;

/// Finds the station's file, and reads it.
///
/// # Errors
/// Where it is not there, has a mistake, or is a drone's.
pub(crate) fn station_file(named: Option<&Path>) -> Result<PathBuf, String> {
    let file = find_file(named, Some(Role::Station))?;
    load_of(&file, Role::Station).map(|_| file)
}

/// One code, and what becomes of it.
pub(crate) struct Hosted {
    name: Option<String>,
    text: Zeroizing<String>,
    side: usize,
    path: Zeroizing<String>,
    deadline: Instant,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_unwanted: AtomicBool,
    course: Mutex<Course>,
}

/// What has become of it so far.
#[derive(Default)]
struct Course {
    events: VecDeque<Value>,
    /// How it ended.
    end: Option<Result<(), String>>,
}

impl Hosted {
    /// Makes a code for a drone that will have this name, or its own; waits for the daemon.
    ///
    /// # Errors
    /// Those of `fulmar pair`: words for the operator.
    pub(crate) fn begin(file: &Path, name: Option<String>) -> Result<Self, String> {
        let config = Some(file.to_owned());
        let arguments = PairArguments { config, name: name.clone(), ..PairArguments::default() };
        let (shown, counter) = open(&arguments)?;
        let text = shown.into_iter().next().ok_or("no code was made")?.text;
        let symbol = Symbol::of(&text)?;
        let shared = Arc::new(Shared::default());
        let (mut heard, deadline) = (Heard(shared.clone()), counter.deadline);
        std::thread::Builder::new()
            .name("pairing".into())
            .spawn(move || {
                let end = counter.serve(&mut heard);
                heard.0.course().end = Some(end);
            })
            .map_err(|error| format!("start a thread: {error}"))?;
        Ok(Self { name, text, side: symbol.side(), path: symbol.path(), deadline, shared })
    }

    /// Tells whether the code may still be used.
    pub(crate) fn is_open(&self) -> bool {
        self.shared.course().end.is_none()
    }

    /// Shows the code while it is one, and what became of it.
    pub(crate) fn show(&self) -> Zeroizing<String> {
        let course = self.shared.course();
        let (is_open, problem) = match &course.end {
            None => (true, None),
            Some(end) => (false, end.as_ref().err()),
        };
        let left = self.deadline.saturating_duration_since(Instant::now()).as_secs();
        let mut shown = json!({
            "state": if is_open { "open" } else { "ended" },
            "code_for": self.name,
            "left_s": left,
            "events": course.events,
            "problem": problem,
        });
        if is_open {
            shown["code"] = grouped(&self.text).as_str().into();
            shown["symbol"] = json!({"side": self.side, "path": self.path.as_str()});
        }
        Zeroizing::new(shown.to_string())
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // Seen within a second.
        self.shared.is_unwanted.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn course(&self) -> MutexGuard<'_, Course> {
        // Whoever panicked while it held this has left it whole.
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread tells.
struct Heard(Arc<Shared>);

impl Audience for Heard {
    fn tell(&mut self, event: Value, _: String) -> Result<Reader, String> {
        let events = &mut self.0.course().events;
        if events.len() == EVENTS {
            events.pop_front();
        }
        events.push_back(event);
        Ok(Reader::There)
    }

    fn stays(&self) -> bool {
        !self.0.is_unwanted.load(Ordering::Relaxed)
    }
}
