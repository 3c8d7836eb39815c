//! Keeps every message of a run where `--out` says: one CSV file per window, case and scheme.

use std::fmt::Write;
use std::path::Path;

use super::window::{Played, file_name};
use crate::testbed::{Direction, Stream};

/// Writes what became of every message into a directory, which is made.
///
/// # Errors
/// Says which path could not be written, and why.
pub(crate) fn write_messages(
    directory: &Path,
    window: &str,
    played: &Played,
) -> Result<(), String> {
    let (case, scheme) = (played.case.name(), played.scheme);
    let path = directory.join(format!("{}-{case}-{scheme}.csv", file_name(window)));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, csv(played)))
        .map_err(|error| format!("write {}: {error}", path.display()))
}

/// Returns the table: a line per message, empty fields for what was not delivered.
fn csv(played: &Played) -> String {
    let mut text = "stream,direction,sequence,sent_s,delivered_s,delay_ms\n".to_owned();
    for direction in Direction::BOTH {
        for stream in Stream::ALL {
            let ledger = played.run.ledger(direction).stream(stream);
            for (sequence, (sent, delivered)) in
                ledger.sent.iter().zip(&ledger.delivered).enumerate()
            {
                let Some(sent) = sent else { continue };
                let sent_s = sent.as_secs_f64();
                let outcome = delivered.map_or_else(
                    || ",".to_owned(),
                    |at| {
                        let at = at.as_secs_f64();
                        format!("{at:.6},{:.3}", (at - sent_s) * 1e3)
                    },
                );
                let (stream, direction) = (stream.name(), direction.name());
                // Writing into a String cannot fail.
                let _ = writeln!(text, "{stream},{direction},{sequence},{sent_s:.6},{outcome}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use units::Duration;

    use super::*;
    use crate::experiment::recorded::window::Case;
    use crate::experiment::streams::ledger::{Ledger, StreamRun};
    use crate::experiment::streams::workload::Workload;
    use crate::scheme::Scheme;
    use crate::testbed::Recording;
    use crate::testbed::WireBytes;

    #[test]
    fn every_message_has_a_line_whether_it_came_or_not() {
        let recording = Recording::load().expect("sound");
        let workload =
            Workload { seconds: 0.1, recording: false, video_mbps: 0.0, ..Workload::default() };
        let ledgers = Direction::BOTH.map(|direction| {
            let plan = workload.plan(direction, &recording);
            let mut ledger = Ledger::new(&plan, direction, &recording);
            for packet in &plan {
                ledger.on_sent(packet, packet.at);
            }
            let stamp = crate::testbed::Stamp {
                flow: 0,
                stream: Stream::Control,
                sequence: 1,
                sent: plan[1].at,
            };
            ledger.on_delivered(&stamp.packet(100), plan[1].at + Duration::from_millis(15));
            ledger
        });
        let run = StreamRun {
            ledgers,
            wire: [WireBytes::default(); 2],
            by_link: Vec::new(),
            stalls: None,
            status: None,
            connected: None,
        };
        let text = csv(&Played { scheme: Scheme::UDP, case: Case::Alone, run });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 2 * 5);
        assert_eq!(lines[1], "control,up,0,0.000000,,");
        assert_eq!(lines[7], "control,down,1,0.020000,0.035000,15.000");
    }
}
