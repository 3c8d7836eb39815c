//! What is to be said of a figure, of an item, of a claim: computed, never typed.
//!
//! ```text
//! beside the paper   row.rs has it: agrees, differs by so much, not decided, not testable, no interval
//! bar                reaches it, or falls short of it by so much of it
//! rank               ahead of another, as good, or behind; beyond the intervals of both, or within them
//! item               how many of its figures say what
//! ```

use core::fmt;

use super::Way;
use crate::record::row::{AGREES, DIFFERS, NO_INTERVAL, NOT_TESTABLE, Row, UNDECIDED};
use crate::record::{Figure, PaperIs};
use crate::report::digits;
use models::Check;

/// How a verdict is to be taken, which is its colour as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    /// Neither, or both.
    Unsure,
    /// Nothing was to be judged.
    Silent,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) words: String,
    pub(super) tone: Tone,
}

/// What the figures of an item say together.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    agree: usize,
    differ: usize,
    /// Effects that are the reverse of the paper's, of these and of those without an interval.
    reversed: usize,
    undecided: usize,
    alone: usize,
    /// How far off those are that have no interval, as shares of the paper's.
    off: Vec<f64>,
    /// Those of which the paper says over or under, and those that are.
    sided: usize,
    on_side: usize,
    not_testable: usize,
    lacking: usize,
    bars: usize,
    reached: usize,
}

impl Verdict {
    pub(super) fn new(words: impl Into<String>, tone: Tone) -> Self {
        Self { words: words.into(), tone }
    }

    /// Says whether a figure is the paper's; none where the paper has none.
    pub(super) fn beside_paper(row: &Row) -> Option<Self> {
        let tone = match &row.verdict[..] {
            "" => return None,
            AGREES => Tone::Good,
            words if words.starts_with(DIFFERS) => Tone::Bad,
            _ => Tone::Unsure,
        };
        Some(Self::new(&row.verdict[..], tone))
    }

    /// Says whether a figure reaches what it must; none where it need not reach anything.
    pub(super) fn of_bar(figure: &Figure, row: &Row) -> Option<Self> {
        if row.must.is_empty() {
            return None;
        }
        let must = &row.must;
        let Some(now) = row.now else {
            return Some(Self::new(format!("must be {must}, and did not come out"), Tone::Bad));
        };
        if row.in_doubt {
            let words = format!("reaches {must} or not, within its error");
            return Some(Self::new(words, Tone::Unsure));
        }
        if row.met {
            return Some(Self::new(format!("reaches {must}"), Tone::Good));
        }
        let limit = figure.at_most.filter(|limit| now > *limit).or(figure.at_least);
        let by = limit.map_or_else(String::new, |limit| {
            let short = (now - limit).abs();
            match limit {
                0.0 => format!(" by {}", number(short)),
                limit => format!(" by {} %", number(100.0 * short / limit.abs())),
            }
        });
        Some(Self::new(format!("falls short of {must}{by}"), Tone::Bad))
    }

    /// Says who is ahead; none where a figure did not come, or neither way is better.
    pub(super) fn of_rank(way: Way, ours: &Row, theirs: &Row) -> Option<Self> {
        let (own, other) = (ours.now?, theirs.now?);
        let name = &theirs.scheme;
        let (is_ahead, is_behind) = match way {
            Way::Lower => (own < other, own > other),
            Way::Higher => (own > other, own < other),
            Way::Near => return None,
        };
        let sure = match ours.interval.zip(theirs.interval) {
            Some(((low, high), (least, most))) if high < least || most < low => {
                ", beyond the intervals"
            }
            Some(_) => ", within the intervals",
            None => NO_INTERVAL,
        };
        let value = number(other);
        Some(match (is_ahead, is_behind) {
            (true, _) => Self::new(format!("ahead of {name}, {value}{sure}"), Tone::Good),
            (_, true) => Self::new(format!("behind {name}, {value}{sure}"), Tone::Bad),
            _ => Self::new(format!("as {name}, {value}"), Tone::Unsure),
        })
    }

    /// Says whether an equation gives what the paper prints; none where it prints nothing.
    pub(super) fn of_check(check: &Check, fitted: Option<&str>) -> Option<Self> {
        let paper = check.paper?;
        Some(match (check.agrees, fitted) {
            (_, Some(_)) => Self::new(NOT_TESTABLE, Tone::Unsure),
            (true, None) => Self::new(AGREES, Tone::Good),
            (false, None) if paper == 0.0 => {
                Self::new(format!("{DIFFERS}: {:+.3}", check.ours), Tone::Bad)
            }
            (false, None) => {
                let off = (check.ours / paper - 1.0) * 100.0;
                Self::new(format!("{DIFFERS}: {off:+.1} %"), Tone::Bad)
            }
        })
    }

