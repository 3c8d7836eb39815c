//! Tests that need a network namespace of their own.
//!
//! A namespace can be entered only by a process of one thread, and a test runs in a thread among
//! others: so the test starts its own binary again inside `unshare`, with its own name as filter.
//! What cannot run here is skipped in plain sight, past the capture of the test harness.

use std::env;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::interface_setup;

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

/// Says in plain sight that a test did not run, and why.
pub fn skip(name: &str, reason: &str) {
    // Not eprintln: the harness would swallow it.
    let _ = std::io::stderr().write_all(format!("SKIPPED: {name}: {reason}\n").as_bytes());
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
