//! What became of each control message: its steps, put together until nothing more will come of it.
//!
//! One whose end takes long is told as it stands after half a second, and once more when it has
//! ended: a record that is cut has it then.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proto::select::Class;
use proto::{Duration, Instant, Outcome, PathId, PathRef, SessionId, Step, StepKind};
use record::schema::{Control, CopySent, Path};

use super::words::{self, ms};

/// A control message that takes longer counts as missed: the glossary's bound.
pub(super) const IN_TIME: Duration = Duration::from_millis(100);
/// When a message that has not ended is told for the first time.
const TELL: Duration = Duration::from_millis(500);
/// How long copies of a message that has ended may still be acknowledged or lost.
const LINGER: Duration = Duration::from_secs(2);
/// How long a copy that was declared lost may still be acknowledged, as a link does that stood
/// still: for as long as a path remembers what it has lost.
const LATE: Duration = Duration::from_secs(5);
/// Messages that are followed at once; more are not kept by any session.
const OPEN: usize = 16_384;
/// Copies of a message that are told one by one.
const COPIES: usize = 32;
/// Changes of a path's state that are remembered.
const CHANGES: usize = 16;

/// A message of which something is to be recorded.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) peer: Arc<str>,
    pub(super) at: Instant,
    pub(super) control: Control,
}

/// The messages whose end is not known yet.
#[derive(Debug)]
pub(super) struct Fates {
    open: BTreeMap<(SessionId, u64), Open>,
    next: u64,
    paths: HashMap<PathRef, Seen>,
    ready: Vec<Known>,
}

#[derive(Debug)]
struct Open {
    known: Known,
    class: Class,
    life: Duration,
    copies: Vec<Copy>,
    outcome: Option<(Instant, Outcome)>,
    told: bool,
    /// Whether something has come since it was told.
    is_news: bool,
}

#[derive(Debug)]
struct Copy {
    path: PathId,
    sent: Instant,
    arrived: Option<Instant>,
    acked: bool,
    lost: Option<Instant>,
}

/// A path's name, and its states by the time from which they were seen.
#[derive(Debug, Default)]
struct Seen {
    name: String,
    states: Vec<(Instant, String)>,
}

impl Fates {
    /// Starts with nothing; numbers follow from the seconds since 1970, so that they differ from
    /// run to run.
    pub(super) fn new(unix_s: u64) -> Self {
        // 52 bits, which every reader of JSON keeps: a million seconds are told apart, and 2³²
        // messages.
        let next = (unix_s % (1 << 20)) << 32;
        Self { open: BTreeMap::new(), next, paths: HashMap::new(), ready: Vec::new() }
    }

    /// Takes a sample of a path: its name and its state.
    pub(super) fn on_path(&mut self, at: Instant, path: PathRef, sample: &Path) {
        let seen = self.paths.entry(path).or_default();
        seen.name.clone_from(&sample.name);
        let state = words::state(sample);
        if seen.states.last().is_none_or(|(_, last)| *last != state) {
            if seen.states.len() == CHANGES {
                seen.states.remove(0);
            }
            seen.states.push((at, state));
        }
    }

    /// Takes note that numbers of a session begin again.
    pub(super) fn on_began(&mut self, session: SessionId) {
        let of_session = self.open.range((session, 0)..=(session, u64::MAX));
        let keys: Vec<_> = of_session.map(|(key, _)| *key).collect();
        for key in keys {
            self.tell_last(key);
        }
        self.paths.retain(|path, _| path.session != session);
    }

    /// Takes a step in.
    pub(super) fn on_step(&mut self, peer: &Arc<str>, session: SessionId, step: Step) {
        let key = (session, step.message);
        if let StepKind::HandedIn { class, channel, mavlink, bytes, life } = step.kind {
            if self.open.len() >= OPEN {
                return;
            }
            self.next += 1;
            let control = Control {
                number: self.next,
                class: words::class(class),
                channel,
                mavlink,
                bytes: bytes as u64,
                life_ms: ms(life),
                ..Control::default()
            };
            let known = Known { peer: Arc::clone(peer), at: step.at, control };
            let (copies, outcome, told, is_news) = (Vec::new(), None, false, true);
            let open = Open { known, class, life, copies, outcome, told, is_news };
            self.open.insert(key, open);
            return;
        }
        let Some(open) = self.open.get_mut(&key) else { return };
        open.is_news = true;
        match step.kind {
            StepKind::Sent { path } if open.copies.len() < COPIES => {
                let (arrived, acked, lost) = (None, false, None);
                open.copies.push(Copy { path, sent: step.at, arrived, acked, lost });
            }
            StepKind::Acked { path, sent_at, arrived } => {
                if let Some(copy) = open.copy(path, Some(sent_at)) {
                    copy.arrived = arrived.map(|(at, _)| at);
                    (copy.acked, copy.lost) = (true, None);
                }
            }
            StepKind::Lost { path } => {
                if let Some(copy) = open.copy(path, None) {
                    copy.lost = Some(step.at);
                }
            }
            StepKind::Ended(outcome) => open.outcome = Some((step.at, outcome)),
            _ => {}
        }
    }

