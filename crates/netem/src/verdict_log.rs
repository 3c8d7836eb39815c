//! The log of verdicts: one line of comma-separated values for each packet and receiver.
//!
//! Two runs of one scenario with one seed and the same packets have the same log, byte by byte.

use crate::link::Verdict;
use core::fmt;
use units::Instant;

/// Names the columns of a log of verdicts.
///
/// `arrival_ns` has one time per copy, joined by `+`: `d` behind a time marks a copy that the link
/// made, `c` one that arrives damaged.
pub const VERDICT_LOG_HEADER: &str =
    "packet,entry_ns,link,direction,receiver,bytes,fate,arrival_ns";

/// A verdict with what it is about; displays as one line of the log, without line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictRecord<'a> {
    /// The packet's number among all packets of the net, from 1.
    pub number: u64,
    /// When it entered the link.
    pub at: Instant,
    /// The link's name.
    pub link: &'a str,
    /// The name of the host that it comes from; the log has it as `from_<host>`.
    pub sender: &'a str,
    /// The name of the host that the verdict is for.
    pub receiver: &'a str,
    /// Its length in bytes, IP header included.
    pub len: usize,
    /// What the link decided.
    pub verdict: &'a Verdict,
}

impl fmt::Display for VerdictRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, at, link, sender, receiver, len, verdict } = self;
        let at = at.as_nanos();
        write!(f, "{number},{at},{link},from_{sender},{receiver},{len},")?;
        if let Some(cause) = verdict.dropped {
            return write!(f, "{},", cause.name());
        }
        f.write_str("delivered,")?;
        for (index, delivery) in verdict.deliveries.iter().enumerate() {
            let separator = if index > 0 { "+" } else { "" };
            let duplicate = if delivery.duplicate { "d" } else { "" };
            let corrupt = if delivery.corrupt.is_some() { "c" } else { "" };
            write!(f, "{separator}{}{duplicate}{corrupt}", delivery.at.as_nanos())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Delivery, DropCause};
    use smallvec::smallvec;

    #[test]
    fn a_line_tells_each_copy() {
        let copy =
            |ns, duplicate, corrupt| Delivery { at: Instant::from_nanos(ns), duplicate, corrupt };
        let deliveries = smallvec![copy(7, false, Some(1)), copy(9, true, None)];
        let mut verdict = Verdict { deliveries, dropped: None };
        let line = |verdict: &Verdict| {
            let at = Instant::from_nanos(5);
            VerdictRecord {
                number: 3,
                at,
                link: "wifi",
                sender: "a",
                receiver: "b",
                len: 99,
                verdict,
            }
            .to_string()
        };
        assert_eq!(line(&verdict), "3,5,wifi,from_a,b,99,delivered,7c+9d");
        verdict = Verdict::dropped(DropCause::Queue);
        assert_eq!(line(&verdict), "3,5,wifi,from_a,b,99,queue,");
    }
}
