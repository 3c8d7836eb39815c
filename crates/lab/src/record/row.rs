//! A figure that came, beside the paper's, beside the file's, and beside what it must reach.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Figure, Outcome, PaperIs, Record};
use crate::doubt::Doubtful;
use crate::report::{Mode, field, rounded};
use crate::statistics::{median, median_interval};

/// What is said of a figure whose interval holds the paper's, of one whose does not, and of one
/// whose holds as well that there is nothing in it; and of one that says that none of it tells.
pub(super) const AGREES: &str = "agrees";
pub(super) const DIFFERS: &str = "differs";
pub(super) const UNDECIDED: &str = "not decided";
pub(super) const NOT_TESTABLE: &str = "not testable";
/// What is added where one figure is all there is.
pub(super) const NO_INTERVAL: &str = ", no interval";

/// A figure measured anew.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) scheme: String,
    pub(super) key: String,
    pub(super) paper: Option<f64>,
    /// What the paper calls the scheme that this is of.
    pub(super) paper_scheme: Option<String>,
    pub(super) recorded: Option<f64>,
    pub(super) now: Option<f64>,
    /// By how much that may be wrong.
    pub(super) error: f64,
    pub(super) must: String,
    pub(super) met: bool,
    /// Why it is known not to be.
    pub(super) unreached: Option<String>,
    /// Whether the error could turn the verdict over.
    pub(super) in_doubt: bool,
    /// What is compared with the paper's: the figure or, where the experiment gives it no interval,
    /// the seeds' median, which is not that of what they have together.
    pub(super) compared: Option<f64>,
    /// Between which values that lies with 95 % confidence; none below six seeds.
    pub(super) interval: Option<(f64, f64)>,
    /// Whether it agrees with the paper's.
    pub(super) verdict: String,
    /// Why it does not, or cannot.
    pub(super) why: Option<String>,
    /// Whether it is another one than the file's, in virtual time, which is exact.
    pub(super) drifted: bool,
}

/// Where a figure lies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    ends: (f64, f64),
    /// What lies there: the figure itself, or the median of the seeds, which is not that of what
    /// they have together.
    of: f64,
}

impl Record {
    /// Sets the figures of a run beside the recorded ones; those of a part, which are others,
    /// beside the paper's alone.
    pub(super) fn rows(&self, outcome: &Outcome, is_part: bool) -> Vec<Row> {
        let row = |figure: &Figure| {
            let row = figure.row(&outcome.results);
            let drifted = outcome.mode == Mode::Sim
                && row.recorded.zip(row.now).is_some_and(|(then, now)| !is_same(then, now));
            let paper_scheme = row.paper.and(self.paper_schemes.get(&row.scheme)).cloned();
            Row { drifted, paper_scheme, ..row }
        };
        let all = self.figure.iter().map(row);
        if !is_part {
            return all.collect();
        }
        let of_part = |row: Row| {
            let met = row.now.is_some();
            let (must, recorded, unreached) = (String::new(), None, None);
            Row { recorded, must, met, unreached, in_doubt: false, drifted: false, ..row }
        };
        // It may be of some schemes alone; where it is of none, that is to be seen.
        let (came, lacking): (Vec<Row>, Vec<Row>) = all.map(of_part).partition(|row| row.met);
        if came.is_empty() { lacking } else { came }
    }
}

impl Record {
    /// Returns the figures as the file has them, where nothing else is kept of the run: without an
    /// interval.
    pub(super) fn own_rows(&self) -> Vec<Row> {
        let row = |figure: &Figure| {
            let mut result = figure.point.clone();
            result.insert("scheme".to_owned(), json!(figure.scheme));
            result.insert(figure.key.clone(), json!(figure.ours));
            let row = figure.row(&[Value::Object(result)]);
            let paper_scheme = row.paper.and(self.paper_schemes.get(&row.scheme)).cloned();
            Row { paper_scheme, ..row }
        };
        self.figure.iter().map(row).collect()
    }
}

impl Row {
    /// Tells whether it does not reach what it must, and that is known.
    pub(super) fn is_unreached(&self) -> bool {
        !self.met && self.now.is_some() && self.unreached.is_some()
    }

