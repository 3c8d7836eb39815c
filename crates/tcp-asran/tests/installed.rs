//! Algorithms that outlive their installer: installed, used by others, repaired, removed.
//!
//! One test only, because the machine has one set of names; where these are in use already, nothing
//! is touched.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fulmar_tcp_asran::{
    Error, Flavour, Installed, Loaded, State, flows, install, remove, set_default, status,
};
use libbpf_rs::Link;
use libbpf_rs::query::LinkTypeInfo;
use sys::bpf_filesystem;
use sys::byte_stream::{Transport, connect};
use sys::netns::Namespace;

const PINS: &str = "/sys/fs/bpf/fulmar";
/// Tells the test below that it is the program that uses an algorithm.
const ALGORITHM: &str = "FULMAR_CC_TEST_ALGORITHM";
/// A user without privileges, on every Linux.
const NOBODY: u32 = 65_534;

fn states() -> Vec<State> {
    status().expect("status needs nothing").flavours.into_iter().map(|(_, state)| state).collect()
}

/// Keeps other runs of this test waiting.
fn hold() -> File {
    let folder = std::env::temp_dir().join("fulmar-cc-test");
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    bpf_filesystem::hold(&folder, std::time::Duration::from_secs(60)).expect("flock")
}

#[test]
fn installed_algorithms_outlive_their_installer_until_removed() {
    let name = "installed_algorithms_outlive_their_installer_until_removed";
    let _held = hold();
    if states().iter().any(|state| *state != State::Absent) {
        return println!("SKIPPED: {name}: they are installed on this machine, and stay so");
    }
    match Loaded::load(&[Flavour::AsranCubic], "") {
        Ok(somebody_elses) => a_taken_name_is_told_and_nothing_is_left(somebody_elses),
        Err(error @ Error::Refused { .. }) => panic!("{error}"),
        Err(error) => return println!("SKIPPED: {name}: {error}"),
    }
    match install(&[Flavour::Asran]) {
        Ok(done) => assert_eq!(done.added, [Flavour::Asran]),
        Err(error @ Error::Refused { .. }) => panic!("{error}"),
        Err(error) => return println!("SKIPPED: {name}: {error}"),
    }
    let all = install(&Flavour::ALL).expect("the rest");
    assert_eq!(
        (all.kept.as_slice(), all.added.len()),
        (&[Flavour::Asran][..], Flavour::ALL.len() - 1)
    );
    let again = install(&Flavour::ALL).expect("a second time");
    assert_eq!(again, Installed { kept: Flavour::ALL.to_vec(), ..Installed::default() });
    assert!(states().iter().all(|state| *state == State::Installed));

    an_ordinary_user_in_another_namespace_may_use_them();
    a_half_done_install_is_mended();
    another_version_is_replaced();
    a_default_is_set_and_set_back();

    let objects = objects_of_ours();
    let removed = remove().expect("remove");
    assert_eq!(removed.flavours, Flavour::ALL);
    assert!(states().iter().all(|state| *state == State::Absent));
    assert!(!Path::new(PINS).exists());
    assert_eq!(remove().expect("nothing to remove").flavours, []);
    nothing_is_left_in_the_kernel(name, &objects);
}

/// Runs [`program_that_uses_an_algorithm`] as nobody, in a network namespace of its own.
fn an_ordinary_user_in_another_namespace_may_use_them() {
    let elsewhere = Namespace::create().unwrap();
    // A copy that everybody may run: the build folder may be closed to others.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for flavour in Flavour::ALL {
        let mut command = Command::new(&program);
        command.args(["--exact", "program_that_uses_an_algorithm", "--nocapture"]);
        command.env(ALGORITHM, flavour.name()).current_dir("/").uid(NOBODY).gid(NOBODY);
        elsewhere.run(|| sys::interface_setup::set_up("lo")).unwrap().unwrap();
        // Entering a namespace takes root, which the program has given up by then: so the thread
        // enters before it.
        let output = elsewhere.run(|| command.output()).unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("used as nobody"), "{output:?}");
    }
}

