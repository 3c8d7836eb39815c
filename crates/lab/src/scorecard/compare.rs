//! What moved between two cards, and where we are behind.
//!
//! ```text
//! moved    |median now − median then| > the wider span of the seeds, and > a hair (figures)
//! behind   an opponent's median is better than ours by more than both spans and a hair, in the
//!          same place
//! ```
//! An opponent that misses more control in that place is ahead in nothing there but misses and
//! bytes; bytes are set against those of plain copies alone.

use serde_json::{Value, json};

use super::card::{Card, Cell, Key, Summary, is_ours};
use super::figures::{Better, Figure, MISSED, Rivals};
use super::scenes;
use crate::scheme::Scheme;

/// Who stands beside us: plain copies first.
const RIVALS: [Scheme; 3] = [Scheme::REDUNDANT, Scheme::MIN_RTT, Scheme::UDP];

/// A cell that is another than it was.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) key: Key,
    pub(super) then: Summary,
    pub(super) now: Summary,
    pub(super) verdict: Verdict,
}

/// What is to be thought of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Better,
    Worse,
    /// Of an opponent, who is neither.
    Other,
    /// Within the seeds' span, or a hair.
    Within,
}

impl Verdict {
    /// Returns the word for tables.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::Other => "moved",
            Self::Within => "within",
        }
    }
}

/// Two cards beside each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Difference {
    /// Cells that have another value with any seed.
    pub(super) differing: Vec<Moved>,
    /// Cells that are the same to the digit.
    pub(super) same: usize,
    /// Keys that only the new card has, and only the old one.
    pub(super) new: Vec<Key>,
    pub(super) gone: Vec<Key>,
}

/// A cell in which an opponent is better than we are.
#[derive(Clone, Debug)]
pub(super) struct Behind {
    pub(super) key: Key,
    pub(super) ours: Summary,
    pub(super) rival: Scheme,
    pub(super) theirs: Summary,
}

impl Difference {
    /// Sets a card beside what was before it.
    pub(super) fn between(then: &Card, now: &Card) -> Self {
        let (before, after) = (then.by_key(), now.by_key());
        let mut all = Self::default();
        for cell in &now.cells {
            match before.get(&cell.key) {
                None => all.new.push(cell.key.clone()),
                Some(old) if old.values == cell.values => all.same += 1,
                Some(old) => all.differing.push(moved(old, cell)),
            }
        }
        let gone = then.cells.iter().filter(|cell| !after.contains_key(&cell.key));
        all.gone = gone.map(|cell| cell.key.clone()).collect();
        all
    }

    /// Returns the cells of a verdict.
    pub(super) fn of(&self, verdict: Verdict) -> impl Iterator<Item = &Moved> {
        self.differing.iter().filter(move |moved| moved.verdict == verdict)
    }

    /// Tells whether nothing at all is another.
    pub(super) fn is_none(&self) -> bool {
        self.differing.is_empty() && self.new.is_empty() && self.gone.is_empty()
    }

    /// Counts, in a sentence.
    pub(super) fn summary(&self) -> String {
        let count = |verdict| self.of(verdict).count();
        format!(
            "{} cells are better and {} WORSE by more than the span of their seeds, {} of opponents moved, {} moved within it, \
             {} are the same; {} are new, {} are gone",
            count(Verdict::Better),
            count(Verdict::Worse),
            count(Verdict::Other),
            count(Verdict::Within),
            self.same,
            self.new.len(),
            self.gone.len(),
        )
    }

    /// Returns what moved, as one object.
    pub(super) fn to_json(&self) -> Value {
        let of = |moved: &Moved| {
            json!({
                "cell": moved.key.to_string(), "then": moved.then.to_json(), "now": moved.now.to_json(),
                "verdict": moved.verdict.word().to_lowercase(),
            })
        };
        let names = |keys: &[Key]| keys.iter().map(Key::to_string).collect::<Vec<_>>();
        json!({
            "differing": self.differing.iter().map(of).collect::<Vec<_>>(),
            "same": self.same, "new": names(&self.new), "gone": names(&self.gone),
        })
    }
}

impl Summary {
    pub(super) fn to_json(self) -> Value {
        json!({"median": self.median, "least": self.least, "most": self.most})
    }
}

impl Behind {
    /// Returns the cell and both sides, as one object.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "cell": self.key.to_string(), "ours": self.ours.to_json(),
            "rival": self.rival, "theirs": self.theirs.to_json(),
        })
    }
}

/// Returns where somebody that does nothing clever is better than we are.
pub(super) fn behind(card: &Card) -> Vec<Behind> {
    let cells = card.by_key();
    let mut all = Vec::new();
    for cell in card.cells.iter().filter(|cell| is_ours(&cell.key.scheme)) {
        let Some(figure) = figure_of(&cell.key) else { continue };
        let rivals = match figure.rivals {
            Rivals::All => &RIVALS[..],
            Rivals::Copies => &RIVALS[..1],
            Rivals::None => &[],
        };
        let ours = cell.summary();
        // What comes soon because the rest never comes is no merit.
        let misses_more = |rival: Scheme| {
            let missed = |scheme: &str| {
                cells.get(&cell.key.beside(scheme, MISSED.name)).map(|cell| cell.summary().median)
            };
            let is_more = |(theirs, ours): (f64, f64)| theirs > ours + MISSED.hair(ours);
            figure.rivals == Rivals::All
                && missed(rival.name()).zip(missed(&cell.key.scheme)).is_some_and(is_more)
        };
        let better = rivals.iter().filter_map(|rival| {
            let theirs = cells.get(&cell.key.beside(rival.name(), figure.name))?.summary();
            let is_ahead = figure.is_better(theirs.median, ours.median);
            let is_ahead = is_ahead && is_beyond(figure, ours, theirs) && !misses_more(*rival);
            is_ahead.then_some((*rival, theirs))
        });
        // The best of them speaks for all.
        let best =
            better.reduce(
                |one, other| {
                    if figure.is_better(other.1.median, one.1.median) { other } else { one }
                },
            );
        if let Some((rival, theirs)) = best {
            all.push(Behind { key: cell.key.clone(), ours, rival, theirs });
        }
    }
    all
}