    /// Tells whether it is not as its file has it: it does not reach what it must, or does although
    /// the file says otherwise.
    pub(super) fn is_missed(&self) -> bool {
        !self.is_unreached() && (!self.met || self.unreached.is_some())
    }
}

impl Figure {
    /// Finds the figure among results, and says what is to be said of it.
    pub(super) fn row(&self, results: &[Value]) -> Row {
        let matches = |result: &&Value| {
            result["scheme"] == json!(self.scheme)
                && self.point.iter().all(|(key, value)| result[key] == *value)
        };
        let figure =
            results.iter().find(matches).and_then(|result| Doubtful::of(result, &self.key));
        let (now, error) = figure.map_or((None, 0.0), |f| (Some(f.value), f.error));
        let interval = results.iter().find(matches).and_then(|result| self.interval(result));
        let within = |now: f64| {
            self.at_most.is_none_or(|limit| now <= limit)
                && self.at_least.is_none_or(|limit| now >= limit)
        };
        let must = [(self.at_most, "≤"), (self.at_least, "≥")];
        let must = must.iter().filter_map(|(limit, sign)| Some(format!("{sign} {}", (*limit)?)));
        let of_point = |(key, value): (&String, &Value)| match value {
            Value::String(text) => text.clone(),
            value => format!("{key}={value}"),
        };
        let point: Vec<String> = self.point.iter().map(of_point).collect();
        let verdict = match self.paper.zip(now) {
            _ if self.not_testable.is_some() => NOT_TESTABLE.to_owned(),
            Some((paper, now)) => self.verdict(paper, now, interval),
            None => String::new(),
        };
        let is_off = ![AGREES, UNDECIDED, ""].contains(&&verdict[..]);
        let why = self.not_testable.as_ref().or(self.why.as_ref()).filter(|_| is_off).cloned();
        Row {
            scheme: self.scheme.clone(),
            key: [point, vec![self.key.clone()]].concat().join(" "),
            paper: self.paper,
            paper_scheme: None,
            recorded: self.ours,
            now,
            must: must.collect::<Vec<_>>().join(", "),
            error,
            met: now.is_some_and(within),
            unreached: self.unreached.clone(),
            in_doubt: now.is_some_and(|now| within(now - error) != within(now + error)),
            drifted: false,
            compared: interval.map(|interval| rounded(interval.of, 6)),
            interval: interval.map(|interval| interval.ends),
            verdict,
            why,
        }
    }

    /// Returns between which values the figure lies: as the experiment says, or from those of the
    /// seeds or repetitions.
    fn interval(&self, result: &Value) -> Option<Interval> {
        let told = field(result, &format!("{}_interval", self.key)).as_array();
        if let Some([low, high]) = told.map(Vec::as_slice) {
            let ends = low.as_f64().zip(high.as_f64())?;
            return Some(Interval { ends, of: Doubtful::of(result, &self.key)?.value });
        }
        let seeds = ["by_seed", "by_repetition"].iter().find_map(|key| result[*key].as_array())?;
        let figures = seeds.iter().map(|seed| Some(Doubtful::of(seed, &self.key)?.value));
        let figures = figures.collect::<Option<Vec<f64>>>()?;
        Some(Interval { ends: median_interval(&figures)?, of: median(&figures)? })
    }

    /// Says whether a figure is the paper's, or on the side of it that the paper says. One figure
    /// without an interval tells how far off it is, and no more.
    fn verdict(&self, paper: f64, now: f64, interval: Option<Interval>) -> String {
        let Some(Interval { ends: (low, high), of }) = interval else {
            let is_beyond = match self.paper_is {
                PaperIs::Measured => return format!("{}{NO_INTERVAL}", self.off(paper, now)),
                PaperIs::Exceeded => now > paper,
                PaperIs::Undercut => now < paper,
            };
            let side = if self.paper_is == PaperIs::Exceeded { "over" } else { "under" };
            return if is_beyond {
                format!("{side}{NO_INTERVAL}")
            } else {
                format!("not {side}: {}{NO_INTERVAL}", self.off(paper, now))
            };
        };
        let holds = |value: f64| (low..=high).contains(&value);
        let is_claimed = match self.paper_is {
            PaperIs::Measured => false,
            PaperIs::Exceeded => low > paper,
            PaperIs::Undercut => high < paper,
        };
        match holds(paper) {
            _ if is_claimed => AGREES.to_owned(),
            true if self.no_effect.is_some_and(holds) => UNDECIDED.to_owned(),
            true if self.paper_is != PaperIs::Measured => UNDECIDED.to_owned(),
            true => AGREES.to_owned(),
            false => format!("{DIFFERS}: {}", self.off(paper, of)),
        }
    }

