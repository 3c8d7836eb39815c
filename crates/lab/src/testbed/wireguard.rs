//! WireGuard's tunnel in user space between the two hosts, over the first link.
//!
//! It is told its keys and its peer over the Unix socket that `wg` uses [WireGuard, Cross-Platform
//! Userspace Implementation, "Configuration Protocol"]. All else is as it comes: an MTU of 1,420.

use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::thread;

use proto::StaticSecret;
use sys::clock::now;
use sys::interface_setup::{add_address, set_up};
use units::Duration;

use super::links::{Copy, Side};
use super::program::Program;

/// Where its sockets are.
const SOCKETS: &str = "/var/run/wireguard";
/// The port of both ends on the link.
const PORT: u16 = 51_820;
/// How long it may take to come up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns a side's address in the tunnel.
pub(crate) fn address(side: Side) -> Ipv4Addr {
    match side {
        Side::Station => Ipv4Addr::new(10, 98, 0, 1),
        Side::Drone => Ipv4Addr::new(10, 98, 0, 2),
    }
}

/// Starts both ends.
///
/// # Errors
/// When it is not installed or does not come up.
pub(crate) fn start(copy: &Copy<'_>) -> Result<Vec<Program>, String> {
    let draw = || sys::entropy::seed().map_err(|error| error.to_string());
    let (station, drone) = (StaticSecret::generate(draw()?), StaticSecret::generate(draw()?));
    let mut programs = Vec::new();
    for (side, own, peer) in [(Side::Station, &station, &drone), (Side::Drone, &drone, &station)] {
        // Its socket is in a folder that all hosts share.
        let name = format!("wg{}", &hex(&draw()?)[..8]);
        let mut program = Program::start(copy, side, "wireguard-go", &["-f", &name])?;
        let answer = configure(&mut program, &name, &settings(copy, side, own, peer)?);
        answer.map_err(|error| format!("wireguard-go at the {}: {error}", side.name()))?;
        copy.enter(side, || add_address(&name, address(side), 24).and_then(|()| set_up(&name)))?;
        programs.push(program);
    }
    Ok(programs)
}

/// Writes what an end is told.
fn settings(
    copy: &Copy<'_>,
    side: Side,
    own: &StaticSecret,
    peer: &StaticSecret,
) -> Result<String, String> {
    let (own, public) = (hex(&own.to_bytes()), hex(&peer.public().0));
    let (remote, inside) = (copy.address(side.other(), 0)?, address(side.other()));
    Ok(format!(
        "set=1\nprivate_key={own}\nlisten_port={PORT}\npublic_key={public}\n\
         endpoint={remote}:{PORT}\nallowed_ip={inside}/32\n\n"
    ))
}

/// Tells a program its settings as soon as its socket is there.
fn configure(program: &mut Program, name: &str, settings: &str) -> Result<(), String> {
    let started = now();
    let mut socket = loop {
        program.check()?;
        match UnixStream::connect(format!("{SOCKETS}/{name}.sock")) {
            Ok(socket) => break socket,
            Err(error) if now().since(started) > PATIENCE => {
                return Err(format!("its socket in {SOCKETS}: {error}"));
            }
            Err(_) => thread::sleep(Duration::from_millis(20).into()),
        }
    };
    let mut talk = || -> io::Result<String> {
        socket.set_read_timeout(Some(PATIENCE.into()))?;
        socket.write_all(settings.as_bytes())?;
        let (mut answer, mut piece) = (String::new(), [0; 256]);
        while !answer.ends_with("\n\n") {
            let length = socket.read(&mut piece)?;
            if length == 0 {
                break;
            }
            answer += &String::from_utf8_lossy(&piece[..length]);
        }
        Ok(answer)
    };
    match talk() {
        Ok(answer) if answer.trim() == "errno=0" => Ok(()),
        Ok(answer) => Err(format!("it refused its settings: {}", answer.trim())),
        Err(error) => Err(error.to_string()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
