//! The door for the fuzz target of the page; not part of the program otherwise.

use super::shelf::Shelf;
use super::{Papers, list, page};

/// A file of papers with one item, one record and one claim.
const PAPERS: &str = r#"
better = { lower = ["gap_s"], higher = ["share"] }
claim = [{ says = "c", record = "r", scheme = "fulmar", key = "gap_s", beside = { schemes = ["udp"] } }]
paper = [{ key = "P", folder = "p", figures = 1, tables = 0, item = [{ name = "Fig. 1", title = "t", shows = [{ record = "r" }] }] }]
"#;
/// Most times that a text of the input can stand in the page.
const COPIES: usize = 64;

/// Makes the page of a record and a result, a zero byte between them.
///
/// # Panics
/// When markup of theirs is markup of the page, when it is cut, or when it grows beyond what they
/// have.
pub(crate) fn try_page(input: &[u8]) {
    let zero = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (record, result) = input.split_at(zero);
    let Ok(record) = std::str::from_utf8(record) else { return };
    let papers = Papers::of_text("papers.toml", PAPERS);
    let papers = papers.unwrap_or_else(|why| panic!("{why}"));
    let shelf = Shelf::of(&[("r", record, result.get(1..))]);
    let (empty, page) = (page::page(&papers, &Shelf::of(&[])), page::page(&papers, &shelf));
    for markup in ["<script", "<img", "<iframe", "<svg", "javascript:"] {
        assert!(!page.contains(&format!("href=\"{markup}")));
        assert!(markup == "javascript:" || !page.contains(markup), "{markup}");
    }
    assert!(page.ends_with("</main></body></html>\n"));
    assert_eq!(page.matches("<table").count(), page.matches("</table>").count());
    assert_eq!(page.matches("<td").count(), page.matches("</td>").count());
    // A letter may be written as six, and a text in base64 has a third more.
    assert!(page.len() <= empty.len() + 10_000 + COPIES * 6 * input.len() * record.len().max(1));
    let list = list::list(&papers, &shelf);
    assert!(list.lines().filter(|line| line.starts_with("| Fig. 1")).count() == 1, "{list}");
}