/// Returns what a key's figure is; none of a card of other code that has others.
pub(super) fn figure_of(key: &Key) -> Option<&'static Figure> {
    let scene = scenes::ALL.iter().find(|scene| scene.name == key.scene)?;
    scene.figures.iter().copied().find(|figure| figure.name == key.figure)
}

fn moved(then: &Cell, now: &Cell) -> Moved {
    let (before, after) = (then.summary(), now.summary());
    let verdict = match figure_of(&now.key) {
        Some(figure) if !is_beyond(figure, before, after) => Verdict::Within,
        Some(figure) if is_ours(&now.key.scheme) => {
            match figure.is_better(after.median, before.median) {
                true => Verdict::Better,
                false => Verdict::Worse,
            }
        }
        _ => Verdict::Other,
    };
    Moved { key: now.key.clone(), then: before, now: after, verdict }
}

/// Tells whether two medians are further apart than the seeds of either, and than a hair.
fn is_beyond(figure: &Figure, one: Summary, other: Summary) -> bool {
    if one.median == other.median {
        return false;
    }
    let wanted = match figure.better {
        Better::Less => one.median.min(other.median),
        Better::More => one.median.max(other.median),
    };
    let apart = (one.median - other.median).abs();
    let span = one.span().max(other.span());
    // An infinite delay is beyond every span.
    apart > figure.hair(wanted) && (apart > span || apart.is_infinite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(cells: &[(&str, &str, [f64; 3])]) -> Card {
        let cell = |(scheme, figure, values): &(&str, &str, [f64; 3])| Cell {
            key: Key {
                scene: "blackout".to_owned(),
                point: "one".to_owned(),
                scheme: (*scheme).to_owned(),
                figure: (*figure).to_owned(),
            },
            values: values.to_vec(),
        };
        Card { seeds: (1, 3), cells: cells.iter().map(cell).collect(), skipped: Vec::new() }
    }

    #[test]
    fn a_change_counts_beyond_the_span_of_either_and_by_the_sense_of_its_figure() {
        let then = card(&[
            ("fulmar", "p99_ms", [40.0, 50.0, 60.0]),
            ("fulmar", "gap_s", [0.1, 0.1, 0.1]),
            ("fulmar", "video_pct", [90.0, 90.0, 90.0]),
            ("udp", "p99_ms", [40.0, 40.0, 40.0]),
            ("fulmar", "wire_kb", [100.0, 100.0, 100.0]),
        ]);
        let now = card(&[
            ("fulmar", "p99_ms", [60.0, 70.0, 65.0]),
            ("fulmar", "gap_s", [0.2, 0.2, 0.2]),
            ("fulmar", "video_pct", [95.0, 95.0, 95.0]),
            ("udp", "p99_ms", [80.0, 80.0, 80.0]),
            ("fulmar", "missed_pct", [0.0, 0.0, 0.0]),
        ]);
        let between = Difference::between(&then, &now);
        let verdicts: Vec<Verdict> = between.differing.iter().map(|moved| moved.verdict).collect();
        // 15 ms are within the 20 that the seeds span.
        let expected = [Verdict::Within, Verdict::Worse, Verdict::Better, Verdict::Other];
        assert_eq!(verdicts, expected);
        assert_eq!((between.new.len(), between.gone.len(), between.is_none()), (1, 1, false));
        assert!(Difference::between(&then, &then).is_none());
        let silent = card(&[("fulmar", "p99_ms", [f64::INFINITY, 50.0, f64::INFINITY])]);
        let between = Difference::between(&then, &silent);
        assert_eq!(between.differing[0].verdict, Verdict::Worse);
    }

    #[test]
    fn we_are_behind_whoever_does_nothing_clever_and_has_less_of_what_is_bad() {
        let all = behind(&card(&[
            ("fulmar", "missed_pct", [1.0, 1.0, 1.0]),
            ("redundant", "missed_pct", [0.5, 0.5, 0.5]),
            ("udp", "missed_pct", [0.2, 0.2, 0.2]),
            ("fulmar", "wire_kb", [100.0, 100.0, 100.0]),
            ("redundant", "wire_kb", [90.0, 90.0, 90.0]),
            ("udp", "wire_kb", [10.0, 10.0, 10.0]),
            ("fulmar", "video_pct", [10.0, 10.0, 10.0]),
            ("udp", "video_pct", [9.0, 9.0, 9.0]),
            ("min_rtt", "video_pct", [90.0, 90.0, 90.0]),
            ("min_rtt", "missed_pct", [2.0, 2.0, 2.0]),
            ("fulmar", "p99_ms", [9.0, 9.0, 9.0]),
            ("udp", "p99_ms", [1.0, 1.0, 1.0]),
        ]));
        let found: Vec<_> = all.iter().map(|one| (&one.key.figure[..], one.rival)).collect();
        // One path at a time has the video because it misses control.
        assert_eq!(found, [("missed_pct", Scheme::UDP), ("wire_kb", Scheme::REDUNDANT)]);
    }
}
