//! What the card has of a run: which keys of an experiment's result make a figure, which way is
//! better, and how much of a change is none.
//!
//! Not how it is measured: that is the experiments' affair.

use serde_json::Value;

use crate::report::field;

/// A figure of the card.
#[derive(Debug)]
pub(super) struct Figure {
    /// Its name in the card, unit last.
    pub(super) name: &'static str,
    /// What the result's keys are put together to.
    parts: &'static [&'static str],
    /// What that is divided by; nothing unless said.
    over: &'static [&'static str],
    fold: Fold,
    /// Whether it is a delay of what was delivered: infinite where a result has the key, and
    /// nothing was.
    of_delivered: bool,
    /// By how much it is multiplied, for its unit.
    times: f64,
    /// Digits behind the point.
    digits: i32,
    pub(super) better: Better,
    /// A change that is no larger is none: of the figure itself, and as a share of it.
    hair: (f64, f64),
    /// Which of its opponents' figures it is set against.
    pub(super) rivals: Rivals,
}

/// Says what several keys make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Sum,
    /// The greatest: of two directions the worse.
    Most,
}

/// Says which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Less,
    More,
}

/// Says against whom a figure is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rivals {
    /// Everybody: plain copies, one path at a time, plain UDP.
    All,
    /// Plain copies alone: whoever sends each packet once has less, and loses what is lost.
    Copies,
    /// Nobody: delays of what was delivered, where others deliver less.
    None,
}

/// Control: lost or later than 100 ms, of what was sent; of the worse direction.
pub(super) const MISSED: Figure =
    Figure { parts: &["control_miss_share"], ..Figure::percent("missed_pct") };
/// The same of an experiment that tells it of each direction.
pub(super) const EACH_MISSED: Figure = Figure {
    parts: &["up.control_miss_share", "down.control_miss_share"],
    fold: Fold::Most,
    ..MISSED
};
pub(super) const GAP: Figure = Figure { parts: &["control_gap_s"], ..Figure::seconds("gap_s") };
pub(super) const P99: Figure = Figure { parts: &["control_p99_ms"], ..Figure::delay("p99_ms") };
pub(super) const LIVE_AGE: Figure =
    Figure { parts: &["live_age_p99_ms"], rivals: Rivals::All, ..Figure::ms("live_age_p99_ms") };
pub(super) const LIVE_AGE_FALL: Figure =
    Figure { parts: &["live_age_fall_ms"], rivals: Rivals::All, ..Figure::ms("live_age_max_ms") };
/// Video that came within 250 ms.
pub(super) const VIDEO: Figure = Figure {
    parts: &["video_share_250ms"],
    better: Better::More,
    hair: (0.3, 0.0),
    ..Figure::percent("video_pct")
};
/// Datagrams of another program that were lost, or came later than it can use them.
pub(super) const BULK_MISSED: Figure =
    Figure { parts: &["streams.bulk.miss_share"], ..Figure::percent("bulk_missed_pct") };
/// What entered the links, both ways.
pub(super) const WIRE: Figure = Figure {
    parts: &["wire_bytes"],
    times: 1e-3,
    digits: 1,
    hair: (0.0, 0.01),
    rivals: Rivals::Copies,
    ..Figure::bare("wire_kb")
};
/// The longest time without bulk from a death on.
pub(super) const DATA_GAP: Figure =
    Figure { parts: &["data_gap_max_ms"], rivals: Rivals::All, ..Figure::ms("data_gap_ms") };

/// The same of recorded links, whose figures are those of each direction.
pub(super) const BOTH_MISSED: Figure = Figure {
    parts: &["up.control_missed", "down.control_missed"],
    over: &["up.control_sent", "down.control_sent"],
    ..MISSED
};
pub(super) const BOTH_GAP: Figure =
    Figure { parts: &["up.control_gap_s", "down.control_gap_s"], ..GAP };
pub(super) const BOTH_P99: Figure =
    Figure { parts: &["up.control_p99_ms", "down.control_p99_ms"], ..P99 };
