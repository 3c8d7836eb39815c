//! Writes elements of the page. Every text goes through [`safe`]; knows nothing of what it means.

use super::verdict::{Tone, Verdict};
pub(super) use crate::markup::safe;

/// Writes prose, where what stands between back-ticks is code.
pub(super) fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let part = |(i, part): (usize, &str)| {
        if i % 2 == 1 { format!("<code>{}</code>", safe(part)) } else { safe(part) }
    };
    parts.map(part).collect()
}

/// Writes a verdict; its sign is not its colour alone.
pub(super) fn verdict(verdict: &Verdict) -> String {
    let (class, sign) = match verdict.tone {
        Tone::Good => ("good", "✓ "),
        Tone::Bad => ("bad", "✗ "),
        Tone::Unsure => ("unsure", "~ "),
        Tone::Silent => ("silent", ""),
    };
    format!("<span class=\"{class}\">{sign}{}</span>", prose(&verdict.words))
}

/// Writes what can be taken home.
pub(super) fn download(name: &str, address: &str) -> String {
    format!("<a download=\"{}\" href=\"{}\">{}</a>", safe(name), safe(address), safe(name))
}

/// Writes a cell, whose heading stands in it where the page is narrow.
pub(super) fn cell(heading: &str, content: &str) -> String {
    format!("<td data-h=\"{}\">{content}</td>", safe(heading))
}

/// Writes a table; cells are elements already.
pub(super) fn table(headings: &[&str], rows: &[String]) -> String {
    let headings: String = headings
        .iter()
        .map(|heading| format!("<th scope=\"col\">{}</th>", safe(heading)))
        .collect();
    let rows: String = rows.iter().map(|row| format!("<tr>{row}</tr>\n")).collect();
    format!("<table><thead><tr>{headings}</tr></thead><tbody>\n{rows}</tbody></table>\n")
}

/// Returns what names a place of the page.
pub(super) fn anchor(text: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        let evil = "<script>alert('x')</script> & `<b>`\u{0}";
        assert!(!safe(evil).contains(['<', '>', '\'', '\u{0}']));
        assert!(!prose(evil).contains("<b>") && prose("a `b` c") == "a <code>b</code> c");
        let cell = cell("\" onload=\"", "x");
        assert_eq!(cell, "<td data-h=\"&quot; onload=&quot;\">x</td>");
        assert!(download("\"><i>", "data:x").starts_with("<a download=\"&quot;&gt;&lt;i&gt;\""));
        assert_eq!(anchor("Fig. 5"), "fig--5");
    }
}
