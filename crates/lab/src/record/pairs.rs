//! What a table of paired runs comes to, which something else made: a simulator that is not there,
//! or takes hours.
//!
//! ```text
//! # a comment, if it is the first line
//! algorithm,seed,mean_mbps        a line for each run: what ran, what both of a pair have in
//!                                 common, figures
//! newreno,1,5.07
//! asran,1,5.17
//! ```
//! Of each scheme there are the means, and of each but the base what the pairs say of one figure:
//!
//! ```text
//! difference     mean of d = own − base over the pairs; ± t · s(d) / √n with 95 % confidence
//! t              difference ÷ (s(d) / √n)
//! ratio          mean of own ÷ mean of base; its interval by drawing pairs anew
//! jain           Jain's index of the two means, which restates the ratio
//! decided_by     pairs that would tell such a difference from none in four of five cases: ((1.96 +
//!                0.84) · s(d) ÷ difference)²
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::report::{merged, rounded, rounded_option};
use crate::statistics::{
    jain_index, mean, mean_interval, ratio_of_means, ratio_of_means_interval, standard_deviation,
};

/// Standard errors at which a difference counts, and how many more it must be away for that to be
/// seen in four of five cases.
const REACH: f64 = 1.96 + 0.84;

/// Which table is read, and how.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pairs {
    /// The file, beside the record's.
    pub(crate) file: PathBuf,
    /// The column that names the scheme of a line.
    scheme: String,
    /// The column that a pair has in common.
    pair: String,
    /// The scheme that the others are compared with.
    base: String,
    /// The column that is compared.
    figure: String,
    /// How the table is made.
    pub(crate) made_by: String,
}

/// A line of the table: what it is of, what pairs it, its figures.
struct Line {
    scheme: String,
    pair: String,
    figures: BTreeMap<String, f64>,
}

impl Pairs {
    /// Returns an object for each scheme, in the order of the table.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    pub(crate) fn results(&self, path: &Path) -> Result<Vec<Value>, String> {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("read {name}: {error}"))?;
        let lines = self.lines(&text).map_err(|why| format!("{name}: {why}"))?;
        let mut schemes: Vec<&str> = Vec::new();
        for line in &lines {
            if !schemes.contains(&line.scheme.as_str()) {
                schemes.push(&line.scheme);
            }
        }
        if !schemes.contains(&self.base.as_str()) {
            return Err(format!(
                "{name}: no line has {:?} in the column {:?}",
                self.base, self.scheme
            ));
        }
        Ok(schemes.into_iter().map(|scheme| self.result(&lines, scheme)).collect())
    }

    fn lines(&self, text: &str) -> Result<Vec<Line>, String> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
        let header: Vec<&str> =
            lines.next().map(|(_, line)| line.split(',').collect()).unwrap_or_default();
        let place = |column: &str| {
            let place = header.iter().position(|name| *name == column);
            place.ok_or_else(|| format!("no column {column:?} among {}", header.join(", ")))
        };
        let (scheme, pair) = (place(&self.scheme)?, place(&self.pair)?);
        place(&self.figure)?;
        let line = |(number, text): (usize, &str)| {
            let cells: Vec<&str> = text.split(',').collect();
            if cells.len() != header.len() {
                return Err(format!(
                    "line {}: {} cells, not {}",
                    number + 1,
                    cells.len(),
                    header.len()
                ));
            }
            let mut figures = BTreeMap::new();
            for (column, cell) in header.iter().zip(&cells) {
                if *column != self.scheme && *column != self.pair {
                    let value = cell.parse().ok().filter(|value: &f64| value.is_finite());
                    let wrong =
                        || format!("line {}: {column} is {cell:?}, not a number", number + 1);
                    figures.insert((*column).to_owned(), value.ok_or_else(wrong)?);
                }
            }
            Ok(Line { scheme: cells[scheme].to_owned(), pair: cells[pair].to_owned(), figures })
        };
        lines.filter(|(_, line)| !line.is_empty()).map(line).collect()
    }

    fn result(&self, lines: &[Line], scheme: &str) -> Value {
        let own: Vec<&Line> = lines.iter().filter(|line| line.scheme == scheme).collect();
        let mut means = Map::new();
        for key in own.iter().flat_map(|line| line.figures.keys()) {
            let values: Vec<f64> =
                own.iter().filter_map(|line| line.figures.get(key).copied()).collect();
            means.insert(key.clone(), rounded_option(mean(&values), 4));
            means.insert(format!("{key}_interval"), shown(mean_interval(&values)));
        }
        let runs = json!({"scheme": scheme, "runs": own.len()});
        if scheme == self.base {
            return merged([runs, Value::Object(means)]);
        }
        merged([runs, Value::Object(means), self.compared(lines, &own)])
    }

    /// Returns what the pairs of a scheme and the base say.
    fn compared(&self, lines: &[Line], own: &[&Line]) -> Value {
        let base_of = |line: &Line| {
            lines.iter().find(|other| other.scheme == self.base && other.pair == line.pair)
        };
        let figure = |line: &Line| line.figures.get(&self.figure).copied();
        let pairs: Vec<(f64, f64)> =
            own.iter().filter_map(|line| Some((figure(line)?, figure(base_of(line)?)?))).collect();
        let differences: Vec<f64> = pairs.iter().map(|(own, base)| own - base).collect();
        let difference = mean(&differences);
        let spread = standard_deviation(&differences);
        let error = spread.map(|spread| spread / (differences.len() as f64).sqrt());
        let t = difference.zip(error).map(|(difference, error)| difference / error);
        let decided_by =
            difference.zip(spread).map(|(d, spread)| (REACH * spread / d).powi(2).ceil());
        let side =
            |which: fn(&(f64, f64)) -> f64| mean(&pairs.iter().map(which).collect::<Vec<_>>());
        let means = side(|pair| pair.0).zip(side(|pair| pair.1));
        json!({
            "pairs": pairs.len(),
            "ahead": differences.iter().filter(|difference| **difference > 0.0).count(),
            "difference": rounded_option(difference, 4),
            "difference_interval": shown(mean_interval(&differences)),
            "t": rounded_option(t, 3),
            "decided_by": rounded_option(decided_by.filter(|pairs| pairs.is_finite()), 0),
            "ratio": rounded_option(ratio_of_means(&pairs), 4),
            "ratio_interval": shown(ratio_of_means_interval(&pairs)),
            "jain": rounded_option(means.and_then(|(own, base)| jain_index(&[own, base])), 4),
        })
    }
}

