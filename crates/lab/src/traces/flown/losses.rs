//! When a path carried nothing, and what it lost otherwise.
//!
//! ```text
//! gone      no sample of the path, or absent, closed                         → nothing passes
//! silent    suspected, and nothing came or arrived: from the last packet to the next. Held, where
//!           most of what was lost then was acknowledged afterwards
//! copies    at least COPIES_PER_S a second. Where losses have company, soon after or on another
//!           path: a lost one stands for half the way to its neighbours, COPY_S at most. Where they
//!           have none: the share of copies that was lost
//! counters  fewer copies: the share of all packets that was lost, second by second
//! ```
//! So losses fall on two paths at the same moment where they did in flight, which is what decides
//! whether a control message is missed. The price: a single loss becomes a burst of one interval of
//! control for whatever else is sent. Of losses that nothing ties together that would be false, and
//! a second copy a few milliseconds later would be lost with the first: they are spread.

use record::schema::Path;

use super::view::{Copy, Fate, Seen};

/// From so many copies a second on, they tell what a path loses.
const COPIES_PER_S: usize = 10;
/// A lost copy stands for so long before it and after it, at most: the interval of a record's
/// samples.
const COPY_S: f64 = 0.1;
/// A path of which nothing was noted for longer was gone; several times the interval of samples of
/// a station with hundreds of drones.
const GONE_S: f64 = 3.0;
/// What a path held has arrived, and is acknowledged, so long after it began to deliver again.
const LATE_S: f64 = 0.5;
/// Copies that leave within so much of each other meet the same burst, where there is one.
const NEAR_S: f64 = 0.03;
/// Copies of one message leave so close to each other on two paths.
const TOGETHER_S: f64 = 0.005;
/// The share of copies that is lost around a moment is counted for so long before it and after it.
const AROUND_S: f64 = 2.0;
/// What is shorter is not silence: copies tell.
const SILENT_S: f64 = 0.25;
/// Losses that are known to be late are made up for within so many packets.
const CARRY: f64 = 20.0;
/// After a silence the daemon's estimate of loss counts what fell into it, for about this long.
const ESTIMATE_S: f64 = 3.0;

/// Stretches of time, in order and apart.
pub(super) type Spans = Vec<(f64, f64)>;
/// Values that hold from their times on, the first from the beginning.
pub(super) type Steps = Vec<(f64, f64)>;

/// When our direction of a path carried nothing, and the share that it lost otherwise, from `begin`
/// to `end`.
///
/// `others` are the other paths that the same computer saw.
pub(super) fn outward(seen: &Seen, others: &[&Seen], (begin, end): (f64, f64)) -> (Spans, Steps) {
    let mut dead = gone(seen, (begin, end));
    dead.extend(silences(seen, end).into_iter().filter(|span| !is_held(seen, *span)));
    let dead = joined(dead, (begin, end));
    if have_company(seen, others, &dead) {
        let dead = joined([dead, lost_copies(seen)].concat(), (begin, end));
        let shares = counted(seen, &dead, (begin, end), |_| 0.0);
        return (dead, shares);
    }
    let around = |(from, to)| share(seen, &dead, (from - AROUND_S, to + AROUND_S));
    let shares = counted(seen, &dead, (begin, end), around);
    (dead, shares)
}

/// The same of the peer's direction, as far as it can be told from here.
pub(super) fn inward(seen: &Seen, (begin, end): (f64, f64)) -> (Spans, Steps) {
    let mut dead = gone(seen, (begin, end));
    dead.extend(silences(seen, end).into_iter().filter(|span| !is_held(seen, *span)));
    let dead = joined(dead, (begin, end));
    let mut shares: Steps = vec![(begin, 0.0)];
    for (at, sample) in seen.samples.iter().filter(|(at, _)| (begin..end).contains(at)) {
        let is_tainted =
            dead.iter().any(|&(from, to)| (from..to + ESTIMATE_S).contains(at)) || !is_well(sample);
        let share = sample.loss_in.clamp(0.0, 1.0);
        let held = shares.last().map_or(0.0, |(_, share)| *share);
        if !is_tainted && (share - held).abs() > 0.002 + held / 10.0 {
            shares.push((*at, share));
        }
    }
    (dead, shares)
}

/// When a path held what was sent, and delivered it afterwards; times count from `begin`.
pub(super) fn held(seen: &Seen, (begin, end): (f64, f64)) -> Spans {
    let held = silences(seen, end).into_iter().filter(|span| is_held(seen, *span)).collect();
    let held = joined(held, (begin, end)).into_iter();
    held.map(|(from, to)| (from - begin, to - begin)).collect()
}

