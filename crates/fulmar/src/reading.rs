//! Files of which nobody knows whether they answer: pipes that nobody writes into, shares whose
//! server is gone. The kernel lets nobody give up an `open` or a `read` there, so that it happens
//! in a thread that can be left behind.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use proto::{Duration, Instant};
use sys::poller::{Interest, Poller};
use sys::wakeup::Wakeup;

use crate::config::{self, Kind};

/// How long a configuration may take: one of a thousand peers takes tenths of a second, on a slow
/// card some more. It is less than `fulmar reload` waits for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Readings that may be left behind at one time: each is a thread. A share that comes back ends
/// them.
const LEFT_BEHIND: usize = 8;

/// Does something with a file in a thread, and waits for it no longer than `limit`.
///
/// # Errors
/// Those of the work, or that it takes too long.
pub(crate) fn within<T: Send + 'static>(
    file: &Path,
    limit: Duration,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, done) = channel();
    // What comes too late is dropped, with all that it holds.
    let work = move || _ = sender.send(work());
    std::thread::Builder::new()
        .name("reading".into())
        .spawn(work)
        .map_err(|error| format!("start a thread that reads the file: {error}"))?;
    done.recv_timeout(limit.into()).unwrap_or_else(|_| Err(hangs(file, limit)))
}

/// Tells that a file can be read again and again, which a pipe cannot.
///
/// # Errors
/// Says what it is.
pub(crate) fn check_is_file(file: &Path) -> Result<(), String> {
    let is_other = file.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir());
    match is_other {
        true => Err(format!("{}: is a pipe or a device, no file that stays", file.display())),
        false => Ok(()),
    }
}

/// The reader of the configuration of a daemon that runs, in a thread of its own: a thousand peers
/// take tenths of a second, and control does not wait for that.
pub(crate) struct Loader {
    sender: Sender<(u64, Answer)>,
    answers: Receiver<(u64, Answer)>,
    bell: Arc<Wakeup>,
    /// The number of the reading that is waited for, its file, and until when.
    waiting: Option<(u64, PathBuf, Instant)>,
    /// Another reload was asked for meanwhile.
    again: bool,
    number: u64,
    /// Readings without an answer so far, that which is waited for among them.
    open: usize,
}

type Answer = Result<Kind, String>;

impl Loader {
    /// Reads nothing yet; the poller tells under `token` that there may be something to take.
    pub(crate) fn open(poller: &Poller, token: u64) -> io::Result<Self> {
        let bell = Arc::new(Wakeup::new()?);
        poller.add(&*bell, token, Interest::Read)?;
        let (sender, answers) = channel();
        Ok(Self { sender, answers, bell, waiting: None, again: false, number: 0, open: 0 })
    }

    /// Reads the file; where a reading is under way, once more after it.
    pub(crate) fn load(&mut self, now: Instant, file: &Path) {
        if self.waiting.is_some() {
            self.again = true;
            return;
        }
        self.number += 1;
        self.waiting = Some((self.number, file.to_owned(), now + PATIENCE));
        self.open += 1;
        let (number, file) = (self.number, file.to_owned());
        let (sender, bell) = (self.sender.clone(), Arc::clone(&self.bell));
        let answer = move |read: Answer| {
            // The receiver is gone when the daemon ends.
            let _ = sender.send((number, read));
            bell.ring();
        };
        if self.open > LEFT_BEHIND {
            let why = format!(
                "{LEFT_BEHIND} readings of the file, or of what it named, hang still: end what holds them, or restart"
            );
            return answer(Err(why));
        }
        let refused = answer.clone();
        let reader = move || {
            let load = || config::load_any(&file).map_err(|error| error.to_string());
            answer(check_is_file(&file).and_then(|()| load()));
        };
        if let Err(error) = std::thread::Builder::new().name("reload".into()).spawn(reader) {
            refused(Err(format!("start a thread that reads the file: {error}")));
        }
    }

    /// Returns what came of the reading that is waited for, or that it took too long.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Answer> {
        self.bell.silence();
        let mut awaited = None;
        while let Ok((number, answer)) = self.answers.try_recv() {
            self.open -= 1;
            // One that is late was said to have failed.
            if self.waiting.as_ref().is_some_and(|(waiting, ..)| *waiting == number) {
                awaited = Some(answer);
            }
        }
        let is_late = |(_, _, until): &mut (_, _, Instant)| *until <= now;
        if awaited.is_none() {
            let (_, file, _) = self.waiting.take_if(is_late)?;
            awaited = Some(Err(hangs(&file, PATIENCE)));
        }
        self.waiting = None;
        awaited
    }

    /// Tells whether another reading was asked for while the last was under way.
    pub(crate) fn is_asked_again(&mut self) -> bool {
        std::mem::take(&mut self.again)
    }

    /// When a reading will have taken too long.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|(_, _, until)| *until)
    }
}

fn hangs(file: &Path, limit: Duration) -> String {
    format!(
        "{}: no answer within {} s; it, or a file that it names, is a pipe that nobody writes into or lies on a \
         share whose server is gone",
        file.display(),
        limit.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::process::Command;

    use super::*;
    use crate::keys;

    #[test]
    fn readings_that_hang_are_few_and_those_that_come_back_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let (file, key) = (folder.path().join("drone.toml"), folder.path().join("dead.key"));
        std::fs::write(&file, "role = \"drone\"\nprivate_key_file = \"dead.key\"\n").unwrap();
        assert!(Command::new("mkfifo").arg(&key).status().unwrap().success());
        let poller = Poller::new().unwrap();
        let mut loader = Loader::open(&poller, 1).unwrap();
        let mut now = Instant::ZERO;
        for _ in 0..LEFT_BEHIND {
            loader.load(now, &file);
            assert!(loader.take(now).is_none());
            now = loader.timeout().unwrap();
            assert!(loader.take(now).unwrap().unwrap_err().contains("no answer"));
        }
        loader.load(now, &file);
        assert!(loader.take(now).unwrap().unwrap_err().contains("hang still"));
        assert_eq!(loader.open, LEFT_BEHIND);

        let began = std::time::Instant::now();
        while loader.open > 0 {
            assert!(began.elapsed().as_secs() < 20, "{} hang", loader.open);
            // Who waits for a writer has one, and then the end of the file.
            drop(OpenOptions::new().read(true).write(true).open(&key).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(loader.take(now).is_none(), "what is late counts no more");
        }
        std::fs::remove_file(&key).unwrap();
        keys::write_new(&key, &keys::generate().unwrap()).unwrap();
        loader.load(now, &file);
        let read = std::iter::from_fn(|| Some(loader.take(now))).flatten().next().unwrap();
        assert!(matches!(read, Ok(Kind::End(_))), "{read:?}");
    }
}
