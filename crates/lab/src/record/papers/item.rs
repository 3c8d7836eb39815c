//! An item's table: the paper, theory, ours in both lives, the kernel's own and others, side by
//! side, a row for each figure and point.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::shelf::{Shelf, Told};
use super::verdict::{Tally, Tone, Verdict, number};
use super::{Item, Paper, Papers, Way};
use crate::experiment::Experiment;
use crate::record::row::Row;
use crate::record::{Figure, PaperIs};
use crate::report::Mode;
use models::Check;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Paper,
    Theory,
    Sim,
    Emu,
    Kernel,
    Others,
}

/// An item with all that is known of it.
pub(super) struct Known<'a> {
    pub(super) paper: &'a Paper,
    pub(super) item: &'a Item,
    /// Whether it is none of those that the paper numbers.
    pub(super) is_beside: bool,
    pub(super) checks: Vec<Check>,
    pub(super) rows: Vec<TableRow<'a>>,
    /// The records that show it, once each.
    pub(super) records: Vec<(&'a Path, &'a Told)>,
    /// What was asked for and is not there.
    pub(super) faults: Vec<String>,
    pub(super) verdict: Verdict,
}

/// A figure at a point, of everybody who has it.
pub(super) struct TableRow<'a> {
    pub(super) key: &'a str,
    /// The title that the experiment gives it.
    pub(super) title: String,
    pub(super) point: String,
    /// What the paper prints, and of which of its schemes.
    pub(super) paper: Vec<(String, String)>,
    pub(super) theory: Vec<(String, String)>,
    pub(super) values: Vec<Measured<'a>>,
}

/// A figure of one scheme.
pub(super) struct Measured<'a> {
    pub(super) column: Column,
    pub(super) record: &'a Path,
    pub(super) setting: &'a str,
    pub(super) mode: Mode,
    pub(super) figure: &'a Figure,
    pub(super) row: &'a Row,
    pub(super) verdicts: Vec<Verdict>,
}

impl Column {
    pub(super) const ALL: [Self; 6] =
        [Self::Paper, Self::Theory, Self::Sim, Self::Emu, Self::Kernel, Self::Others];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Paper => "the paper",
            Self::Theory => "theory",
            Self::Sim => "ours, virtual time",
            Self::Emu => "ours, on the kernel",
            Self::Kernel => "the kernel's own",
            Self::Others => "others",
        }
    }

    /// Says why a cell of it is empty.
    pub(super) const fn why_empty(self) -> &'static str {
        match self {
            Self::Paper => "prints no figure",
            Self::Theory => "no equation",
            Self::Sim => "in no record of virtual time",
            Self::Emu => "in no record of real time",
            Self::Kernel => "not run beside it",
            Self::Others => "nobody else beside it",
        }
    }

    /// Tells where a scheme belongs. What the papers publish and we have built is ours.
    pub(super) fn of(scheme: &str, mode: Mode) -> Self {
        const BUILT: [&str; 5] = ["fulmar", "flowcode", "lrt", "conclone_tcp", "asran"];
        // One TCP under a congestion control: the kernel's in real time, a model of it otherwise.
        const FLOWS: [&str; 3] = ["cubic", "reno", "bbr"];
        let is_built = BUILT.iter().any(|own| scheme.starts_with(own));
        match mode {
            _ if scheme.starts_with("kernel_") => Self::Kernel,
            Mode::Emu if FLOWS.contains(&scheme) => Self::Kernel,
            Mode::Sim if is_built => Self::Sim,
            Mode::Emu if is_built => Self::Emu,
            _ => Self::Others,
        }
    }
}