    /// Returns what is to be recorded now.
    pub(super) fn poll(&mut self, now: Instant) -> Vec<Known> {
        let keys: Vec<_> = self.open.keys().copied().collect();
        for key in keys {
            let Some(open) = self.open.get_mut(&key) else { continue };
            if open.is_over(now) {
                self.tell_last(key);
            } else if !open.told && now.since(open.known.at) >= TELL {
                (open.told, open.is_news) = (true, false);
                let control = open.control(&self.paths, key.0, false);
                let (peer, at) = (Arc::clone(&open.known.peer), open.known.at);
                self.ready.push(Known { peer, at, control });
            }
        }
        std::mem::take(&mut self.ready)
    }

    /// Returns everything that is left.
    pub(super) fn end(&mut self) -> Vec<Known> {
        let keys: Vec<_> = self.open.keys().copied().collect();
        keys.into_iter().for_each(|key| self.tell_last(key));
        std::mem::take(&mut self.ready)
    }

    fn tell_last(&mut self, key: (SessionId, u64)) {
        let Some(open) = self.open.remove(&key) else { return };
        let control = open.control(&self.paths, key.0, true);
        if open.told && !open.is_news && control.outcome != "sent" {
            return;
        }
        self.ready.push(Known { control, ..open.known });
    }
}

impl Open {
    /// Returns the copy that a packet of this path carried: the one that left then, or the first
    /// that is open.
    fn copy(&mut self, path: PathId, sent: Option<Instant>) -> Option<&mut Copy> {
        let exact = |copy: &Copy| copy.path == path && Some(copy.sent) == sent;
        let first = |copy: &Copy| copy.path == path && !copy.acked && copy.lost.is_none();
        let place = self.copies.iter().position(exact);
        let place = place.or_else(|| self.copies.iter().position(first))?;
        Some(&mut self.copies[place])
    }

    /// Tells whether nothing more will come of it.
    fn is_over(&self, now: Instant) -> bool {
        let is_old = |since: Instant, age: Duration| now.since(since) >= age;
        let is_lost = |copy: &Copy| copy.lost.is_some_and(|since| is_old(since, LATE));
        let is_settled = self.copies.iter().all(|copy| copy.acked || is_lost(copy));
        let is_acked = self.copies.iter().any(|copy| copy.acked);
        let left = self.copies.last().map_or(self.known.at, |copy| copy.sent);
        match self.outcome {
            Some((_, _)) if is_settled => true,
            Some((at, _)) if self.copies.iter().any(|copy| copy.lost.is_some()) => is_old(at, LATE),
            Some((at, _)) => is_old(at, LINGER),
            // One that is not reliable has no end of its own where a copy arrived.
            None if is_acked && is_settled => is_old(left, TELL),
            None => is_old(self.known.at, self.life + LINGER),
        }
    }

    fn control(
        &self,
        paths: &HashMap<PathRef, Seen>,
        session: SessionId,
        is_last: bool,
    ) -> Control {
        let began = self.known.at;
        let name = |path: PathId| {
            let seen = paths.get(&PathRef { session, path });
            seen.map_or_else(|| format!("#{}", path.0), |seen| seen.name.clone())
        };
        let copies: Vec<CopySent> = self
            .copies
            .iter()
            .map(|copy| CopySent {
                path: name(copy.path),
                sent_ms: ms(copy.sent.since(began)),
                arrived_ms: copy.arrived.map(|at| ms(at.since(began))),
                acked: copy.acked,
                lost: copy.lost.is_some(),
            })
            .collect();
        let is_acked = copies.iter().any(|copy| copy.acked);
        let delay_ms = copies.iter().filter_map(|copy| copy.arrived_ms).min_by(f64::total_cmp);
        let outcome = match self.outcome {
            Some((_, outcome)) => words::outcome(outcome),
            None if is_acked => "delivered",
            None if is_last => "sent",
            None => "open",
        };
        let mut control =
            Control { copies, delay_ms, outcome: outcome.into(), ..self.known.control.clone() };
        if matches!(self.class, Class::Liveness | Class::Live | Class::Control) && outcome != "open"
        {
            let states = self.states(paths, session);
            control.why = words::why_missed(&control, &states);
            control.missed = !control.why.is_empty();
        }
        control
    }