fn shown(interval: Option<(f64, f64)>) -> Value {
    interval.map_or(Value::Null, |(low, high)| json!([rounded(low, 4), rounded(high, 4)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs() -> Pairs {
        let text = "file = \"t.csv\"\nscheme = \"algorithm\"\npair = \"seed\"\nbase = \"newreno\"\n\
                    figure = \"mbps\"\nmade_by = \"make\"";
        toml::from_str(text).expect("sound")
    }

    fn results(text: &str) -> Result<Vec<Value>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        fs::write(&path, text).expect("written");
        pairs().results(&path)
    }

    #[test]
    fn pairs_are_compared_with_their_own() {
        let head = "# made up\nalgorithm,seed,mbps,zero\n";
        let lines: String = (1..=8)
            .map(|seed| {
                format!("newreno,{seed},{}.0,3\nasran,{seed},{}.0,2\n", seed, seed + seed % 2 + 1)
            })
            .collect();
        let results = results(&format!("{head}{lines}asran,9,100.0,2\n")).expect("a table");
        let [base, own] = &results[..] else { panic!("{results:?}") };
        assert_eq!((&base["mbps"], &base["ratio"]), (&json!(4.5), &Value::Null));
        // Differences 2, 1, 2, 1, …: mean 1.5, deviation 0.5345, error 0.189; t of 7 degrees is
        // 2.365.
        assert_eq!((&own["pairs"], &own["ahead"], &own["runs"]), (&json!(8), &json!(8), &json!(9)));
        assert_eq!((&own["difference"], &own["ratio"]), (&json!(1.5), &json!(1.3333)));
        assert_eq!(own["t"], json!(7.937));
        let interval = own["difference_interval"].as_array().expect("an interval");
        let low = interval[0].as_f64().expect("a number");
        assert!((low - (1.5 - 2.365 * 0.189)).abs() < 2e-3, "{interval:?}");
        assert_eq!(own["decided_by"], json!(1.0));
    }

    #[test]
    fn a_wrong_table_is_named_with_its_line() {
        let why = |text: &str| results(text).expect_err("wrong");
        assert!(why("algorithm,seed\nnewreno,1\n").contains("no column \"mbps\""));
        assert!(why("algorithm,seed,mbps\nnewreno,1,fast\n").contains("line 2: mbps is \"fast\""));
        assert!(why("algorithm,seed,mbps\nnewreno,1\n").contains("line 2: 2 cells, not 3"));
        assert!(why("algorithm,seed,mbps\nasran,1,2\n").contains("\"newreno\""));
        assert!(why("algorithm,seed,mbps\nnewreno,1,NaN\n").contains("not a number"));
        assert!(why("").contains("no column"));
    }
}
