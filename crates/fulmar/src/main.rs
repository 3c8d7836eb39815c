//! The program `fulmar`: everything is in the library, so that fuzz targets reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    fulmar::main()
}