    /// The states that the paths had when the message was handed in, in words.
    fn states(&self, paths: &HashMap<PathRef, Seen>, session: SessionId) -> String {
        let mut states: Vec<String> = Vec::new();
        for (_, seen) in paths.iter().filter(|(path, _)| path.session == session) {
            let before = seen.states.iter().rev().find(|(from, _)| *from <= self.known.at);
            if let Some((_, state)) = before.or(seen.states.first()) {
                states.push(format!("{} {state}", seen.name));
            }
        }
        states.sort();
        states.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(3);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000 + ms)
    }

    fn fates() -> Fates {
        let mut fates = Fates::new(0);
        for (id, name, state) in [(0, "wifi", "active"), (1, "lte", "suspected")] {
            let path = PathRef { session: SESSION, path: PathId(id) };
            let sample = Path { name: name.into(), state: state.into(), ..Path::default() };
            fates.on_path(at(0), path, &sample);
        }
        fates
    }

    fn play(fates: &mut Fates, steps: Vec<(u64, StepKind)>) -> Vec<Control> {
        let peer = Arc::from("gcs");
        for (ms, kind) in steps {
            fates.on_step(&peer, SESSION, Step { at: at(ms), message: 5, kind });
        }
        fates.end().into_iter().map(|known| known.control).collect()
    }

    fn handed_in() -> (u64, StepKind) {
        let life = Duration::from_secs(10);
        let (class, channel, mavlink, bytes) = (Class::Control, 1, Some(76), 41);
        (0, StepKind::HandedIn { class, channel, mavlink, bytes, life })
    }

    fn sent(ms: u64, path: u8) -> (u64, StepKind) {
        (ms, StepKind::Sent { path: PathId(path) })
    }

    fn acked(path: u8, sent: u64, arrived: u64) -> (u64, StepKind) {
        let arrived = Some((at(arrived), Duration::ZERO));
        (300, StepKind::Acked { path: PathId(path), sent_at: at(sent), arrived })
    }

    #[test]
    fn message_in_time_is_no_miss_and_its_copies_are_told() {
        let steps = vec![handed_in(), sent(1, 0), sent(2, 1), acked(0, 1, 21), acked(1, 2, 60)];
        let told = play(&mut fates(), steps);
        assert_eq!(told.len(), 1);
        assert_eq!(
            (told[0].missed, told[0].why.as_str(), told[0].delay_ms),
            (false, "", Some(21.0))
        );
        assert_eq!(told[0].copies[1].path, "lte");
        assert_eq!(told[0].outcome, "delivered");
    }

    #[test]
    fn each_kind_of_miss_has_its_cause_in_words() {
        let expired = (9_000, StepKind::Ended(Outcome::Expired));
        let lost = |path| (200, StepKind::Lost { path: PathId(path) });
        let cases = [
            (vec![handed_in(), expired.clone()], "no path took a copy: lte suspected, wifi active"),
            (
                vec![handed_in(), (20, StepKind::Ended(Outcome::Superseded))],
                "a newer one took its place before a path took a copy: lte suspected, wifi active",
            ),
            (
                vec![handed_in(), sent(1, 0), sent(1, 1), lost(0), lost(1), expired.clone()],
                "every copy was lost: 1 on wifi, 1 on lte; lte suspected, wifi active",
            ),
            (
                vec![handed_in(), sent(1, 0), lost(0), sent(150, 1), acked(1, 150, 190)],
                "190 ms late: 1 copy was lost on wifi; one that left after 150 ms arrived by lte",
            ),
            (
                vec![handed_in(), sent(120, 0), acked(0, 120, 140)],
                "140 ms late: it waited 120 ms for a path; lte suspected, wifi active",
            ),
            (
                vec![handed_in(), sent(1, 0), acked(0, 1, 240)],
                "240 ms late: the way by wifi took 239 ms",
            ),
            (
                vec![handed_in(), sent(1, 0), expired],
                "no answer came to its copies: 1 on wifi; lte suspected, wifi active",
            ),
        ];
        for (steps, why) in cases {
            let told = play(&mut fates(), steps);
            assert_eq!((told[0].missed, told[0].why.as_str()), (true, why));
        }
    }

    #[test]
    fn message_that_takes_long_is_told_as_it_stands_and_once_more_at_its_end() {
        let mut fates = fates();
        let peer = Arc::from("gcs");
        for (ms, kind) in [handed_in(), sent(1, 0)] {
            fates.on_step(&peer, SESSION, Step { at: at(ms), message: 5, kind });
        }
        assert!(fates.poll(at(400)).is_empty());
        let told = fates.poll(at(600));
        assert_eq!((told.len(), told[0].control.outcome.as_str()), (1, "open"));
        assert!(fates.poll(at(700)).is_empty());
        let (ms, kind) = acked(0, 1, 800);
        fates.on_step(&peer, SESSION, Step { at: at(ms), message: 5, kind });
        let last = fates.poll(at(1_200));
        assert_eq!((last.len(), last[0].control.outcome.as_str()), (1, "delivered"));
        assert_eq!(last[0].control.number, told[0].control.number);
        assert!(last[0].control.missed);
    }
}
