//! Text in lines of a width: tables, whose columns stand in several blocks where they are too wide,
//! and sentences, which go on in the next line.
//!
//! ```text
//! all columns fit → one block, each column as wide as what stands in it
//! else            → blocks of the columns that fit, each led by the first column; the words of the
//!                   last column as sentences
//! ```

use std::fmt::Write;

use super::table::NOTHING;

/// The width of what is not for a screen: every line is as long as it is.
pub(crate) const ENDLESS: usize = usize::MAX;
/// What the head of a column of words begins with.
const WORDS: &str = "what";
/// What stands in a column of words where there is nothing to say.
const NO_WORDS: [&str; 3] = ["", "ok", NOTHING];

/// The word at the head of a column, and what stands in it.
pub(super) type Column<T> = (&'static str, fn(&T) -> String);

/// Lays rows out, each column as wide as what stands in it.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(|column| widest(rows, column)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from("  ");
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = write!(line, "{cell:width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Lays a table out: the heads of its columns, then a row for each item.
pub(super) fn rows<'a, T: 'a>(
    table: &[Column<T>],
    items: impl IntoIterator<Item = &'a T>,
    width: usize,
) -> String {
    let heads = table.iter().map(|(head, _)| (*head).to_owned()).collect();
    let cells = |item| table.iter().map(|(_, cell)| cell(item)).collect();
    let rows: Vec<Vec<String>> =
        std::iter::once(heads).chain(items.into_iter().map(cells)).collect();
    let text = columns(&rows);
    if text.lines().all(|line| line.chars().count() <= width) {
        return text;
    }
    let has_words = table.last().is_some_and(|(head, _)| head.starts_with(WORDS));
    let figures = table.len() - usize::from(has_words);
    let mut text = String::new();
    let mut next = 1;
    while next < figures {
        let block = block(&rows, next..figures, width);
        let of_block = |row: &Vec<String>| [&row[..1], &row[next..next + block]].concat();
        text += &columns(&rows.iter().map(of_block).collect::<Vec<_>>());
        if next == 1 && has_words {
            text += &words(&rows[1..]);
        }
        next += block;
    }
    text
}

/// Breaks lines that are longer than a width between their words; what follows is indented.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let mut all = String::new();
    for line in text.lines() {
        for part in parts(line, width) {
            all += &part;
            all.push('\n');
        }
    }
    all
}

/// Breaks one line.
pub(crate) fn parts(line: &str, width: usize) -> Vec<String> {
    let body = line.trim_start();
    let indent = line.chars().count() - body.chars().count();
    let hanging = " ".repeat((indent + 4).min(width / 2));
    let mut parts = Vec::new();
    let mut rest = line.to_owned();
    while rest.chars().count() > width {
        let chars: Vec<char> = rest.chars().collect();
        let begins = chars.iter().take_while(|c| **c == ' ').count();
        let space = (begins + 1..=width).rev().find(|at| chars[*at] == ' ');
        // A word that is longer than a line is cut.
        let (end, next) = space.map_or((width, width), |at| (at, at + 1));
        parts.push(chars[..end].iter().collect::<String>().trim_end().to_owned());
        let left: String = chars[next..].iter().collect();
        rest = format!("{hanging}{}", left.trim_start());
    }
    parts.push(rest);
    parts
}

/// Returns how many of some columns fit beside the first, one at least.
fn block(rows: &[Vec<String>], figures: std::ops::Range<usize>, width: usize) -> usize {
    let mut used = 2 + widest(rows, 0);
    let fits = |column: &usize| {
        used += 2 + widest(rows, *column);
        used <= width
    };
    figures.take_while(fits).count().max(1)
}

/// Returns the words of each row that has any, in a line.
fn words(rows: &[Vec<String>]) -> String {
    let words = |row: &Vec<String>| {
        let (name, told) = (row.first()?, row.last()?);
        (!NO_WORDS.contains(&told.as_str())).then(|| format!("  {name}: {told}\n"))
    };
    rows.iter().filter_map(words).collect()
}

fn widest(rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_on_in_the_next_one_between_its_words() {
        assert_eq!(parts("  ! one two three", 12), ["  ! one two", "      three"]);
        assert_eq!(parts("short", 5), ["short"]);
        let address = "x".repeat(30);
        for part in parts(&format!("! no answer from {address} yet"), 20) {
            assert!(part.chars().count() <= 20, "{part:?}");
        }
        let all: String = parts(&address, 12).concat().replace(' ', "");
        assert_eq!(all, address, "nothing is cut off");
    }

    #[test]
    fn a_table_that_is_too_wide_stands_in_blocks_and_loses_nothing() {
        let table: [Column<u32>; 4] = [
            ("name", |item| format!("name{item}")),
            ("first", |item| format!("first{item}")),
            ("second", |item| format!("second{item}")),
            ("what is wrong", |item| if *item == 1 { "ok".into() } else { "all of it".into() }),
        ];
        let items = [1, 2];
        let text = rows(&table, &items, ENDLESS);
        assert_eq!(text.lines().count(), 3, "{text}");
        let text = rows(&table, &items, 20);
        let expected = "  name   first\n  name1  first1\n  name2  first2\n  name2: all of it\n  \
                        name   second\n  name1  second1\n  name2  second2\n";
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
    }
}
