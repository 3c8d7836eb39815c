//! What the process of a daemon may do: what its file needs, and no more.

use std::fs;
use std::process::{Command, Output};

use sys::sandbox;

use crate::rig::{Daemon, Rig, inside_with_tunnels};

const DAC_OVERRIDE: u64 = 1 << 1;
const NET_ADMIN: u64 = 1 << 12;
/// Nothing beyond the kernel's usual limit.
const SMALL: &str = "[transport]\nreceive_buffer_bytes = 131072\n";

/// Reads what each thread of a daemon may do, and could take back.
fn rights(daemon: &Daemon) -> Vec<u64> {
    let threads = fs::read_dir(format!("/proc/{}/task", daemon.process())).unwrap();
    let of_thread = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap();
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"].map(set).iter().fold(0, |all, one| all | one)
    };
    threads.map(|thread| of_thread(thread.unwrap())).collect()
}

fn reload(daemon: &Daemon) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.args(["reload", "--socket"]).arg(daemon.socket()).output().unwrap()
}

#[test]
fn a_daemon_keeps_the_rights_that_its_file_needs_and_no_other() {
    if !sandbox::inside("rights::a_daemon_keeps_the_rights_that_its_file_needs_and_no_other") {
        return;
    }
    let rig = Rig::new(1);
    let records = rig.directory.path().join("records");
    let more = format!("{SMALL}[record]\ndirectory = \"{}\"\n", records.display());
    let station = rig.start_station(&more);
    let drone = rig.start_drone(&[0], SMALL);
    drone.wait_for_paths(1);
    let of_station = rights(&station);
    assert!(of_station.len() > 1, "the recorder's thread is looked at too");
    for rights in rights(&drone).into_iter().chain(of_station) {
        assert_eq!(rights, DAC_OVERRIDE, "files of others, as root in its namespace: {rights:x}");
    }
    assert!(drone.log().contains("CAP_NET_ADMIN"), "{}", drone.log());
    let file = rig.directory.path().join("drone.toml");
    let before = fs::read_to_string(&file).unwrap();
    let low = "[[control]]\nname = \"low\"\nchannel = 9\nkind = \"udp-server\"\naddress = \"127.0.0.1:80\"\n";
    fs::write(&file, format!("{before}{low}")).unwrap();
    let output = reload(&drone);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("CAP_NET_BIND_SERVICE"), "{said}");
    assert!(said.contains("restart the daemon"), "{said}");
    fs::write(&file, before + &low.replace(":80", ":8080")).unwrap();
    let output = reload(&drone);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_daemon_with_a_tunnel_keeps_the_right_to_it() {
    if !inside_with_tunnels("rights::a_daemon_with_a_tunnel_keeps_the_right_to_it") {
        return;
    }
    let rig = Rig::new(1);
    let more = format!("{SMALL}[tunnel]\ninterface = \"t0\"\naddress = \"10.77.0.2/24\"\n");
    let station = rig.start_station("");
    let drone = rig.start_drone(&[0], &more);
    drone.wait_for_paths(1);
    station.wait_for_paths(1);
    for rights in rights(&drone) {
        assert_eq!(rights, DAC_OVERRIDE | NET_ADMIN, "{rights:x}");
    }
}
