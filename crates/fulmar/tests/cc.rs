//! `fulmar cc`, as an operator, a script and a power cut meet it.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::bpf_filesystem;

/// What a machine may lack: then a test is skipped. Any other error is a fault.
const LACKS: [&str; 3] = ["not permitted; run it as root", "without clang", "this kernel"];

fn cc(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar")).arg("cc").args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = cc(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Holds other tests off, those of tcp-asran too: the names are the machine's.
fn hold() -> File {
    let folder = std::env::temp_dir().join("fulmar-cc-test");
    fs::create_dir_all(&folder).unwrap();
    bpf_filesystem::hold(&folder, std::time::Duration::from_secs(60)).unwrap()
}

fn states() -> Vec<String> {
    let status = json(&["status"]);
    let algorithms = status["algorithms"].as_array().unwrap().iter();
    algorithms.map(|algorithm| algorithm["state"].as_str().unwrap().to_owned()).collect()
}

fn all(state: &str) -> bool {
    states().iter().all(|found| found == state)
}

/// Removes what a failed test has left.
struct Cleaner;

impl Drop for Cleaner {
    fn drop(&mut self) {
        cc(&["remove"]);
    }
}

#[test]
fn install_survives_a_kill_at_any_moment() {
    let name = "install_survives_a_kill_at_any_moment";
    let _held = hold();
    if !all("absent") {
        return println!("SKIPPED: {name}: they are installed on this machine, and stay so");
    }
    let began = Instant::now();
    let first = json(&["install"]);
    if let Some(error) = first["error"].as_str() {
        assert!(LACKS.iter().any(|lack| error.contains(lack)), "{error}");
        return println!("SKIPPED: {name}: {error}");
    }
    let took = began.elapsed();
    let _cleaner = Cleaner;
    assert!(all("installed"), "{:?}", states());
    assert_eq!(json(&["install"])["added"], serde_json::json!([]));

    for step in 0..12_u32 {
        assert!(cc(&["remove"]).status.success());
        assert!(all("absent") && !Path::new("/sys/fs/bpf/fulmar").exists());
        let mut install = Command::new(env!("CARGO_BIN_EXE_fulmar"))
            .args(["cc", "install"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(took * step / 10);
        install.kill().unwrap();
        install.wait().unwrap();
        // The kernel takes back a moment later what the dead process held.
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut again = json(&["install"]);
        while again["error"].is_string() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
            again = json(&["install"]);
        }
        assert!(all("installed"), "after {:?}: {again} {:?}", took * step / 10, states());
    }
    assert!(cc(&["remove"]).status.success());
    assert!(all("absent") && !Path::new("/sys/fs/bpf/fulmar").exists());
}

#[test]
fn watch_answers_scripts_once_and_wrong_names_are_told() {
    let shown = json(&["watch", "--all", "--count", "1"]);
    assert!(shown["connections"].is_array(), "{shown}");
    let wrong = cc(&["install", "asran_qubic"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("there are asran, asran_cubic"));
    let nowhere = cc(&["status", "--netns", "no-such-namespace"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/run/netns/no-such-namespace"));
}

#[test]
fn without_privileges_it_says_what_it_takes() {
    let name = "without_privileges_it_says_what_it_takes";
    let _held = hold();
    if !all("absent") {
        return println!("SKIPPED: {name}: they are installed on this machine, and stay so");
    }
    // In a user namespace of its own even root is nobody special.
    let output = Command::new("unshare")
        .args(["-Ur", env!("CARGO_BIN_EXE_fulmar"), "cc", "install"])
        .output();
    let said = match output {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => return println!("SKIPPED: {name}: unshare: {error}"),
    };
    if said.contains("unshare") {
        return println!("SKIPPED: {name}: {}", said.trim_end());
    }
    assert!(LACKS.iter().any(|cause| said.contains(cause)), "{said}");
}

#[test]
fn a_kernel_that_does_not_describe_its_types_is_told() {
    let name = "a_kernel_that_does_not_describe_its_types_is_told";
    let hide = "mount -t tmpfs none /sys/kernel/btf";
    let Some(output) = cc_where(name, hide, "install") else { return };
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    if !is_about(&output, "without clang") {
        assert!(is_about(&output, "/sys/kernel/btf/vmlinux is missing"), "{output:?}");
        assert!(is_about(&output, "CONFIG_DEBUG_INFO_BTF=y"), "{output:?}");
    }
    let Some(status) = cc_where(name, hide, "status") else { return };
    assert!(status.status.success(), "looking needs nothing: {status:?}");
}

#[test]
fn a_kernel_without_congestion_control_from_bpf_is_told() {
    let name = "a_kernel_without_congestion_control_from_bpf_is_told";
    // Type information that describes nothing: a header of version 1, no types, the empty string.
    let mut nothing = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
    nothing.extend([0_u32, 0, 0, 1].map(u32::to_le_bytes).concat());
    nothing.push(0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vmlinux");
    fs::write(&path, nothing).unwrap();
    let replace = format!("mount --bind {} /sys/kernel/btf/vmlinux", path.display());
    let Some(output) = cc_where(name, &replace, "install") else { return };
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    if !is_about(&output, "without clang") {
        assert!(is_about(&output, "takes no congestion control from BPF"), "{output:?}");
        assert!(is_about(&output, "Linux 6.4 or newer"), "{output:?}");
    }
}

/// Runs `fulmar cc` where `prepare`, a line for the shell, has changed what the kernel says of
/// itself; none, in plain sight, where the machine does not allow that.
fn cc_where(test: &str, prepare: &str, arguments: &str) -> Option<Output> {
    let program = env!("CARGO_BIN_EXE_fulmar");
    let line = format!("{prepare} || exit 77; exec {program} cc {arguments}");
    match Command::new("unshare").args(["-m", "sh", "-c", &line]).output() {
        Ok(output) if output.status.code() != Some(77) && !is_about(&output, "unshare:") => {
            Some(output)
        }
        output => {
            println!("SKIPPED: {test}: no mount namespace of its own: {output:?}");
            None
        }
    }
}

fn is_about(output: &Output, words: &str) -> bool {
    String::from_utf8_lossy(&output.stderr).contains(words)
}
