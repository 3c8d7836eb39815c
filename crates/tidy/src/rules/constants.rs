//! The engine has no more times, shares and rates of its own than docs/constants.md says: a new one
//! needs a cell of the scorecard that it moves, and a row there.

use super::{Finding, at_byte};
use crate::tree::{File, Tree};

/// Where the engine is.
const ENGINE: &str = "crates/proto/src/";
/// The rooms of it whose numbers were chosen here. Others have numbers of the wire, of limits and
/// of ciphers.
const ROOMS: [&str; 7] =
    ["congestion/", "delivery/", "endpoint/", "path/", "recovery/", "relay/", "schedule/"];
/// Forms with the numbers of a standard or of a paper.
const PUBLISHED: [&str; 6] =
    ["/asran", "/cubic.rs", "/delay_judge.rs", "/lrt/", "/published.rs", "/reno.rs"];
/// The page that counts them, and what stands before the number.
const PAGE: &str = "docs/constants.md";
const BEFORE: &str = "Times, shares and rates in the engine: ";

/// Compares what is there with what the page says.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else { return Vec::new() };
    let Some(at) = page.text.find(BEFORE) else {
        return vec![at_byte(page, 0, "constants", format!("no line `{BEFORE}N`"))];
    };
    let digits = page.text[at + BEFORE.len()..].split(|c: char| !c.is_ascii_digit()).next();
    let said = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let there: usize = tree.files.iter().filter(|file| counts(file)).map(constants).sum();
    if there == said {
        return Vec::new();
    }
    let text = format!(
        "there are {there}; one that is new needs a cell of the scorecard that it moves, and a row here"
    );
    vec![at_byte(page, at, "constants", text)]
}

fn counts(file: &File) -> bool {
    let Some(place) = file.path.strip_prefix(ENGINE) else { return false };
    let is_test =
        place.contains("/tests") || place.ends_with("tests.rs") || place.contains("driven");
    file.path.ends_with(".rs")
        && ROOMS.iter().any(|room| place.starts_with(room))
        && !is_test
        && !PUBLISHED.iter().any(|form| file.path.contains(form))
}

/// Counts the constants with a unit of time, of a rate, or none: those that only rename another
/// have no number.
fn constants(file: &File) -> usize {
    let product = file.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let declared = product.split(';').filter_map(|text| {
        let (_, rest) = text.rsplit_once("const ")?;
        let (name, rest) = rest.split_once(": ")?;
        let (kind, value) = rest.split_once(" =")?;
        let has_unit = ["Duration", "Rate", "f64"].iter().any(|unit| kind.contains(unit));
        let is_name =
            name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let counts = is_name && (has_unit || name.ends_with("_US"));
        Some(counts && value.contains(|c: char| c.is_ascii_digit()))
    });
    declared.filter(|counts| *counts).count()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    const PATH: &str = "crates/proto/src/path/health.rs";
    const SOURCE: &str = "/// A time.\nconst SILENCE: Duration = Duration::from_millis(25);\n\
        pub(super) const SHARE: f64 = 0.5;\nconst SAME: f64 = SHARE;\nconst FEW: u32 = 3;\n\
        fn f(x: &[u8; 4]) {}\n#[cfg(test)]\nmod tests {\n    const MS: Duration = Duration::from_millis(1);\n}\n";

    #[test]
    fn one_that_is_not_counted_is_found_and_so_is_one_that_went() {
        let with = |said: &str, path: &str| {
            let page = format!("# Constants\n\n{said}\n");
            shown(check(&tree(&[(PAGE, page.as_str()), (path, SOURCE)])))
        };
        let says = |number| format!("{BEFORE}{number}, and 3 others.");
        assert!(with(&says(2), PATH).is_empty());
        for number in [1, 3] {
            let found = with(&says(number), PATH);
            assert!(found[0].starts_with("docs/constants.md:3 there are 2"), "{found:?}");
        }
        assert!(with("Nothing is said.", PATH)[0].contains("no line"));
        for elsewhere in ["crates/proto/src/congestion/cubic.rs", "crates/lab/src/lib.rs"] {
            assert!(with(&says(0), elsewhere).is_empty(), "{elsewhere}");
        }
    }
}
