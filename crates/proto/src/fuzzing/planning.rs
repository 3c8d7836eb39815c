//! A sender of control over four paths, for the bench of what planning costs.

use std::collections::VecDeque;

use units::{Duration, Instant, Rng};

use crate::delivery::control::{ControlPath, Outbox, Submission};
use crate::ids::PathId;
use crate::path::{CopyRoom, PathUse};
use crate::recovery::Receipt;
use crate::select::{LaneKey, Policy, Reliability, Target, Tier};

/// Time between two messages: a thousand a second.
const EACH: Duration = Duration::from_millis(1);
/// The fastest path's way; each further one takes as much more.
const WAY_MS: u64 = 10;
const PATHS: u8 = 4;
/// Share of copies that is lost.
const LOSS: f64 = 0.02;

/// Hands commands in, a thousand a second, with a target or without, and acknowledges what arrives;
/// returns how many copies left.
pub fn send_control(messages: u64, has_target: bool) -> u64 {
    let target = Target::new(0.999, Duration::from_millis(100)).filter(|_| has_target);
    let reliability = Reliability { control: target, ..Reliability::default() };
    let (mut outbox, mut rng) = (Outbox::new(&reliability, 1), Rng::new(1));
    let paths: Vec<ControlPath> = (0..PATHS).map(path).collect();
    let probe = paths[0].answer_after;
    let mut now = Instant::from_millis(1_000);
    outbox.set_paths(now, &paths, probe);
    let mut answers: VecDeque<(Instant, u64, Receipt)> = VecDeque::new();
    let mut copies = 0;
    for _ in 0..messages {
        now += EACH;
        while answers.front().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, seq, receipt)) = answers.pop_front()
        {
            outbox.on_acked(seq, &Receipt { now, ..receipt });
            let _ = outbox.poll_outcome();
        }
        let policy = Policy::DECLARED;
        let submission =
            Submission { channel: 1, policy, lane: LaneKey::declared(1), payload: vec![0; 60] };
        let _ = outbox.submit_late((now, now), submission);
        outbox.refresh_paths(&paths, probe);
        for path in &paths {
            let room = CopyRoom::both(1_000);
            while let Some((seq, _)) = outbox.poll(now, path.id, Tier::Control, room) {
                copies += 1;
                if rng.chance(LOSS) {
                    continue;
                }
                let arrived = Some((now + path.transit, Duration::ZERO));
                let receipt = Receipt { now, path: path.id, sent_at: now, arrived };
                let at = now + path.transit * 2;
                let place = answers.partition_point(|(other, ..)| *other <= at);
                answers.insert(place, (at, seq, receipt));
            }
        }
        while outbox.poll_event().is_some() {}
    }
    copies
}

fn path(id: u8) -> ControlPath {
    let transit = Duration::from_millis(WAY_MS * (u64::from(id) + 1));
    let PathUse { cost, carries, .. } = PathUse::default();
    ControlPath {
        id: PathId(id),
        usable: true,
        repeat_after: Duration::ZERO,
        transit,
        answer_after: transit * 2 + Duration::from_millis(5),
        held: Duration::ZERO,
        cost,
        carries,
        backup: false,
    }
}
