//! Every figure and table of the papers beside ours: `experiments/papers.toml`, and what is made of
//! it and of the records, which is a page (`fulmar-lab report --html DIR`) and a list.
//!
//! ```text
//! mod      papers.toml: what there is, and what shows it
//! shelf    the records, and what is kept of their runs
//! verdict  what is to be said of a figure and of an item: computed from these
//! claim    what we claim, judged
//! item     an item's table: the paper, theory, ours in both lives, the kernel's own, others
//! page     all of it as one page; shown.rs an item, html.rs elements, data.rs what can be taken home
//! list     all of it as a list for a reader of the repository
//! tables   the tables of the READMEs, of whole results
//! ```
//! Nothing is run here, and nothing is typed that could be computed: prose says what a paper says,
//! and why something is as it is, never whether it agrees.

mod claim;
mod data;
#[cfg(any(test, fuzzing))]
mod fuzzed;
mod html;
mod item;
mod list;
mod page;
mod shelf;
mod shown;
mod tables;
mod verdict;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::ReportArgs;
use super::kept::Kept;
use crate::whole_file;
#[cfg(any(test, fuzzing))]
pub(crate) use fuzzed::try_page;
use shelf::Shelf;
use sys::print::tell;

/// What the page is called in its folder.
const PAGE: &str = "index.html";

/// The file: what the papers have, and what we claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Papers {
    better: Better,
    #[serde(default)]
    claim: Vec<Claim>,
    paper: Vec<Paper>,
}

/// Which way figures are better; one that is in neither list is to be near the paper's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Better {
    lower: Vec<String>,
    higher: Vec<String>,
}

/// What we claim, in one figure of a record.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    says: String,
    record: PathBuf,
    scheme: String,
    #[serde(default)]
    point: Map<String, Value>,
    key: String,
    beside: Option<Beside>,
}

/// Who is set beside it: schemes of the same record, at the same point.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    schemes: Vec<String>,
    /// Their key, where it is not that of the claim.
    key: Option<String>,
}

/// A paper, with every numbered figure and table of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Paper {
    /// Its key in PAPERS.md.
    key: String,
    /// The folder of its records.
    folder: String,
    figures: u32,
    tables: u32,
    item: Vec<Item>,
    /// What it claims besides.
    #[serde(default)]
    beside: Vec<Item>,
}

/// A figure or table of a paper, or something else that it claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    /// As the paper numbers it: `Fig. 5`, `Table 1`, `Table I`.
    name: String,
    title: String,
    /// What the paper says, in our words.
    #[serde(default)]
    says: String,
    #[serde(default)]
    shows: Vec<Shows>,
    /// Sources of the model's comparisons with what the paper prints.
    #[serde(default)]
    checks: Vec<String>,
    /// Why these agree by construction.
    fitted: Option<String>,
    #[serde(default)]
    theory: Vec<Theory>,
    /// Parts of a point that rows do not differ in.
    #[serde(default)]
    same: Vec<String>,
    #[serde(default)]
    pictures: Vec<PathBuf>,
    /// Tables beside the records.
    #[serde(default)]
    data: Vec<PathBuf>,
    /// What makes pictures and checks.
    made_by: Option<String>,
    /// Why nothing shows it.
    why_not: Option<String>,
    /// What is to be known beside.
    #[serde(default)]
    note: String,
}

/// A record that shows an item, and which of its figures do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shows {
    record: PathBuf,
    /// All unless said.
    keys: Option<Vec<String>>,
    schemes: Option<Vec<String>>,
    /// What tells it from the other records of the item.
    #[serde(default)]
    setting: String,
}

/// What an equation gives for a figure of a record.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Theory {
    /// Which of the model's comparisons, by what it is of.
    check: String,
    key: String,
    /// The paper's scheme.
    of: String,
}

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Lower,
    Higher,
    /// The nearer to the paper's, the better.
    Near,
}

