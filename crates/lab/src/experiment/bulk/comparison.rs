//! What a row has beside other rows of the same run: one flow's of several, the plain tunnel's of
//! others.
//!
//! ```text
//! of_one        goodput of both flows of `two` ÷ that of the one of `lossy`, of the same scheme
//! of_plain      goodput ÷ that of `min_rtt`, the plain form, at the same point
//! cpu_of_plain  the same of the processor time
//! ```
//! All under the same congestion control, and of the same seed.

use serde_json::{Value, json};

use super::point::Point;
use crate::doubt::Doubtful;
use crate::report::rounded;
use crate::scheme::Scheme;

/// Adds the figures to rows, which are given by scheme and point: a row for each seed.
pub(super) fn compare(all: &mut [Vec<Value>]) {
    for group in 0..all.len() {
        for place in 0..all[group].len() {
            let row = &all[group][place];
            let plain = json!(Scheme::MIN_RTT);
            let same = |other: &Value, key: &str| other[key] == row[key];
            let of_plain = |other: &Value| {
                other["scheme"] == plain && same(other, "point") && same(other, "window")
            };
            let of_one = |other: &Value| {
                other["point"] == json!(Point::Lossy.name()) && same(other, "scheme")
            };
            let find = |is_it: &dyn Fn(&Value) -> bool| {
                let mut rows = all.iter().filter_map(|rows| rows.get(place));
                rows.find(|other| same(other, "cc") && is_it(other))
            };
            let is_plain = row["scheme"] == plain;
            let is_two = row["point"] == json!(Point::Two.name());
            let plain = find(&of_plain).filter(|_| !is_plain);
            let one = find(&of_one).filter(|_| is_two);
            let ratios = [
                ("of_one", quotient(row, one, "goodput_mbps")),
                ("of_plain", quotient(row, plain, "goodput_mbps")),
                ("cpu_of_plain", quotient(row, plain, "cpu_s")),
            ];
            let row = &mut all[group][place];
            for (key, ratio) in ratios {
                let Some(Doubtful { value, error }) = ratio else { continue };
                row[key] = json!(rounded(value, 4));
                if row["error"].is_object() {
                    row["error"][key] = json!(rounded(error, 4));
                }
            }
        }
    }
}

/// Returns a figure of a row over the same of another, with the errors of both.
fn quotient(row: &Value, other: Option<&Value>, key: &str) -> Option<Doubtful> {
    let (above, below) = (Doubtful::of(row, key)?, Doubtful::of(other?, key)?);
    if below.value <= 0.0 {
        return None;
    }
    let value = above.value / below.value;
    Some(Doubtful { value, error: (above.error + value * below.error) / below.value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_with_their_own_seed_and_congestion_control() {
        let row = |scheme: &str, cc: &str, point: &str, mbps: f64, cpu: Option<f64>| {
            json!({
                "scheme": scheme, "cc": cc, "point": point, "window": null, "goodput_mbps": mbps,
                "cpu_s": cpu, "error": {"goodput_mbps": mbps / 100.0},
            })
        };
        let both = |scheme: &str, cc: &str, point: &str, mbps: [f64; 2]| {
            mbps.map(|mbps| row(scheme, cc, point, mbps, Some(mbps / 10.0))).to_vec()
        };
        let mut all = [
            both("fulmar", "cubic", "two", [20.0, 24.0]),
            both("fulmar", "reno", "lossy", [1.0, 1.0]),
            both("fulmar", "cubic", "lossy", [25.0, 24.0]),
            both("min_rtt", "cubic", "two", [10.0, 12.0]),
            vec![row("kernel_tcp", "cubic", "two", 5.0, None)],
        ];
        compare(&mut all);
        let of = |group: usize, place: usize| {
            ["of_one", "of_plain", "cpu_of_plain"].map(|key| all[group][place][key].as_f64())
        };
        assert_eq!(of(0, 0), [Some(0.8), Some(2.0), Some(2.0)]);
        assert_eq!(of(0, 1), [Some(1.0), Some(2.0), Some(2.0)]);
        assert_eq!((of(1, 0), of(3, 0)), ([None; 3], [None; 3]));
        assert_eq!(of(4, 0), [None, Some(0.5), None]);
        assert_eq!(all[0][0]["error"]["of_one"], json!(0.016));
    }
}