impl<'a> Known<'a> {
    /// Gathers what is known of an item.
    pub(super) fn of(
        papers: &'a Papers,
        paper: &'a Paper,
        item: &'a Item,
        shelf: &'a Shelf,
    ) -> Self {
        let all = models::checks(&paper.key);
        let is_asked = |check: &Check| item.checks.iter().any(|source| *source == check.source);
        let mut known = Self {
            paper,
            item,
            is_beside: !paper.item.iter().any(|own| std::ptr::eq(own, item)),
            checks: all.iter().filter(|check| is_asked(check)).cloned().collect(),
            rows: Vec::new(),
            records: Vec::new(),
            faults: Vec::new(),
            verdict: Verdict::new("", Tone::Silent),
        };
        for source in &item.checks {
            if !known.checks.iter().any(|check| check.source == source) {
                known.faults.push(format!("the model compares nothing with {source:?}"));
            }
        }
        for number in 0..item.shows.len() {
            known.show(number, shelf);
        }
        known.rank(papers);
        known.add_theory(&all);
        known.verdict = known.judge();
        known
    }

    /// Tells whether a column has anything.
    pub(super) fn has(&self, column: Column) -> bool {
        self.rows.iter().any(|row| row.has(column))
    }

    /// Adds what a record shows.
    fn show(&mut self, number: usize, shelf: &'a Shelf) {
        let shows = &self.item.shows[number];
        let path: &Path = &shows.record;
        let told = match shelf.get(path) {
            Ok(told) => told,
            Err(why) => return self.faults.push(why),
        };
        if !self.records.iter().any(|(known, _)| *known == path) {
            self.records.push((path, told));
        }
        let is_in = |asked: &Option<Vec<String>>, name: &String| {
            asked.as_ref().is_none_or(|names| names.contains(name))
        };
        let asked = [(&shows.keys, "key"), (&shows.schemes, "scheme")];
        for (what, name) in asked
            .iter()
            .flat_map(|(names, what)| names.iter().flatten().map(move |name| (*what, name)))
        {
            let is_there = |(figure, _): (&Figure, &Row)| match what {
                "key" => figure.key == *name,
                _ => figure.scheme == *name,
            };
            if !told.figures().any(is_there) {
                self.faults
                    .push(format!("{}: has no figure with the {what} {name}", path.display()));
            }
        }
        for (figure, row) in told.figures() {
            if is_in(&shows.keys, &figure.key) && is_in(&shows.schemes, &figure.scheme) {
                self.add(path, told, &shows.setting, (figure, row));
            }
        }
    }

    /// Adds a figure to its row, which is made where there is none.
    fn add(
        &mut self,
        record: &'a Path,
        told: &'a Told,
        setting: &'a str,
        (figure, row): (&'a Figure, &'a Row),
    ) {
        let point = self.point(figure);
        let is_row = |one: &TableRow<'_>| one.key == figure.key && one.point == point;
        let place = self.rows.iter().position(is_row).unwrap_or_else(|| {
            let title = title(told, &figure.key);
            let (key, none) = (&figure.key[..], Vec::new);
            let values = Vec::new();
            self.rows.push(TableRow { key, title, point, paper: none(), theory: none(), values });
            self.rows.len() - 1
        });
        let beside = &mut self.rows[place];
        if let Some(paper) = figure.paper {
            let is = match figure.paper_is {
                PaperIs::Measured => "",
                PaperIs::Exceeded => "over ",
                PaperIs::Undercut => "under ",
            };
            let of = row.paper_scheme.clone().unwrap_or_else(|| figure.scheme.clone());
            let printed = (format!("{is}{}", number(paper)), of);
            if !beside.paper.contains(&printed) {
                beside.paper.push(printed);
            }
        }
        let verdicts = [Verdict::beside_paper(row), Verdict::of_bar(figure, row)];
        let (mode, verdicts) = (told.mode, verdicts.into_iter().flatten().collect());
        let column = Column::of(&figure.scheme, mode);
        beside.values.push(Measured { column, record, setting, mode, figure, row, verdicts });
    }

    fn point(&self, figure: &Figure) -> String {
        let counts = |(key, _): &(&String, &Value)| !self.item.same.contains(key);
        let shown = |(key, value): (&String, &Value)| match value {
            Value::String(text) => format!("{key} {text}"),
            value => format!("{key} {value}"),
        };
        let parts: Vec<String> = figure.point.iter().filter(counts).map(shown).collect();
        parts.join(", ")
    }

