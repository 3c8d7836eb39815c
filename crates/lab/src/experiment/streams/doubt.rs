//! What stalls of the machine can have done to the figures of streams.
//!
//! The rule is `crate::doubt`'s; a gap, which no delay of a message alone makes longer, has one of
//! its own: its error is what the stalls did to the message that ended it, or to the one that began
//! it.

use emulator::Stalls;
use serde_json::{Value, json};
use units::Duration;

use super::figures::FIGURES;
use super::figures::Span;
use super::ledger::{StreamLedger, StreamRun};
use crate::doubt::add_errors;
use crate::report::rounded;
use crate::statistics::{longest_gap, outside};
use crate::testbed::{Direction, Stream};

/// Computes the figures of a run, and where it was a real one their errors; gaps leave `excluded`
/// out.
pub(crate) fn with_errors(
    run: &StreamRun,
    (seconds, excluded): (f64, Option<Span>),
    figures: impl Fn(&StreamRun) -> Value,
) -> Value {
    let mut seen = figures(run);
    let Some(stalls) = &run.stalls else { return seen };
    add_errors(&mut seen, &figures(&run.at_best(stalls)), &FIGURES);
    for (key, excluded) in [("control_gap_s", excluded), ("control_gap_whole_run_s", None)] {
        let mut worse = 0.0_f64;
        for direction in Direction::BOTH {
            let control = run.ledger(direction).stream(Stream::Control);
            let error = rounded(gap_error_s(control, seconds, excluded, stalls), 6);
            worse = worse.max(error);
            set_error(&mut seen[direction.name()], key, error);
        }
        set_error(&mut seen, key, worse);
    }
    seen
}

/// Sets the error of a figure that is there.
fn set_error(figures: &mut Value, key: &str, error: f64) {
    if figures[key].is_number() {
        figures["error"][key] = json!(error);
    }
}

