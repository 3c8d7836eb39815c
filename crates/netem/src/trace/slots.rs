//! A slot trace: one binary digit per packet time, 1 where the packet was received and 0 where it
//! was lost [FlowCode §IV].
//!
//! The text is made of the digits `0` and `1`; white space and `#` comments are skipped, so that a
//! trace may be one long line or one line per second.

use super::{TraceError, telling_lines};

/// Which slots let a packet through, over and over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotTrace {
    received: Vec<bool>,
}

impl SlotTrace {
    /// Reads a trace; `file` is its name for error messages.
    ///
    /// # Errors
    /// A character other than `0` and `1`; no digit at all.
    pub fn parse(text: &str, file: &str) -> Result<Self, TraceError> {
        let mut received = Vec::new();
        for (line, digits) in telling_lines(text) {
            let digits = digits.split('#').next().unwrap_or_default();
            for digit in digits.chars().filter(|digit| !digit.is_whitespace()) {
                received.push(match digit {
                    '0' => false,
                    '1' => true,
                    other => {
                        let what = format!("must be 0 or 1, is {other:?}");
                        return Err(TraceError::new(file, line, what));
                    }
                });
            }
        }
        if received.is_empty() {
            return Err(TraceError::new(file, 1, "a slot trace needs at least one digit"));
        }
        Ok(Self { received })
    }

    /// Makes a trace from what was received, slot by slot.
    ///
    /// # Panics
    /// When there is no slot.
    pub fn new(received: Vec<bool>) -> Self {
        assert!(!received.is_empty(), "a slot trace needs at least one slot");
        Self { received }
    }

    /// Returns what was received in one round, slot by slot.
    pub fn slots(&self) -> &[bool] {
        &self.received
    }

    /// Returns the share of slots that are 0.
    pub fn loss(&self) -> f64 {
        let lost = self.received.iter().filter(|&&received| !received).count();
        lost as f64 / self.received.len() as f64
    }

    /// Returns the trace in which a slot is 1 when any slot at most `reach` slots away is 1: the
    /// regions of connectivity.
    pub(crate) fn regions(&self, reach: usize) -> Self {
        let len = self.received.len();
        let reach = reach.min(len);
        let mut connected = vec![false; len];
        // Twice around, forward and backward, so that regions go on over the seam of the loop.
        let mut left = 0;
        for index in (0..2 * len).map(|index| index % len) {
            left = if self.received[index] { reach + 1 } else { left };
            connected[index] |= left > 0;
            left = left.saturating_sub(1);
        }
        left = 0;
        for index in (0..2 * len).rev().map(|index| index % len) {
            left = if self.received[index] { reach + 1 } else { left };
            connected[index] |= left > 0;
            left = left.saturating_sub(1);
        }
        Self { received: connected }
    }

    /// Returns the trace in which a slot is 1 when it is 1 in either; both have one length.
    pub(crate) fn or(&self, other: &Self) -> Self {
        let pairs = self.received.iter().zip(&other.received);
        Self { received: pairs.map(|(one, other)| one | other).collect() }
    }

    /// Returns whether slot number `index`, counted over all rounds, lets a packet through.
    pub(crate) fn passes(&self, index: u64) -> bool {
        self.received[(index % self.received.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_may_be_spread_over_lines() {
        let trace = SlotTrace::parse("# flight 3\n110 1\n0 # fade\n", "s").unwrap();
        assert_eq!(trace.slots(), [true, true, false, true, false]);
        assert_eq!(trace.loss(), 0.4);
        assert!(trace.passes(5) && !trace.passes(7));
    }

    #[test]
    fn regions_reach_over_short_fades_and_the_seam() {
        let trace = SlotTrace::parse("0010000100", "s").unwrap();
        let text = |trace: &SlotTrace| -> String {
            trace.slots().iter().map(|&slot| if slot { '1' } else { '0' }).collect()
        };
        assert_eq!(text(&trace.regions(0)), "0010000100");
        assert_eq!(text(&trace.regions(1)), "0111001110");
        assert_eq!(text(&trace.regions(2)), "1111111111");
        assert_eq!(text(&SlotTrace::parse("1000000", "s").unwrap().regions(2)), "1110011");
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text| SlotTrace::parse(text, "s").unwrap_err().to_string();
        assert_eq!(error("01\n0x"), "s:2: must be 0 or 1, is 'x'");
        assert_eq!(error(""), "s:1: a slot trace needs at least one digit");
    }
}
