//! A paper's equations beside its figures, as a table for people.

use models::Check;
use sys::print::print;

/// Prints the checks as a table for people.
pub(crate) fn print_table(checks: &[Check]) -> Result<(), String> {
    print(format_args!("{:<10} {:<58} {:>10} {:>10}", "source", "figure", "ours", "paper"))?;
    for check in checks {
        let paper = check.paper.map_or_else(|| "-".to_owned(), number);
        let ours = number(check.ours);
        print(format_args!("{:<10} {:<58} {ours:>10} {paper:>10}", check.source, check.what))?;
        if !check.note.is_empty() {
            print(format_args!("{:<10}   {}", "", check.note))?;
        }
    }
    let differing = checks.iter().filter(|check| !check.agrees).count();
    print(format_args!(
        "\n{} figures, {differing} differ from the paper (each explained above).",
        checks.len()
    ))
}

/// Writes a figure with as many digits as it deserves.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e4 || (size > 0.0 && size < 1e-3) => format!("{value:.2e}"),
        size if size >= 10.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}