/// Returns by how much the longest gap may be wrong, in seconds.
fn gap_error_s(
    ledger: &StreamLedger,
    seconds: f64,
    excluded: Option<Span>,
    stalls: &Stalls,
) -> f64 {
    let pairs = ledger.sent.iter().zip(&ledger.delivered);
    let seconds_of = |at: Duration| at.as_secs_f64();
    let mut arrivals: Vec<(f64, f64)> =
        pairs.filter_map(|(sent, at)| Some((seconds_of((*at)?), seconds_of((*sent)?)))).collect();
    arrivals.retain(|(at, _)| (0.0..seconds).contains(at));
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let times: Vec<f64> = arrivals.iter().map(|(at, _)| *at).collect();
    arrivals.push((seconds, seconds));
    let (mut before, mut began_late) = (0.0, 0.0);
    let (mut shortest, mut longest) = (0.0_f64, 0.0_f64);
    for (at, sent) in arrivals {
        // A sender that stood still made the gap longer too.
        let ended_late = stalls.error_s(sent.min(before), at).min(at - before);
        shortest = shortest.max(outside(before, at - ended_late, excluded));
        longest = longest.max(outside(before - began_late, at, excluded));
        (before, began_late) = (at, stalls.error_s(sent, at));
    }
    let seen = longest_gap(&times, 0.0, seconds, excluded);
    (seen - shortest).max(longest - seen).max(0.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use emulator::{Stall, Stalled};

    use super::*;
    use crate::experiment::streams::figures::ControlFigures;
    use crate::experiment::streams::ledger::Ledger;
    use crate::experiment::streams::workload::PlannedPacket;
    use crate::report::{merged, tall_table};
    use crate::testbed::WireBytes;
    use crate::testbed::{Recording, Stamp};

    /// A message every 20 ms for a second, each way, with a delay of 10 ms but for those named
    /// here.
    fn run(slow: &[(u32, Option<u64>)], stalls_ms: &[(u32, u32)]) -> StreamRun {
        let recording = Recording::load().expect("sound");
        let packet = |sequence: u32| PlannedPacket {
            flow: 0,
            at: Duration::from_millis(20 * u64::from(sequence)),
            stream: Stream::Control,
            sequence,
            len: 100,
            taken: Duration::ZERO,
        };
        let plan: Vec<PlannedPacket> = (0..50).map(packet).collect();
        let ledgers = Direction::BOTH.map(|direction| {
            let mut ledger = Ledger::new(&plan, direction, &recording);
            for packet in &plan {
                ledger.on_sent(packet, packet.at);
                let named = slow.iter().find(|(sequence, _)| *sequence == packet.sequence);
                let delay = named.map_or(Some(10), |(_, delay)| *delay);
                let stamp = Stamp {
                    flow: 0,
                    stream: packet.stream,
                    sequence: packet.sequence,
                    sent: packet.at,
                };
                if let Some(ms) = delay {
                    ledger.on_delivered(&stamp.packet(100), packet.at + Duration::from_millis(ms));
                }
            }
            ledger
        });
        let stall = |(from, to): &(u32, u32)| Stall {
            who: Stalled::Programs,
            from_s: f64::from(*from) / 1e3,
            to_s: f64::from(*to) / 1e3,
        };
        let stalls = Stalls::new(stalls_ms.iter().map(stall).collect(), 0.0);
        StreamRun {
            ledgers,
            wire: [WireBytes::default(); 2],
            by_link: Vec::new(),
            stalls: Some(Arc::new(stalls)),
            status: None,
            connected: None,
        }
    }

    fn figures(run: &StreamRun) -> Value {
        with_errors(run, (1.0, None), |run| {
            let way = |direction| {
                let control = run.ledger(direction).stream(Stream::Control);
                let figures = ControlFigures::new(control, 1.0, None);
                let share = json!({"control_miss_share": figures.miss_share()});
                (figures, merged([json!(figures), share]))
            };
            let ((up, all_up), (down, all_down)) = (way(Direction::Up), way(Direction::Down));
            merged([json!(up.worse(down)), json!({"up": all_up, "down": all_down})])
        })
    }

    #[test]
    fn a_stall_is_in_the_figures_that_it_met_and_in_no_other() {
        // Message 10, of 200 ms, comes 11 ms late because something stood still for so long.
        let met = figures(&run(&[(10, Some(21))], &[(205, 216)]));
        assert_eq!(
            (&met["control_max_ms"], &met["error"]["control_max_ms"]),
            (&21.0.into(), &11.0.into())
        );
        assert_eq!(met["control_gap_s"], 0.031);
        assert_eq!(met["error"]["control_gap_s"], 0.011);
        assert_eq!(met["up"]["error"]["control_gap_s"], 0.011);
        assert_eq!(
            (&met["control_p50_ms"], &met["error"]["control_p50_ms"]),
            (&10.0.into(), &0.0.into())
        );
        assert!(met["error"]["control_sent"].is_null(), "what was sent is exact");
        // The same message, and a stall that it did not meet.
        let missed = figures(&run(&[(10, Some(21))], &[(850, 851)]));
        assert_eq!(missed["error"]["control_max_ms"], 0.0);
        assert_eq!(missed["error"]["control_gap_s"], 0.0);
        let table = tall_table(&[met], &[("control_gap_s", "gap"), ("control_p50_ms", "p50")]);
        assert_eq!(table, "gap  0.0310 (+0.0110)\np50             10.00");
    }

    #[test]
    fn counts_and_shares_are_told_with_and_without_what_is_in_doubt() {
        // Three late or lost: one met a stall, one was lost in the reach of one, one is the links'
        // own.
        let slow = [(5, Some(104)), (10, None), (20, Some(150))];
        let figures = figures(&run(&slow, &[(150, 160), (195, 205)]));
        assert_eq!(
            (&figures["control_late_100ms"], &figures["control_lost"]),
            (&2.into(), &1.into())
        );
        let errors = &figures["error"];
        assert_eq!(
            (&errors["control_late_100ms"], &errors["control_lost"]),
            (&1.into(), &1.into())
        );
        assert_eq!(figures["up"]["control_miss_share"], 0.06);
        assert_eq!(figures["up"]["without_stalls"]["control_miss_share"], 1.0 / 49.0);
        let table = tall_table(&[figures], &[("up.control_miss_share", "miss")]);
        assert_eq!(table, "miss  0.0600 (0.0204)");
    }

    #[test]
    fn a_gap_that_a_late_beginning_hid_is_within_what_is_told() {
        // 220 ms never comes; 200 ms came 11 ms late, so that the silence looks shorter.
        let figures = figures(&run(&[(10, Some(21)), (11, None)], &[(205, 216)]));
        assert_eq!(figures["control_gap_s"], 0.031);
        assert_eq!(
            figures["error"]["control_gap_s"], 0.009,
            "the next one: 29 ms seen, 40 without"
        );
        let quiet = figures_of_the_world();
        assert!(quiet["error"].is_null(), "nothing stands still in the world: {quiet}");
    }

    fn figures_of_the_world() -> Value {
        figures(&StreamRun { stalls: None, ..run(&[], &[]) })
    }
}
