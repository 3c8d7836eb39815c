//! What planning for a reliability target costs, at 1,000 messages a second over four paths: `cargo
//! bench -p fulmar-proto --features doors --bench planning`.
//!
//! The same messages leave with a copy on each path and with a target. Copies cost time themselves,
//! so that the difference alone would praise the planner; its time is that with a target, less what
//! its copies cost without.

#![expect(clippy::disallowed_types, reason = "a bench reads the clock")]

use std::time::Instant as Clock;

use fulmar_proto::fuzzing::send_control;

/// Messages of a run: twenty seconds of them.
const MESSAGES: u64 = 20_000;
/// Times that each is measured; the fastest counts, as the machine may be busy.
const ROUNDS: usize = 5;
/// Messages a second that the share of the processor is given for.
const PER_SECOND: f64 = 1_000.0;

fn main() {
    let [(all, all_copies), (planned, copies)] = [false, true].map(|has_target| {
        let runs = (0..ROUNDS).map(|_| {
            let started = Clock::now();
            let copies = send_control(MESSAGES, has_target);
            (started.elapsed().as_secs_f64() / MESSAGES as f64, copies)
        });
        runs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    });
    let per = |copies: u64| copies as f64 / MESSAGES as f64;
    println!(
        "a copy everywhere  {:6.2} µs for each message, {:.2} copies",
        all * 1e6,
        per(all_copies)
    );
    println!(
        "with a target      {:6.2} µs for each message, {:.2} copies",
        planned * 1e6,
        per(copies)
    );
    let planning = planned - all * copies as f64 / all_copies as f64;
    let share = planning * PER_SECOND * 100.0;
    println!(
        "planning           {:6.2} µs: {share:.2} % of a core at 1,000 messages a second",
        planning * 1e6
    );
}
