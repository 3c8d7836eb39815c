//! Tests that need a network namespace of their own.
//!
//! A namespace can be entered only by a process of one thread, and a test runs in a thread among
//! others: so the test starts its own binary again inside `unshare`, with its own name as filter.
//! What cannot run here is skipped in plain sight, past the capture of the test harness.

use std::env;
use std::io::{ErrorKind, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{interface_setup, realtime};

/// Names the test that runs inside; unset outside.
const INSIDE: &str = "FULMAR_SANDBOX";

/// Returns true inside the namespace, with the loopback up; outside it runs the test `name` (as
/// the harness names it) inside, and returns false.
///
/// # Panics
/// When the test fails inside.
pub fn inside(name: &str) -> bool {
    if env::var(INSIDE).is_ok_and(|inside| inside == name) {
        let up = interface_setup::set_up("lo");
        assert!(up.is_ok(), "the loopback does not come up: {up:?}");
        return true;
    }
    let Some(flags) = namespace_flags() else {
        skip(name, "network namespaces are not available");
        return false;
    };
    let binary = env::current_exe().ok();
    let Some(binary) = binary else {
        skip(name, "the test binary is gone");
        return false;
    };
    let status = Command::new("unshare")
        .args([flags, "--"])
        .arg(binary)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, name)
        .stdout(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{name} failed in its namespace");
    false
}

/// Tells whether the kernel answers by ICMP, whichever processor it does so on; the test `name` is
/// skipped where not. What its socket for answers has under way on one of them may be full of
/// packets of namespaces that are long gone.
pub fn kernel_answers(name: &str) -> bool {
    if env::var(INSIDE).is_ok_and(|inside| inside == name) {
        return true;
    }
    let of = |processor| {
        std::thread::spawn(move || realtime::stay_on(processor).is_err() || is_refused())
    };
    let silent =
        realtime::processors().into_iter().find(|one| !of(*one).join().unwrap_or_default());
    if let Some(processor) = silent {
        skip(
            name,
            &format!("the kernel sends no ICMP from processor {processor}: start the machine anew"),
        );
    }
    silent.is_none()
}

/// Says in plain sight that a test did not run, and why.
pub fn skip(name: &str, reason: &str) {
    // Not eprintln: the harness would swallow it.
    let _ = std::io::stderr().write_all(format!("SKIPPED: {name}: {reason}\n").as_bytes());
}

/// Tells whether a datagram to a port that nobody has is answered; a free port may be another
/// program's in the next moment.
fn is_refused() -> bool {
    (0..5).any(|_| {
        let ask = || -> std::io::Result<usize> {
            let nobody = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            socket.connect(nobody)?;
            socket.send(&[])?;
            socket.recv(&mut [0])
        };
        ask().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
}

/// Root needs no user namespace, which some systems forbid.
fn namespace_flags() -> Option<&'static str> {
    ["-n", "-Urn"].into_iter().find(|flags| {
        Command::new("unshare")
            .args([flags, "--", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}