#[test]
fn program_that_uses_an_algorithm() {
    let Ok(algorithm) = env::var(ALGORITHM) else { return };
    assert!(fs::read_to_string("/proc/self/status").unwrap().contains("CapEff:\t0000000000000000"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    let stream = connect(Transport::Tcp, &algorithm, at, Duration::from_secs(5)).unwrap();
    let local = stream.local_addr().unwrap();
    let flow = flows().unwrap().into_iter().find(|flow| flow.socket.local == local).unwrap();
    assert_eq!(flow.socket.congestion, algorithm);
    println!("used as nobody: {algorithm}");
}

fn a_taken_name_is_told_and_nothing_is_left(somebody_elses: Loaded) {
    assert_eq!(states()[..2], [State::Absent, State::Foreign]);
    let error = install(&Flavour::ALL).expect_err("the name is taken");
    assert!(matches!(&error, Error::NameTaken { name } if name == "asran_cubic"), "{error}");
    assert_eq!(states()[..2], [State::Absent, State::Foreign]);
    assert_eq!(remove().expect("nothing to remove").flavours, []);
    drop(somebody_elses);
    assert!(states().iter().all(|state| *state == State::Absent));
}

/// In a namespace of its own: a test must not change the machine's default.
fn a_default_is_set_and_set_back() {
    let default = || fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let elsewhere = Namespace::create().unwrap();
    let removed = elsewhere.run(|| {
        sys::netns::set_parameter("net/ipv4/tcp_congestion_control", "reno").unwrap();
        set_default(Flavour::Asran).unwrap();
        assert_eq!(default(), "asran\n");
        set_default(Flavour::AsranCubic).unwrap();
        let removed = remove().unwrap();
        assert_eq!(default(), "reno\n", "what it was before");
        removed
    });
    assert_eq!(removed.unwrap().default.as_deref(), Some("reno"));
    install(&Flavour::ALL).expect("once more");
}

/// What a killed install leaves: a folder, a map, some of the registrations.
fn a_half_done_install_is_mended() {
    let generation = fs::read_dir(PINS).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(generation.join("asran_cubic")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while states()[1] != State::Absent && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mended = install(&Flavour::ALL).expect("mend");
    assert_eq!(mended.added, [Flavour::AsranCubic]);
    assert!(states().iter().all(|state| *state == State::Installed));
}

/// A generation of another version is one with another name.
fn another_version_is_replaced() {
    let generation = fs::read_dir(PINS).unwrap().next().unwrap().unwrap().path();
    fs::rename(&generation, Path::new(PINS).join("tcp-0123456789abcdef")).unwrap();
    assert!(states().iter().all(|state| *state == State::OtherVersion));
    let upgraded = install(&[Flavour::Asran]).expect("upgrade");
    assert_eq!(upgraded.replaced, Flavour::ALL, "what was installed stays installed");
    assert!(states().iter().all(|state| *state == State::Installed));
    assert_eq!(fs::read_dir(PINS).unwrap().count(), 1);
}

/// Returns the numbers of the objects in the kernel that our registrations hold.
fn objects_of_ours() -> Vec<u32> {
    let generation = fs::read_dir(PINS).unwrap().next().unwrap().unwrap().path();
    let object = |flavour: &Flavour| {
        let link = Link::open(generation.join(flavour.name())).unwrap();
        match link.info().unwrap().info {
            LinkTypeInfo::StructOps(found) => found.map_id,
            other => panic!("{other:?}"),
        }
    };
    Flavour::ALL.iter().map(object).collect()
}

/// The kernel frees them a moment after their names.
fn nothing_is_left_in_the_kernel(name: &str, objects: &[u32]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let output = match Command::new("bpftool").args(["-j", "struct_ops", "show"]).output() {
            Ok(output) => output,
            Err(error) => return println!("SKIPPED: {name} (what is left): bpftool: {error}"),
        };
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_left = |object: &&u32| shown.contains(&format!("\"id\":{object},"));
        let Some(object) = objects.iter().find(is_left) else { return };
        assert!(Instant::now() < deadline, "struct_ops {object} is left: {shown}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