    /// Joins what is said of one thing: the worst gives the tone.
    pub(super) fn joined(parts: &[Self]) -> Self {
        let has = |tone| parts.iter().any(|part| part.tone == tone);
        let worst = [Tone::Bad, Tone::Unsure, Tone::Good].into_iter().find(|tone| has(*tone));
        let words: Vec<&str> = parts.iter().map(|part| &part.words[..]).collect();
        Self::new(words.join("; "), worst.unwrap_or(Tone::Silent))
    }
}

impl Tally {
    /// Counts a figure of a record.
    pub(super) fn add(&mut self, figure: &Figure, row: &Row) {
        if row.now.is_none() {
            self.lacking += 1;
        }
        match &row.verdict[..] {
            "" => {}
            AGREES => self.agree += 1,
            UNDECIDED => self.undecided += 1,
            NOT_TESTABLE => self.not_testable += 1,
            words if words.ends_with(NO_INTERVAL) => {
                self.add_alone(figure, row, words);
            }
            words => {
                self.differ += 1;
                self.reversed += usize::from(words.contains("reversed"));
            }
        }
        if !row.must.is_empty() {
            self.bars += 1;
            self.reached += usize::from(row.met);
        }
    }

    /// Counts what an equation gives.
    pub(super) fn add_check(&mut self, check: &Check, fitted: Option<&str>) {
        match Verdict::of_check(check, fitted).map(|verdict| verdict.words) {
            None => {}
            Some(words) if words == AGREES => self.agree += 1,
            Some(words) if words == NOT_TESTABLE => self.not_testable += 1,
            Some(_) => self.differ += 1,
        }
    }

    /// Tells whether anything is beside something of the paper, or must reach something.
    pub(super) fn is_empty(&self) -> bool {
        self.compared() + self.lacking + self.bars == 0
    }

    /// Says it in a line.
    pub(super) fn verdict(&self) -> Verdict {
        Verdict::new(self.to_string(), self.tone())
    }

    /// Counts a figure that has no interval.
    fn add_alone(&mut self, figure: &Figure, row: &Row, words: &str) {
        self.alone += 1;
        if figure.paper_is != PaperIs::Measured {
            self.sided += 1;
            self.on_side += usize::from(!words.starts_with("not "));
        } else if figure.no_effect.is_some() {
            self.reversed += usize::from(words.contains("reversed"));
        } else {
            let off = row.paper.zip(row.now).filter(|(paper, _)| *paper != 0.0);
            self.off.extend(off.map(|(paper, now)| now / paper - 1.0));
        }
    }

    fn compared(&self) -> usize {
        self.agree + self.differ + self.undecided + self.alone + self.not_testable
    }