/// Puts short spans into the share of loss, and leaves the others as outages; times count from
/// `begin` then.
pub(super) fn divided(dead: &Spans, shares: &Steps, begin: f64, shortest: f64) -> (Spans, Steps) {
    let (long, short): (Spans, Spans) = dead.iter().partition(|(from, to)| to - from >= shortest);
    let share_at = |at: f64| {
        let place = shares.partition_point(|(from, _)| *from <= at);
        shares[..place].last().map_or(0.0, |(_, share)| *share)
    };
    let mut times: Vec<f64> = shares.iter().map(|(at, _)| *at).collect();
    times.extend(short.iter().flat_map(|&(from, to)| [from, to]));
    times.sort_by(f64::total_cmp);
    let mut steps: Steps = Vec::new();
    let mut ahead = short.iter().peekable();
    for at in times {
        while ahead.next_if(|(_, to)| *to <= at).is_some() {}
        let is_dead = ahead.peek().is_some_and(|(from, _)| *from <= at);
        put(&mut steps, at - begin, if is_dead { 1.0 } else { share_at(at) });
    }
    (long.into_iter().map(|(from, to)| (from - begin, to - begin)).collect(), steps)
}

/// Adds a step, unless the value holds already; one that follows at once takes the place of that
/// before it.
pub(super) fn put(steps: &mut Steps, at: f64, value: f64) {
    const APART_S: f64 = 0.001;
    let at = (at.max(0.0) * 1e3).round() / 1e3;
    match steps.last_mut() {
        None => steps.push((0.0, value)),
        Some((_, held)) if *held == value => {}
        Some((last, held)) if at - *last < APART_S / 2.0 => *held = value,
        Some(_) => steps.push((at, value)),
    }
}

/// Returns when a path was not there, of the time in which anything was recorded.
fn gone(seen: &Seen, (begin, end): (f64, f64)) -> Spans {
    let mut spans = Vec::new();
    for pair in seen.samples.windows(2) {
        let ((at, sample), (next, _)) = (&pair[0], &pair[1]);
        if next - at > GONE_S || matches!(&sample.state[..], "absent" | "closed") {
            spans.push((*at, *next));
        }
    }
    if let (Some((first, _)), Some((at, _))) = (seen.samples.first(), seen.samples.last()) {
        // The first sample of a path, or its last, is at most an interval away from its beginning
        // and its end.
        if first - begin > GONE_S {
            spans.push((begin, *first));
        }
        if end - at > GONE_S {
            spans.push((*at, end));
        }
    }
    spans
}

/// Returns when a path was silent and known to be: from the last packet that came to the next one.
/// Where copies left meanwhile and arrived after all, it was not dead but slow, or held them: that
/// is told by their delays.
fn silences(seen: &Seen, end: f64) -> Spans {
    let heard = |(at, sample): &(f64, Path)| Some(at - sample.silent_ms?.clamp(0.0, 1e9) / 1e3);
    let mut spans = Spans::new();
    let mut samples = seen.samples.iter().peekable();
    while let Some(first) = samples.next() {
        if is_well(&first.1) || is_gone(&first.1) {
            continue;
        }
        let Some(from) = heard(first) else { continue };
        while samples.next_if(|(_, sample)| !is_well(sample) && !is_gone(sample)).is_some() {}
        // A path becomes active again with what came; its sample says when.
        let to = samples.peek().map_or(end, |after| heard(after).unwrap_or(after.0).max(from));
        let passed = between(&seen.copies, (from, to)).iter();
        let passed = passed.filter(|copy| copy.fate != Fate::Lost).map(|copy| copy.sent);
        let mut last = from;
        for at in passed.chain([to]) {
            if at - last >= SILENT_S {
                spans.push((last, at));
            }
            last = at;
        }
    }
    spans
}

/// Tells whether what was declared lost in a silence was acknowledged after it.
fn is_held(seen: &Seen, (from, to): (f64, f64)) -> bool {
    let at = |time: f64| {
        let place = seen.samples.partition_point(|(at, _)| *at < time);
        seen.samples.get(place).or(seen.samples.last()).map(|(_, sample)| sample)
    };
    let (Some(first), Some(last), Some(after)) = (at(from), at(to), at(to + LATE_S)) else {
        return false;
    };
    let lost = last.lost.saturating_sub(first.lost);
    let late = after.late.saturating_sub(first.late);
    lost > 0 && late.saturating_mul(2) >= lost
}

/// Returns the stretches for which lost copies stand.
fn lost_copies(seen: &Seen) -> Spans {
    let copies = &seen.copies;
    let mut spans = Vec::new();
    for (place, copy) in copies.iter().enumerate().filter(|(_, copy)| copy.fate == Fate::Lost) {
        let second = between(copies, (copy.sent - 0.5, copy.sent + 0.5));
        if !is_dense(second.len(), (0.0, 1.0)) {
            continue;
        }
        let before = place.checked_sub(1).map(|before| copies[before]);
        let after = copies.get(place + 1).copied();
        let reach = |other: Option<Copy>| {
            let apart = other.map_or(f64::MAX, |other| (other.sent - copy.sent).abs());
            (apart / 2.0).min(COPY_S)
        };
        spans.push((copy.sent - reach(before), copy.sent + reach(after)));
    }
    spans
}