    /// Says of our own figures whether they are ahead of the kernel's in the same run.
    fn rank(&mut self, papers: &Papers) {
        for row in &mut self.rows {
            let way = papers.way(row.key);
            if way == Way::Near {
                continue;
            }
            let kernels: Vec<(PathBuf, &Row)> = row
                .values
                .iter()
                .filter(|value| value.figure.scheme.starts_with("kernel_"))
                .map(|value| (value.record.to_owned(), value.row))
                .collect();
            // The published forms are held against their papers, ours against the kernel.
            let ours = |value: &&mut Measured<'_>| value.figure.scheme.starts_with("fulmar");
            for value in row.values.iter_mut().filter(ours) {
                let beside = kernels.iter().filter(|(record, _)| record == value.record);
                let ranks =
                    beside.filter_map(|(_, kernel)| Verdict::of_rank(way, value.row, kernel));
                value.verdicts.extend(ranks);
            }
        }
    }

    /// Adds what equations give to the rows that have such a figure.
    fn add_theory(&mut self, checks: &[Check]) {
        for theory in &self.item.theory {
            let Some(check) = checks.iter().find(|check| check.what == theory.check) else {
                self.faults.push(format!("the model compares nothing called {:?}", theory.check));
                continue;
            };
            let Some(row) = self.rows.iter_mut().find(|row| row.key == theory.key) else {
                self.faults.push(format!("theory for {}, which no record here has", theory.key));
                continue;
            };
            let printed = check.paper.filter(|_| !check.agrees);
            let printed = printed.map(|paper| format!("; prints {}", number(paper)));
            let words = format!("{} ({}{})", theory.of, check.source, printed.unwrap_or_default());
            row.theory.push((number(check.ours), words));
        }
    }

    fn judge(&self) -> Verdict {
        let item = self.item;
        if let Some(why) = &item.why_not {
            return Verdict::new(format!("not reproduced: {why}"), Tone::Silent);
        }
        let mut tally = Tally::default();
        for value in self.rows.iter().flat_map(|row| &row.values) {
            tally.add(value.figure, value.row);
        }
        for check in &self.checks {
            tally.add_check(check, item.fitted.as_deref());
        }
        let is_refused = |(_, told): &&(&Path, &Told)| {
            told.unvouched.iter().any(|why| why.starts_with("the audit"))
        };
        match self.records.iter().find(is_refused) {
            Some((path, told)) => {
                let why = told.unvouched.first().map_or("", |why| &why[..]);
                Verdict::new(format!("not vouched for: {}: {why}", path.display()), Tone::Bad)
            }
            None if !tally.is_empty() => tally.verdict(),
            None => match self.faults.first() {
                Some(why) => Verdict::new(format!("not vouched for: {why}"), Tone::Bad),
                None if !self.checks.is_empty() => {
                    Verdict::new("computed; the paper prints no figure of it", Tone::Silent)
                }
                None if !self.rows.is_empty() => {
                    Verdict::new("measured; the paper prints no figure of it", Tone::Silent)
                }
                None if !item.pictures.is_empty() => {
                    Verdict::new("drawn; the paper prints no figure of it", Tone::Silent)
                }
                None => Verdict::new("no figure: see the command", Tone::Silent),
            },
        }
    }
}

impl TableRow<'_> {
    pub(super) fn has(&self, column: Column) -> bool {
        match column {
            Column::Paper => !self.paper.is_empty(),
            Column::Theory => !self.theory.is_empty(),
            _ => self.values.iter().any(|value| value.column == column),
        }
    }
}

/// Returns the title that an experiment gives a figure; its key where it gives none.
fn title(told: &Told, key: &str) -> String {
    let is_it = |experiment: &str| told.record.run.first().is_some_and(|run| run == experiment);
    let known = Experiment::ALL.iter().find(|known| is_it(known.experiment));
    let column = known.and_then(|known| known.columns().into_iter().find(|(path, _)| path == key));
    column.map_or_else(String::new, |(_, title)| title)
}