    fn tone(&self) -> Tone {
        let is_short = self.reached < self.bars || self.lacking > 0;
        match (self.agree, self.differ) {
            (_, 0) if self.alone + self.undecided + self.not_testable > 0 => Tone::Unsure,
            (0, 0) if self.bars == 0 && self.lacking == 0 => Tone::Silent,
            (_, 0) if !is_short => Tone::Good,
            (0, _) => Tone::Bad,
            _ => Tone::Unsure,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compared = self.compared();
        let of = if compared == 1 {
            "of one figure".to_owned()
        } else {
            format!("of {compared} figures")
        };
        let mut parts = Vec::new();
        let counts = [
            (self.agree, AGREES),
            (self.differ, DIFFERS),
            (self.undecided, UNDECIDED),
            (self.not_testable, NOT_TESTABLE),
        ];
        parts.extend(
            counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{what} in {n}")),
        );
        if self.alone > 0 {
            let least = self.off.iter().copied().reduce(f64::min);
            let most = self.off.iter().copied().reduce(f64::max);
            let mut off = match least.zip(most) {
                Some((least, most)) if least == most => format!(", {:+.1} %", 100.0 * most),
                Some((least, most)) => {
                    format!(", {:+.1} to {:+.1} %", 100.0 * least, 100.0 * most)
                }
                None => String::new(),
            };
            if self.sided > 0 {
                off += &format!(
                    ", over or under as the paper says in {} of {}",
                    self.on_side, self.sided
                );
            }
            parts.push(format!("no interval in {}{off}", self.alone));
        }
        let mut words = parts.join("; ");
        if compared > 0 {
            words = format!("{words} ({of})");
        }
        if self.reversed > 0 {
            words += &format!("; reversed in {}", self.reversed);
        }
        if self.bars > 0 {
            let bars = format!("reaches {} of {} bars", self.reached, self.bars);
            words += &if words.is_empty() { bars } else { format!("; {bars}") };
        }
        if self.lacking > 0 {
            let lacking = format!("{} did not come out", self.lacking);
            words += &if words.is_empty() { lacking } else { format!("; {lacking}") };
        }
        f.write_str(&words)
    }
}

/// Writes a figure for people.
pub(super) fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value}")
    } else {
        format!("{value:.*}", digits(value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figure(more: &str) -> Figure {
        toml::from_str(&format!("scheme = \"fulmar\"\nkey = \"gap_s\"\n{more}")).expect("sound")
    }

    fn row(figure: &Figure, gap: f64, seeds: &[f64]) -> Row {
        let seeds: Vec<_> = seeds.iter().map(|gap| json!({"gap_s": gap})).collect();
        figure.row(&[json!({"scheme": "fulmar", "gap_s": gap, "by_seed": seeds})])
    }

    #[test]
    fn a_bar_is_reached_or_fallen_short_of_by_so_much() {
        let figure = figure("at_most = 0.5");
        let said = |gap| Verdict::of_bar(&figure, &row(&figure, gap, &[])).expect("it has a bar");
        assert_eq!(said(0.25), Verdict::new("reaches ≤ 0.5", Tone::Good));
        assert_eq!(said(0.75), Verdict::new("falls short of ≤ 0.5 by 50 %", Tone::Bad));
        assert_eq!(Verdict::of_bar(&figure, &figure.row(&[])).map(|it| it.tone), Some(Tone::Bad));
        let none = super::tests::figure("");
        assert_eq!(Verdict::of_bar(&none, &row(&none, 1.0, &[])), None);
    }

    #[test]
    fn who_is_ahead_goes_by_the_way_and_says_whether_it_survives_the_intervals() {
        let figure = figure("");
        let (low, high) = (row(&figure, 1.0, &[1.0; 6]), row(&figure, 2.0, &[2.0; 6]));
        let said = |way, ours, theirs| Verdict::of_rank(way, ours, theirs).map(|it| it.words);
        assert_eq!(
            said(Way::Lower, &low, &high).as_deref(),
            Some("ahead of fulmar, 2, beyond the intervals")
        );
        assert_eq!(
            said(Way::Higher, &low, &high).as_deref(),
            Some("behind fulmar, 2, beyond the intervals")
        );
        let wide = row(&figure, 2.0, &[0.0, 0.0, 0.0, 4.0, 4.0, 4.0]);
        assert_eq!(
            said(Way::Lower, &low, &wide).as_deref(),
            Some("ahead of fulmar, 2, within the intervals")
        );
        let alone = row(&figure, 2.0, &[]);
        assert_eq!(
            said(Way::Lower, &low, &alone).as_deref(),
            Some("ahead of fulmar, 2, no interval")
        );
        assert_eq!(said(Way::Near, &low, &high), None);
    }

    #[test]
    fn an_item_counts_what_its_figures_say() {
        let mut tally = Tally::default();
        assert!(tally.is_empty());
        let paper = figure("paper = 2.0\nat_most = 1.0");
        for (gap, seeds) in [(2.0, &[2.0; 6][..]), (3.0, &[3.0; 6]), (1.0, &[])] {
            tally.add(&paper, &row(&paper, gap, seeds));
        }
        tally.add(&paper, &paper.row(&[]));
        assert_eq!(
            tally.to_string(),
            "agrees in 1; differs in 1; no interval in 1, -50.0 % (of 3 figures); reaches 1 of 4 bars; 1 did not come out"
        );
        assert_eq!(tally.verdict().tone, Tone::Unsure);
        let mut check = models::checks("ConClone").swap_remove(0);
        let mut tally = Tally::default();
        tally.add_check(&check, None);
        assert_eq!(tally.verdict(), Verdict::new("agrees in 1 (of one figure)", Tone::Good));
        check.agrees = false;
        tally.add_check(&check, None);
        assert_eq!(tally.verdict().tone, Tone::Unsure);
    }
}