/// Tells whether copies are lost together, on this path or with those of other paths, more often
/// than losses would that know nothing of each other; what was lost in `dead` is known to have
/// been.
fn have_company(seen: &Seen, others: &[&Seen], dead: &Spans) -> bool {
    let is_dead = |at: f64| dead.iter().any(|(from, to)| (*from..*to).contains(&at));
    let (mut expected, mut happened) = (0.0, 0.0);
    let mut add = |of: &Seen, copy: &Copy| {
        expected += share(of, dead, (copy.sent - AROUND_S, copy.sent + AROUND_S));
        happened += f64::from(u8::from(copy.fate == Fate::Lost));
    };
    for (place, copy) in seen.copies.iter().enumerate() {
        if copy.fate != Fate::Lost || is_dead(copy.sent) {
            continue;
        }
        let next = seen.copies.get(place + 1).filter(|next| next.sent - copy.sent <= NEAR_S);
        if let Some(next) = next.filter(|next| !is_dead(next.sent)) {
            add(seen, next);
        }
        for other in others {
            let together = (copy.sent - TOGETHER_S, copy.sent + TOGETHER_S);
            if let Some(copy) = between(&other.copies, together).first() {
                add(other, copy);
            }
        }
    }
    // One more than two standard deviations: a handful of losses proves nothing.
    happened > expected + 2.0 * expected.sqrt() + 1.0
}

/// Returns the share of copies that was lost in a stretch of time, without those in `dead`.
fn share(seen: &Seen, dead: &Spans, stretch: (f64, f64)) -> f64 {
    let is_dead = |at: f64| dead.iter().any(|(from, to)| (*from..*to).contains(&at));
    let alive = between(&seen.copies, stretch).iter().filter(|copy| !is_dead(copy.sent));
    let (mut count, mut lost) = (0_u32, 0_u32);
    for copy in alive {
        count += 1;
        lost += u32::from(copy.fate == Fate::Lost);
    }
    if count == 0 { 0.0 } else { f64::from(lost) / f64::from(count) }
}

/// Returns the share of packets that was lost, second by second: of those in which there were
/// copies enough to tell, what `told` says; of the others, what counters say of all packets.
fn counted(
    seen: &Seen,
    dead: &Spans,
    (begin, end): (f64, f64),
    told: impl Fn((f64, f64)) -> f64,
) -> Steps {
    let mut shares: Steps = vec![(begin, 0.0)];
    let mut carry = 0.0;
    let mut at = begin;
    while at < end {
        let window = (at, (at + 1.0).min(end));
        at += 1.0;
        let is_dead = dead.iter().any(|(from, to)| *from < window.1 && *to > window.0);
        if is_dense(between(&seen.copies, window).len(), window) {
            shares.push((window.0, told(window)));
            continue;
        }
        let (ended, lost) = ends_in(seen, window);
        if is_dead || ended <= 0.0 {
            continue;
        }
        let share = ((lost + carry) / ended).clamp(0.0, 1.0);
        carry = (carry + lost - share * ended).clamp(-CARRY, CARRY);
        shares.push((window.0, share));
    }
    shares
}

/// Returns how many packets that left in a window were acknowledged or lost, and lost for good.
fn ends_in(seen: &Seen, (from, to): (f64, f64)) -> (f64, f64) {
    // What became of a packet is known a round trip after it left.
    let known =
        |(at, sample): &(f64, Path)| at - sample.srtt_ms.unwrap_or(0.0).clamp(0.0, 2e3) / 1e3;
    let first = seen.samples.partition_point(|sample| known(sample) < from);
    let last = seen.samples.partition_point(|sample| known(sample) < to);
    let (Some((_, first)), Some((_, last))) =
        (seen.samples.get(first.saturating_sub(1)), seen.samples.get(last.saturating_sub(1)))
    else {
        return (0.0, 0.0);
    };
    // Counters begin again with a session.
    let more = |now: u64, then: u64| now.saturating_sub(then) as f64;
    let (acked, lost) = (more(last.acked, first.acked), more(last.lost, first.lost));
    let late = more(last.late, first.late);
    (acked + (lost - late).max(0.0), lost - late)
}

fn is_well(sample: &Path) -> bool {
    sample.state == "active"
}

fn is_gone(sample: &Path) -> bool {
    matches!(&sample.state[..], "absent" | "closed")
}

fn is_dense(copies: usize, (from, to): (f64, f64)) -> bool {
    copies as f64 >= COPIES_PER_S as f64 * (to - from)
}

/// Returns the copies that left in a stretch of time.
fn between(copies: &[Copy], (from, to): (f64, f64)) -> &[Copy] {
    let first = copies.partition_point(|copy| copy.sent < from);
    let last = copies.partition_point(|copy| copy.sent < to);
    &copies[first..last.max(first)]
}

/// Puts spans in order, joins those that touch, and cuts what lies outside.
fn joined(mut spans: Spans, (begin, end): (f64, f64)) -> Spans {
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all = Spans::new();
    for (from, to) in spans {
        let (from, to) = (from.max(begin), to.min(end));
        match all.last_mut() {
            Some(last) if from <= last.1 + 1e-3 => last.1 = last.1.max(to),
            _ if to > from => all.push((from, to)),
            _ => {}
        }
    }
    all
}