pub(super) const BOTH_LIVE_AGE: Figure =
    Figure { parts: &["up.live_age_p99_ms", "down.live_age_p99_ms"], ..LIVE_AGE };
pub(super) const DOWN_VIDEO: Figure = Figure { parts: &["down.video_share_250ms"], ..VIDEO };

/// Messages of a target: missed of those of both directions, and for how much of the time the
/// newest was too old.
pub(super) const TARGET_MISSED: Figure =
    Figure { parts: &["miss_share"], ..Figure::percent("missed_pct") };
pub(super) const STALE: Figure = Figure { parts: &["stale_share"], ..Figure::percent("stale_pct") };
pub(super) const COPIES: Figure = Figure {
    parts: &["copies_per_message"],
    digits: 4,
    hair: (0.0, 0.01),
    ..Figure::bare("copies")
};

/// TCP through the tunnel.
pub(super) const GOODPUT: Figure = Figure {
    parts: &["goodput_mbps"],
    digits: 3,
    better: Better::More,
    hair: (0.0, 0.01),
    rivals: Rivals::All,
    ..Figure::bare("goodput_mbps")
};
pub(super) const PING: Figure = Figure { parts: &["ping_p99_ms"], ..Figure::delay("ping_p99_ms") };
pub(super) const FLOW_GAP: Figure =
    Figure { parts: &["longest_gap_ms"], ..Figure::ms("flow_gap_ms") };
pub(super) const OVERHEAD: Figure = Figure {
    parts: &["wire_overhead"],
    digits: 4,
    hair: (0.0, 0.01),
    ..Figure::bare("wire_to_payload")
};
pub(super) const JAIN: Figure = Figure {
    parts: &["jain"],
    digits: 3,
    better: Better::More,
    hair: (0.02, 0.0),
    ..Figure::bare("jain")
};
/// A request and its answer, or a connection's beginning and 1 kB over it: one in twenty takes
/// longer, beside the flow and without it.
pub(super) const REQUEST: Figure =
    Figure { parts: &["request_p95_ms"], ..Figure::ms("request_p95_ms") };
pub(super) const REQUEST_ALONE: Figure =
    Figure { parts: &["request_alone_p95_ms"], ..Figure::ms("request_alone_p95_ms") };
/// What a plain TCP flow got that shared the first link.
pub(super) const OUTSIDE: Figure =
    Figure { parts: &["outside_mbps"], ..Figure { name: "outside_mbps", ..GOODPUT } };

/// Messages that must all arrive.
pub(super) const MESSAGE_P99: Figure = Figure { parts: &["p99_ms"], ..Figure::delay("p99_ms") };
pub(super) const MESSAGE_P999: Figure = Figure { parts: &["p999_ms"], ..Figure::delay("p999_ms") };
pub(super) const SENT_BYTES: Figure = Figure {
    parts: &["sent_bytes_per_byte"],
    digits: 4,
    hair: (0.0, 0.01),
    ..Figure::bare("sent_to_payload")
};
/// The same as a stream of a file.
pub(super) const STREAM_P99: Figure =
    Figure { parts: &["streams.messages.p99_ms"], ..Figure::delay("p99_ms") };
pub(super) const STREAM_MOST: Figure =
    Figure { parts: &["streams.messages.max_ms"], ..Figure::delay("max_ms") };
pub(super) const STREAM_MISSED: Figure =
    Figure { parts: &["streams.messages.miss_share"], ..Figure::percent("missed_pct") };
pub(super) const RETURNED: Figure = Figure {
    parts: &["returned_per_message"],
    digits: 4,
    hair: (0.0, 0.03),
    ..Figure::bare("returned_per_message")
};

/// A flight past masts: what of what could be carried was.
pub(super) const EFFICIENCY: Figure = Figure {
    parts: &["efficiency"],
    better: Better::More,
    hair: (0.5, 0.0),
    ..Figure::percent("efficiency_pct")
};

