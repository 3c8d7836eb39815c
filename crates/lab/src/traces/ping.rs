//! Reads what ping prints: round trips, and by the numbers that are missing, losses.
//!
//! ```text
//! [1691259815.058540] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=49 time=83.7 ms
//! ```
//! A number without an answer was lost; what came before the first answer and after the last is not
//! known and left out.

use super::formats::HowToRead;
use super::reading::{Reading, Sample};
use super::time;

/// The most pings that may be missing between two answers: a day of them at 200 ms.
const PINGS_MISSING_MAX: u64 = 432_000;

/// Reads what ping prints; with `-D` or a time in brackets before each line it has the times,
/// otherwise the interval must be said unless it is the usual second.
pub(super) fn ping(text: &str, file: &str, how: &HowToRead) -> Result<Reading, String> {
    let answers = answers(text, file)?;
    let (Some(&(first, first_rtt, first_at)), Some(&(last, last_rtt, last_at))) =
        (answers.first(), answers.last())
    else {
        return Err(format!("{file}: ping got no answer in it"));
    };
    let stamped = first_at.zip(last_at).filter(|_| last > first).map(|(from, to)| {
        // A stamp is of the answer, not of the question.
        (to - last_rtt / 1e3 - from + first_rtt / 1e3) / (last - first) as f64
    });
    let apart = how.ping_s.or(stamped).unwrap_or(1.0);
    if !(0.001..=3_600.0).contains(&apart)
        || last - first > PINGS_MISSING_MAX + answers.len() as u64
    {
        return Err(format!("{file}: pings cannot be {apart} s apart, or so many be missing"));
    }
    let mut samples = Vec::new();
    let mut next = first;
    for (sequence, rtt, _) in answers {
        let lost = (next..sequence).map(|sequence| (sequence, None));
        for (sequence, rtt) in lost.chain([(sequence, Some(rtt))]) {
            samples.push(Sample {
                at_s: (sequence - first) as f64 * apart,
                rate_mbps: None,
                delay_ms: rtt.map(|rtt| rtt / 2.0),
                loss: Some(if rtt.is_some() { 0.0 } else { 1.0 }),
            });
        }
        next = sequence + 1;
    }
    let mut reading = Reading::of(samples, how.gap_s);
    (reading.format, reading.start_s) = ("ping", first_at.map(|at| at - first_rtt / 1e3));
    let source = match (how.ping_s, stamped) {
        (Some(_), _) => "as said",
        (None, Some(_)) => "by its time stamps",
        (None, None) => "ping's usual interval: say --ping-s if it was another",
    };
    reading.notes.push(format!("a ping every {apart:.4} s, {source}"));
    reading
        .notes
        .push("half of the round-trip time each way; what got no answer was lost".to_owned());
    Ok(reading)
}

/// Returns the answers, each sequence number once, in order.
fn answers(text: &str, file: &str) -> Result<Vec<Answer>, String> {
    let mut answers: Vec<Answer> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let Some(rest) = line.split_once("icmp_seq=").map(|(_, rest)| rest) else { continue };
        let Some((_, rtt)) = line.split_once("time=") else { continue };
        let wrong = |what: &str| format!("{file}:{line_number}: {what} is not a number");
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
        // No ping counts further, and what follows from it is counted in 64 bits.
        let sequence: u64 = digits.parse::<u32>().map_err(|_| wrong("icmp_seq"))?.into();
        let rtt = rtt.split_whitespace().next().unwrap_or("");
        let rtt: f64 = rtt.parse().map_err(|_| wrong("time"))?;
        if !(0.0..1e7).contains(&rtt) {
            return Err(wrong("time"));
        }
        let stamp = line.strip_prefix('[').and_then(|line| line.split_once(']')).map(|(at, _)| at);
        let stamp = stamp.and_then(time::seconds).map(|(at, _)| at);
        answers.push((sequence, rtt, stamp));
    }
    // The first answer to each counts; ping counts modulo 65,536 and long runs begin again.
    answers.dedup_by_key(|(sequence, ..)| *sequence);
    let (mut rounds, mut before) = (0, None);
    for (sequence, ..) in &mut answers {
        if before.is_some_and(|before| *sequence + 32_768 < before) {
            rounds += 65_536;
        }
        before = Some(*sequence);
        *sequence += rounds;
    }
    answers.sort_by_key(|&(sequence, ..)| sequence);
    answers.dedup_by_key(|(sequence, ..)| *sequence);
    Ok(answers)
}

/// Sequence number, round-trip time in ms, and when it came where ping says so.
type Answer = (u64, f64, Option<f64>);