    /// Says how far off a figure is; of an effect, whether it is the reverse of the paper's.
    fn off(&self, paper: f64, now: f64) -> String {
        match self.no_effect {
            Some(none) if (paper - none) * (now - none) < 0.0 => {
                format!("reversed, {:+.3}", now - none)
            }
            Some(none) => format!("{:+.3} for {:+.3}", now - none, paper - none),
            None if paper == 0.0 => format!("{now:+.3}"),
            None => format!("{:+.1} %", (now / paper - 1.0) * 100.0),
        }
    }
}

/// Tells whether two figures are the same but for how they are written.
pub(super) fn is_same(then: f64, now: f64) -> bool {
    (then - now).abs() <= 1e-9 * then.abs().max(now.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_find_their_point_and_their_verdict() {
        let text = "scheme = \"udp\"\nkey = \"up.lost\"\nat_most = 3\npoint = { links = \"two\" }";
        let figure: Figure = toml::from_str(text).expect("a sound figure");
        let result = |links, lost| json!({"scheme": "udp", "links": links, "up": {"lost": lost}});
        let row = figure.row(&[result("one", 9), result("two", 2)]);
        assert_eq!((row.now, row.met, row.must.as_str()), (Some(2.0), true, "≤ 3"));
        assert!(!figure.row(&[result("two", 4)]).met);
        assert!(!figure.row(&[]).met, "a figure that is missing is not met");
        let mut stalled = result("two", 4);
        stalled["up"]["error"] = json!({"lost": 2});
        let row = figure.row(&[stalled]);
        assert!(!row.met && row.in_doubt && row.error == 2.0, "{row:?}");
        let mut stalled = result("two", 3);
        stalled["up"]["error"] = json!({"lost": 1});
        assert!(figure.row(&[stalled]).in_doubt, "met as seen, and not within the error");
        let known = Figure { unreached: Some("a hair".to_owned()), ..figure.clone() };
        let known = |lost| known.row(&[result("two", lost)]);
        assert!(known(4).is_unreached() && !known(4).is_missed(), "as the file has it");
        assert!(known(3).is_missed() && !known(3).is_unreached(), "the file is to say so no more");
        let text = "scheme = \"udp\"\nkey = \"lost\"\npoint = { rtt_ms = 60.0 }";
        let figure: Figure = toml::from_str(text).expect("a sound figure");
        assert_eq!(figure.row(&[]).key, "rtt_ms=60.0 lost");
    }

    #[test]
    fn verdicts_go_by_the_interval() {
        let text = "scheme = \"tcp\"\nkey = \"s\"\npaper = 68.0\nno_effect = 65.0";
        let figure: Figure = toml::from_str(text).expect("a sound figure");
        let of = |first: i32, name: &str| {
            let seeds: Vec<Value> = (first..first + 20).map(|s| json!({"s": s})).collect();
            figure.row(&[json!({"scheme": "tcp", "s": first + 10, name: seeds})])
        };
        let (near, far) = (of(61, "by_seed"), of(70, "by_repetition"));
        assert_eq!((near.interval, near.verdict.as_str()), (Some((66.0, 75.0)), AGREES));
        assert_eq!(far.verdict, "differs: +14.500 for +3.000", "the median of 70 to 89");
        assert_eq!(of(60, "by_seed").verdict, UNDECIDED, "it may be nothing");
        assert_eq!(of(30, "by_seed").verdict, "differs: reversed, -25.500");
        let figure = Figure { no_effect: None, ..figure };
        let claim = |paper_is, first| {
            let seeds: Vec<Value> = (first..first + 20).map(|s| json!({"s": s})).collect();
            let figure = Figure { paper_is, ..figure.clone() };
            figure.row(&[json!({"scheme": "tcp", "s": first + 10, "by_seed": seeds})]).verdict
        };
        assert_eq!(claim(PaperIs::Exceeded, 70), AGREES);
        assert_eq!(claim(PaperIs::Exceeded, 61), UNDECIDED, "some are more, some are less");
        assert_eq!(claim(PaperIs::Undercut, 70), "differs: +16.9 %");
        assert_eq!(claim(PaperIs::Undercut, 40), AGREES);
        let alone = |paper_is, s: f64| {
            let figure = Figure { paper_is, ..figure.clone() };
            figure.row(&[json!({"scheme": "tcp", "s": s})]).verdict
        };
        assert_eq!(alone(PaperIs::Exceeded, 70.0), "over, no interval");
        assert_eq!(alone(PaperIs::Exceeded, 34.0), "not over: -50.0 %, no interval");
        assert_eq!(alone(PaperIs::Undercut, 34.0), "under, no interval");
        let single = figure.row(&[json!({"scheme": "tcp", "s": 68})]);
        assert_eq!(single.verdict, "+0.0 %, no interval");
        let pooled = json!({"scheme": "tcp", "s": 99, "by_seed": vec![json!({"s": 34.0}); 6]});
        let row = figure.row(&[pooled]);
        assert_eq!((row.now, row.compared), (Some(99.0), Some(34.0)), "what the interval is of");
        assert_eq!(row.verdict, "differs: -50.0 %", "of that as well");
        let told = json!({"scheme": "tcp", "s": 70, "s_interval": [67.5, 72.0], "by_seed": []});
        assert_eq!(figure.row(&[told]).interval, Some((67.5, 72.0)), "as the experiment says");
    }

    #[test]
    fn reasons_stand_where_there_is_something_to_be_explained() {
        let text = "title = \"t\"\nsource = \"s\"\nrun = [\"x\"]\npaper_schemes = { tcp = \"MPTCP\" }\n\
                    [[figure]]\nscheme = \"tcp\"\nkey = \"s\"\npaper = 68.0\nwhy = \"one link\"\n\
                    [[figure]]\nscheme = \"tcp\"\nkey = \"s\"\nnot_testable = \"a fit\"";
        let record: Record = toml::from_str(text).expect("a sound record");
        let of = |s: f64| {
            let result = json!({"scheme": "tcp", "s": s, "s_interval": [s - 1.0, s + 1.0]});
            let rows = record.rows(&Outcome::sound(Mode::Emu, vec![result]), false);
            let [one, fit] = <[Row; 2]>::try_from(rows).expect("two figures");
            assert_eq!((&fit.verdict[..], fit.why.as_deref()), (NOT_TESTABLE, Some("a fit")));
            assert_eq!((one.paper_scheme.as_deref(), fit.paper_scheme), (Some("MPTCP"), None));
            (one.verdict, one.why)
        };
        assert_eq!(of(34.0), ("differs: -50.0 %".to_owned(), Some("one link".to_owned())));
        assert_eq!(of(68.0), (AGREES.to_owned(), None));
    }

    #[test]
    fn a_part_has_verdicts_alone() {
        let text = "title = \"t\"\nsource = \"s\"\nrun = [\"x\"]\nquick = [\"y\"]\n[[figure]]\nscheme = \"tcp\"\n\
                    key = \"s\"\npaper = 68.0\nours = 1.0\nat_most = 1.0";
        let record: Record = toml::from_str(text).expect("a sound record");
        assert_eq!(
            (record.words(true), record.words(false)),
            (&["y".to_owned()][..], &["x".to_owned()][..])
        );
        let outcome = Outcome::sound(Mode::Sim, vec![json!({"scheme": "tcp", "s": 70})]);
        let [part] = &record.rows(&outcome, true)[..] else { panic!("one figure") };
        assert_eq!(
            (part.met, part.drifted, part.recorded, part.must.as_str()),
            (true, false, None, "")
        );
        assert_eq!(part.verdict, "+2.9 %, no interval");
        let [whole] = &record.rows(&outcome, false)[..] else { panic!("one figure") };
        assert!(!whole.met && whole.drifted);
        let none = Outcome { results: Vec::new(), ..outcome };
        assert!(
            record.rows(&none, true).iter().all(|row| !row.met),
            "a part that has nothing is not met"
        );
    }
}
