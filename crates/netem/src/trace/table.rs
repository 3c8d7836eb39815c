//! A table read from text: CSV with a header line, or columns between white space.
//!
//! Only as much of CSV as recordings use: fields in double quotes may hold commas and doubled
//! quotes, but no line breaks.

use super::{TraceError, telling_lines};

/// A table with named columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    file: String,
    header_line: usize,
    header: Vec<String>,
    /// Line number and fields of each row; as many fields as the header has.
    rows: Vec<(usize, Vec<String>)>,
}

impl Table {
    /// Reads comma-separated values whose first line names the columns.
    ///
    /// # Errors
    /// No header; a row with more or fewer fields than the header; a quote without end.
    pub fn from_csv(text: &str, file: &str) -> Result<Self, TraceError> {
        Self::read(text, file, |line| csv_fields(line).ok_or("a quote does not end"))
    }

    /// Reads columns between white space whose first line names them.
    ///
    /// # Errors
    /// No header; a row with more or fewer fields than the header.
    pub fn from_columns(text: &str, file: &str) -> Result<Self, TraceError> {
        Self::read(text, file, |line| Ok(line.split_whitespace().map(str::to_owned).collect()))
    }

    fn read(
        text: &str,
        file: &str,
        split: impl Fn(&str) -> Result<Vec<String>, &'static str>,
    ) -> Result<Self, TraceError> {
        let mut lines = telling_lines(text.strip_prefix('\u{feff}').unwrap_or(text));
        let Some((header_line, names)) = lines.next() else {
            return Err(TraceError::new(file, 1, "needs a header line that names the columns"));
        };
        let header = split(names).map_err(|what| TraceError::new(file, header_line, what))?;
        let (mut rows, mut count) = (Vec::new(), 0);
        for (line, fields) in lines {
            let fields = split(fields).map_err(|what| TraceError::new(file, line, what))?;
            count += fields.len();
            if count > FIELDS_MAX {
                let what = format!("more than {FIELDS_MAX} fields up to here: cut the file");
                return Err(TraceError::new(file, line, what));
            }
            if fields.len() != header.len() {
                let (have, want) = (fields.len(), header.len());
                let what = format!("has {have} fields, the header has {want}");
                return Err(TraceError::new(file, line, what));
            }
            rows.push((line, fields));
        }
        Ok(Self { file: file.to_owned(), header_line, header, rows })
    }

    /// Returns how many rows the table has beside the header.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true when the table has a header only.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Returns true when there is a column of this name.
    pub fn has(&self, column: &str) -> bool {
        self.header.iter().any(|name| name == column)
    }

    /// Returns the fields of a column with their line numbers.
    ///
    /// # Errors
    /// There is no such column.
    pub fn texts(&self, column: &str) -> Result<Vec<(usize, &str)>, TraceError> {
        let Some(place) = self.header.iter().position(|name| name == column) else {
            let what = format!("no column {column}; there are {}", self.header.join(", "));
            return Err(TraceError::new(&self.file, self.header_line, what));
        };
        Ok(self.rows.iter().map(|(line, fields)| (*line, fields[place].as_str())).collect())
    }

    /// Returns the numbers of a column with their line numbers.
    ///
    /// # Errors
    /// There is no such column, or a field of it is no finite number.
    pub fn numbers(&self, column: &str) -> Result<Vec<(usize, f64)>, TraceError> {
        let mut numbers = Vec::with_capacity(self.rows.len());
        for (line, field) in self.texts(column)? {
            let number = field.parse().ok().filter(|number: &f64| number.is_finite());
            let number = number.ok_or_else(|| {
                let what = format!("{column} must be a number, is {field:?}");
                TraceError::new(&self.file, line, what)
            })?;
            numbers.push((line, number));
        }
        Ok(numbers)
    }
}

/// The most fields of a table: each takes some 40 bytes of memory, all of them 160 MB.
const FIELDS_MAX: usize = 4_000_000;

fn csv_fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some(fields),
        }
    }
}

/// Reads up to the closing quote; returns the field and what follows, a comma or nothing.
fn quoted_field(quoted: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"')?;
        field.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => {
                let after = rest.trim_start();
                return (after.is_empty() || after.starts_with(',')).then_some((field, after));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_protect_commas() {
        let table = Table::from_csv("a,b , c\n\n1,\"x, \"\"y\"\"\" ,\n", "t.csv").unwrap();
        assert_eq!(table.texts("b").unwrap(), [(3, "x, \"y\"")]);
        assert_eq!(table.texts("c").unwrap(), [(3, "")]);
        assert_eq!(table.numbers("a").unwrap(), [(3, 1.0)]);
        assert!(table.has("c") && !table.has("d") && table.len() == 1);
    }

    #[test]
    fn columns_between_white_space_read_alike() {
        let table = Table::from_columns("t(ms)  d\n1 2.5\n 3\t4 \n", "t.txt").unwrap();
        assert_eq!(table.numbers("d").unwrap(), [(2, 2.5), (3, 4.0)]);
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text| Table::from_csv(text, "t").unwrap_err().to_string();
        assert_eq!(error("a,b\n1,2\n1"), "t:3: has 1 fields, the header has 2");
        assert_eq!(error("a\n\"x"), "t:2: a quote does not end");
        assert_eq!(error("a\n\"x\"y"), "t:2: a quote does not end");
        assert_eq!(error(" \n"), "t:1: needs a header line that names the columns");
    }
}
