//! kcptun between the two hosts, over the first link: it takes TCP connections at the drone,
//! carries them over KCP with block codes, and connects to the station's application at the other
//! end.
//!
//! As it comes, but without compression, which would tell more about the payload than about the
//! link.

use std::net::TcpListener;

use super::forwarded::{ENTRY, TARGET, listen};
use super::links::{Copy, Side};
use super::program::Program;

/// The port on the link.
const PORT: u16 = 29_900;

/// Starts both ends; the listener is the station's application.
///
/// # Errors
/// When it is not installed or does not start.
pub(crate) fn start(copy: &Copy<'_>) -> Result<(Vec<Program>, TcpListener), String> {
    let listener = listen(copy)?;
    let link = format!("{}:{PORT}", copy.address(Side::Station, 0)?);
    let (target, entry) = (format!("127.0.0.1:{TARGET}"), format!("127.0.0.1:{ENTRY}"));
    let server = ["-t", &target, "-l", &link, "--nocomp"];
    let client = ["-r", &link, "-l", &entry, "--nocomp"];
    let programs = vec![
        Program::start(copy, Side::Station, "kcptun-server", &server)?,
        Program::start(copy, Side::Drone, "kcptun-client", &client)?,
    ];
    Ok((programs, listener))
}