impl Figure {
    /// Returns the figure of a result; none where it has none. What was never delivered has an
    /// infinite delay.
    pub(super) fn of(&self, result: &Value) -> Option<f64> {
        let own = self.folded(self.parts, result)?;
        let over = if self.over.is_empty() { 1.0 } else { self.folded(self.over, result)? };
        let scale = 10.0_f64.powi(self.digits);
        let value = own / over * self.times;
        Some(if value.is_finite() { (value * scale).round() / scale } else { f64::INFINITY })
    }

    /// Returns how much of a change is none, whatever the seeds say.
    pub(super) fn hair(&self, value: f64) -> f64 {
        self.hair.0.max(self.hair.1 * value.abs())
    }

    /// Tells whether one value is better than another.
    pub(super) fn is_better(&self, one: f64, other: f64) -> bool {
        match self.better {
            Better::Less => one < other,
            Better::More => one > other,
        }
    }

    const fn bare(name: &'static str) -> Self {
        Self {
            name,
            parts: &[],
            over: &[],
            fold: Fold::Sum,
            of_delivered: false,
            times: 1.0,
            digits: 3,
            better: Better::Less,
            hair: (0.0, 0.0),
            rivals: Rivals::None,
        }
    }

    /// A share, in percent; one message of 3,000 is none.
    const fn percent(name: &'static str) -> Self {
        Self {
            times: 100.0,
            digits: 4,
            hair: (0.034, 0.0),
            rivals: Rivals::All,
            ..Self::bare(name)
        }
    }

    /// A delay of what was delivered: of two directions the longer.
    const fn delay(name: &'static str) -> Self {
        Self { of_delivered: true, ..Self::ms(name) }
    }

    /// A time: of two directions the longer.
    const fn ms(name: &'static str) -> Self {
        Self { fold: Fold::Most, digits: 2, hair: (1.5, 0.03), ..Self::bare(name) }
    }

    /// A time without a delivery; the distance of two messages is none.
    const fn seconds(name: &'static str) -> Self {
        Self {
            fold: Fold::Most,
            digits: 4,
            hair: (0.02, 0.03),
            rivals: Rivals::All,
            ..Self::bare(name)
        }
    }

    fn folded(&self, keys: &[&str], result: &Value) -> Option<f64> {
        let number = |key: &&str| match field(result, key) {
            Value::Null if self.of_delivered && is_there(result, key) => Some(f64::INFINITY),
            value => value.as_f64(),
        };
        let numbers: Vec<f64> = keys.iter().map(number).collect::<Option<_>>()?;
        match self.fold {
            Fold::Sum => Some(numbers.iter().sum()),
            Fold::Most => numbers.into_iter().reduce(f64::max),
        }
    }
}

/// Tells whether a result has a key, be it null.
fn is_there(result: &Value, key: &str) -> bool {
    let (within, last) = key.rsplit_once('.').unwrap_or(("", key));
    let object = if within.is_empty() { result } else { field(result, within) };
    object.get(last).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_put_together_from_a_results_keys() {
        let result = json!({
            "control_miss_share": 0.001, "control_p99_ms": null, "wire_bytes": 1_234_567,
            "up": {"control_missed": 3, "control_sent": 100, "control_gap_s": 0.5, "control_miss_share": 0.03},
            "down": {"control_missed": 1, "control_sent": 300, "control_gap_s": 0.25, "control_miss_share": 0.01},
        });
        assert_eq!(MISSED.of(&result), Some(0.1));
        assert_eq!(EACH_MISSED.of(&result), Some(3.0));
        assert_eq!(BOTH_MISSED.of(&result), Some(1.0));
        assert_eq!(BOTH_GAP.of(&result), Some(0.5));
        assert_eq!(WIRE.of(&result), Some(1_234.6));
        assert_eq!(P99.of(&result), Some(f64::INFINITY), "nothing was delivered");
        assert_eq!(LIVE_AGE.of(&result), None, "there were none");
        assert!(MISSED.is_better(0.1, 0.2) && GOODPUT.is_better(0.2, 0.1));
        assert_eq!((P99.hair(10.0), P99.hair(100.0)), (1.5, 3.0));
    }
}