/// Makes the page, the list or both, and runs nothing.
///
/// # Errors
/// Names what cannot be read or written.
pub(super) fn write(args: &ReportArgs) -> Result<(), String> {
    let file = &args.papers;
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("read {}: {error}", file.display()))?;
    let papers = Papers::of_text(&file.display().to_string(), &text)?;
    let folder = folder_of(file);
    let kept = match &args.resume {
        // One that is not there holds nothing; opening would make it.
        Some(directory) if directory.is_dir() => Some(Kept::open(directory)?),
        _ => None,
    };
    let shelf = Shelf::open(folder, kept.as_ref());
    if let Some(directory) = &args.html {
        let page = page::page(&papers, &shelf);
        let place = directory.join(PAGE);
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("--html: make {}: {error}", directory.display()))?;
        whole_file::write(&place, page.as_bytes()).map_err(|why| format!("--html: {why}"))?;
        tell(format_args!("{}: {} kB, nothing was run", place.display(), page.len() / 1000));
    }
    // What these say is to be the same for everybody who has the same files.
    let recorded = Shelf::open(folder, None);
    if let Some(place) = &args.list {
        let list = list::list(&papers, &recorded);
        whole_file::write(place, list.as_bytes()).map_err(|why| format!("--list: {why}"))?;
    }
    if let Some(place) = &args.claims {
        let name = place.display();
        let text = std::fs::read_to_string(place)
            .map_err(|error| format!("--claims: read {name}: {error}"))?;
        let text = list::with_claims(&text, &papers, &recorded)
            .map_err(|why| format!("--claims: {name}: {why}"))?;
        whole_file::write(place, text.as_bytes()).map_err(|why| format!("--claims: {why}"))?;
        write_tables(folder).map_err(|why| format!("--claims: {why}"))?;
    }
    Ok(())
}

/// Returns the folder whose folders have the records.
pub(super) fn folder_of(papers: &Path) -> &Path {
    let folder = papers.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Returns every record in the folders of a folder, in the order of their paths.
pub(super) fn records(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
        all.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let folders = entries(folder).into_iter().filter(|path| path.is_dir());
    let files = folders.flat_map(|inner| entries(&inner));
    let is_record = |path: &PathBuf| path.extension().is_some_and(|end| end == "toml");
    let mut records: Vec<PathBuf> = files.filter(is_record).collect();
    records.sort_unstable();
    records
}

/// Writes the tables of the READMEs beside the records anew, where they are not those of the
/// results.
///
/// # Errors
/// Names the README, and what cannot be written.
fn write_tables(folder: &Path) -> Result<(), String> {
    for readme in tables::readmes(folder) {
        let name = readme.display();
        let text = std::fs::read_to_string(&readme).map_err(|why| format!("read {name}: {why}"))?;
        let written = tables::with_rows(&text, |record| tables::results_beside(&readme, record))
            .map_err(|why| format!("{name}: {why}"))?;
        if written != text {
            whole_file::write(&readme, written.as_bytes())?;
            tell(format_args!("{name}: its tables were those of other results"));
        }
    }
    Ok(())
}

impl Papers {
    /// Reads the file.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    fn of_text(name: &str, text: &str) -> Result<Self, String> {
        let papers: Self = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        for paper in &papers.paper {
            for item in paper.item.iter().chain(&paper.beside) {
                if let Some(what) = item.fault() {
                    return Err(format!("{name}: {} {}: {what}", paper.key, item.name));
                }
            }
            let lacking = paper.lacking();
            if !lacking.is_empty() {
                let lacking = lacking.join(", ");
                return Err(format!("{name}: {}: no item is called {lacking}", paper.key));
            }
        }
        Ok(papers)
    }

    /// Says which way a figure is better.
    fn way(&self, key: &str) -> Way {
        let is_in = |list: &[String]| list.iter().any(|one| one == key);
        match (is_in(&self.better.lower), is_in(&self.better.higher)) {
            (true, _) => Way::Lower,
            (_, true) => Way::Higher,
            _ => Way::Near,
        }
    }
}

impl Paper {
    /// Names what the paper numbers and the file does not have.
    fn lacking(&self) -> Vec<String> {
        let figures = (1..=self.figures).map(|n| format!("Fig. {n}"));
        let all = figures.chain((1..=self.tables).map(|n| format!("Table {n}")));
        let is_there = |name: &String| {
            self.item.iter().any(|item| item.name.replace("Table I", "Table 1") == *name)
        };
        all.filter(|name| !is_there(name)).collect()
    }
}

impl Item {
    /// Says what is wrong with it.
    fn fault(&self) -> Option<&'static str> {
        let is_shown =
            !self.shows.is_empty() || !self.checks.is_empty() || !self.pictures.is_empty();
        let is_empty = |words: &String| words.trim().is_empty();
        match &self.why_not {
            Some(why) if is_shown || is_empty(why) => {
                Some("`why_not` says why nothing shows it, and goes alone")
            }
            None if !is_shown && self.made_by.is_none() => Some(
                "says neither what shows it (`shows`, `checks`, `pictures`) nor why nothing does (`why_not`)",
            ),
            _ if self.fitted.is_some() && self.checks.is_empty() => {
                Some("`fitted` says why `checks` agree by construction")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
