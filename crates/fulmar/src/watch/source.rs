//! One daemon, watched: a thread that asks for its report, and one that follows its events.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::Watch;
use crate::events::Follower;
use crate::status::{explain, fetch};

/// How often a daemon is asked.
const EVERY: Duration = Duration::from_secs(1);
/// The least time between two questions, when something has happened.
const AT_LEAST: Duration = Duration::from_millis(200);
/// Times as long as an answer takes, a daemon is left alone: a tenth of its time goes to us at
/// most.
const REST: u32 = 9;

/// Begins to watch the daemon at a socket.
pub(super) fn start(watch: Watch, name: String, socket: PathBuf) {
    let (happened, news) = sync_channel(1);
    let asked = (watch.clone(), name.clone(), socket.clone());
    std::thread::spawn(move || ask(&asked.0, &asked.1, &asked.2, &news));
    std::thread::spawn(move || follow(&watch, &name, &socket, &happened));
}

/// Asks for a report every second, and sooner when something has happened.
fn ask(watch: &Watch, name: &str, socket: &Path, news: &Receiver<()>) {
    loop {
        let began = Instant::now();
        let answer = fetch(socket).map_err(|error| explain(socket, &error));
        let took = began.elapsed();
        watch.take(name, answer, took);
        let rest = AT_LEAST.max(REST * took);
        std::thread::sleep(rest);
        let _ = news.recv_timeout(EVERY.saturating_sub(rest + took));
    }
}

/// Follows the events, also over the daemon's end.
fn follow(watch: &Watch, name: &str, socket: &Path, happened: &SyncSender<()>) {
    loop {
        if let Ok(mut follower) = Follower::connect(socket) {
            while let Ok(Some(event)) = follower.next() {
                if watch.take_event(name, event) {
                    let _ = happened.try_send(());
                }
            }
            // It has ended: the report will say so.
            let _ = happened.try_send(());
        }
        std::thread::sleep(EVERY);
    }
}
