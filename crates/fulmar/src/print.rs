//! What the commands write to standard output.

use std::io::{IsTerminal, Write};

/// Prints a line; a reader that has gone away is no reason to panic.
pub(crate) fn print(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| format!("write: {error}"))
}

/// Prints a table in the place of the last one; below it, where the output is no terminal.
pub(crate) fn print_anew(table: &str) -> Result<(), String> {
    if !std::io::stdout().is_terminal() {
        return print(table);
    }
    // Home, the table, clear to the end of each line and of the screen: no flicker.
    print(&format!("\x1b[H{}\x1b[J", table.replace('\n', "\x1b[K\n")))
}
