//! What the commands write to standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};

/// Whether anybody still reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// As far as is known.
    There,
    /// The other end of the pipe was closed, as `head` does.
    Gone,
}

/// Prints a line; that a reader has gone away is no error.
pub(crate) fn print(text: &str) -> Result<(), String> {
    print_while_read(text).map(|_| ())
}

/// Prints a line, and says whether another one would be read.
pub(crate) fn print_while_read(text: &str) -> Result<Reader, String> {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(format!("write: {error}")),
    }
}

/// Prints a table in the place of the last one; below it, where the output is no terminal.
pub(crate) fn print_anew(table: &str) -> Result<Reader, String> {
    if !io::stdout().is_terminal() {
        return print_while_read(table);
    }
    // Home, the table, clear to the end of each line and of the screen: no flicker.
    print_while_read(&format!("\x1b[H{}\x1b[J", table.replace('\n', "\x1b[K\n")))
}

/// Prints a line for people, whether or not anybody reads it.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
