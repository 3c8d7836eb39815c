//! What can be taken home from the page: figures as CSV, records as they are, pictures. All are in
//! the page itself, as addresses that hold their data.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::item::Known;
use super::verdict::Verdict;
use crate::report::Mode;

/// Returns the figures of an item as CSV, as exact as they are known.
pub(super) fn csv(paper: &str, known: &Known<'_>) -> String {
    let header = "paper,item,figure,point,scheme,setting,life,paper_scheme,paper_value,value,compared,low,high,verdict,record\n";
    let mut text = header.to_owned();
    for check in &known.checks {
        let verdict = Verdict::of_check(check, known.item.fitted.as_deref());
        let verdict = verdict.map_or_else(String::new, |verdict| verdict.words);
        let cells = [
            paper,
            &known.item.name,
            &check.what,
            "",
            "",
            "",
            "equation",
            "",
            &shown(check.paper),
            &check.ours.to_string(),
            "",
            "",
            "",
            &verdict,
            "",
        ];
        text += &line(&cells);
    }
    for row in &known.rows {
        for value in &row.values {
            let figure = value.row;
            let (low, high) = figure.interval.unzip();
            let cells = [
                paper,
                &known.item.name,
                row.key,
                &row.point,
                &figure.scheme,
                value.setting,
                if value.mode == Mode::Sim { "virtual time" } else { "kernel" },
                figure.paper_scheme.as_deref().unwrap_or_default(),
                &shown(figure.paper),
                &shown(figure.now),
                &shown(figure.compared),
                &shown(low),
                &shown(high),
                &Verdict::joined(&value.verdicts).words,
                &value.record.display().to_string(),
            ];
            text += &line(&cells);
        }
    }
    text
}

/// Returns an address that holds a text.
pub(super) fn address(kind: &str, text: &str) -> String {
    format!("data:{kind};base64,{}", BASE64.encode(text))
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Writes a line of CSV; a cell that begins like a formula is not one in a spreadsheet.
fn line(cells: &[&str]) -> String {
    let cell = |cell: &&str| {
        let is_number = cell.parse::<f64>().is_ok();
        let is_formula = !is_number && cell.starts_with(['=', '+', '-', '@']);
        let text = if is_formula { format!("'{cell}") } else { (*cell).to_owned() };
        if text.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text
        }
    };
    cells.iter().map(cell).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_are_no_formulas() {
        assert_eq!(line(&["a", "b,c", "d\"e", "-1.5"]), "a,\"b,c\",\"d\"\"e\",-1.5\n");
        assert_eq!(line(&["=1+1", "-3.2 %, no interval"]), "'=1+1,\"'-3.2 %, no interval\"\n");
        assert_eq!(address("text/plain", "fl"), "data:text/plain;base64,Zmw=");
    }
}
