//! Standard output and standard error, whose readers may go away.
//!
//! `println!` panics where nobody reads any more, as behind `| head`. Nobody is told more than they
//! want to read: that is no error, and a command's exit code does not change with it.

use std::cell::Cell;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Whether anybody still reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// As far as is known.
    There,
    /// The other end of the pipe was closed, as `head` does.
    Gone,
}

/// Prints a line; that a reader has gone away is no error.
///
/// # Errors
/// When the line cannot be written for another reason, such as a full disk.
pub fn print(text: impl Display) -> Result<(), String> {
    print_while_read(text).map(|_| ())
}

/// Prints a line, and says whether another one would be read.
///
/// # Errors
/// As for [`print()`].
pub fn print_while_read(text: impl Display) -> Result<Reader, String> {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(format!("write: {error}")),
    }
}

/// Prints a table in the place of the last one; below it, where the output is no terminal.
///
/// # Errors
/// As for [`print()`].
pub fn print_anew(table: &str) -> Result<Reader, String> {
    if !io::stdout().is_terminal() {
        return print_while_read(table);
    }
    // Home, the table, clear to the end of each line and of the screen: no flicker.
    print_while_read(format_args!("\x1b[H{}\x1b[J", table.replace('\n', "\x1b[K\n")))
}

/// Prints a line for people, whether or not anybody reads it.
pub fn tell(text: impl Display) {
    if IS_QUIET.get() {
        return;
    }
    // In one piece: lines of several threads do not mix.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Does something of which this thread tells nobody meanwhile: what it returns says it all.
pub fn quietly<T>(of: impl FnOnce() -> T) -> T {
    let before = IS_QUIET.replace(true);
    let result = of();
    IS_QUIET.set(before);
    result
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}
