//! The commands, as an operator and a script meet them.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn fulmar(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn keys_are_made_once_and_their_public_half_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("private.key");
    let made = fulmar(&["keygen", "--out", path(&file)]);
    assert_eq!(made.status.code(), Some(0));
    let public = text(&made.stdout);
    assert_eq!(text(&fulmar(&["pubkey", path(&file)]).stdout), public);
    let again = fulmar(&["keygen", "--out", path(&file)]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("not overwritten"));

    let secret = fulmar(&["keygen"]).stdout;
    let mut pubkey = Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .arg("pubkey")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    pubkey.stdin.take().unwrap().write_all(&secret).unwrap();
    let public = pubkey.wait_with_output().unwrap().stdout;
    assert_eq!(public.len(), 45);
    assert_ne!(public, secret);
}

#[test]
fn the_shipped_example_of_a_relay_is_valid_beside_the_groups_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("relay.toml");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/relay.toml");
    std::fs::copy(shipped, &file).unwrap();
    let checked = fulmar(&["check", path(&file)]);
    assert!(text(&checked.stderr).contains("relay.group_key_file: "), "{checked:?}");
    assert!(
        fulmar(&["keygen", "--out", path(&directory.path().join("relay.key"))]).status.success()
    );
    let checked = fulmar(&["check", path(&file)]);
    assert!(text(&checked.stdout).contains("is valid; this is ground relay 1"), "{checked:?}");
}

#[test]
fn shipped_examples_are_valid_once_the_keys_are_in() {
    for example in ["drone.toml", "station.toml"] {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("private.key");
        assert!(fulmar(&["keygen", "--out", path(&key)]).status.success());
        let other = directory.path().join("other.key");
        let public = text(&fulmar(&["keygen", "--out", path(&other)]).stdout);
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(example);
        let shipped = std::fs::read_to_string(shipped).unwrap();
        let file = directory.path().join(example);

        std::fs::write(&file, &shipped).unwrap();
        let checked = fulmar(&["check", path(&file)]);
        assert_eq!(checked.status.code(), Some(1));
        let told = "-PUBLIC-KEY stands in the example in place of a key";
        assert!(text(&checked.stderr).contains(told), "{}", text(&checked.stderr));

        // Also with every default and example switched on, so that none of them is out of date.
        let mut whole = shipped.clone();
        for line in shipped.lines().filter(|line| line.starts_with("#") && is_setting(line)) {
            if !line.contains("preshared") && !line.contains("socket") {
                whole = whole.replacen(line, &line[1..], 1);
            }
        }
        for text in [&shipped, &whole] {
            let public = public.trim();
            let text = text
                .replace("STATION-PUBLIC-KEY", public)
                .replace("DRONE-PUBLIC-KEY", public)
                .replacen(
                    "name = \"autopilot\"\nkind = \"udp",
                    "name = \"router\"\nkind = \"udp",
                    1,
                );
            std::fs::write(&file, text).unwrap();
            let checked = fulmar(&["check", path(&file)]);
            assert_eq!(checked.status.code(), Some(0), "{}", self::text(&checked.stderr));
        }
    }
}

/// `#key = value` or `#[[section]]`, without a space as prose has it.
fn is_setting(line: &str) -> bool {
    line[1..].starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
}

#[test]
fn json_is_one_object_on_standard_output_and_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drone.toml");
    std::fs::write(&file, "role = \"dron\"").unwrap();
    let checked = fulmar(&["check", "--json", path(&file)]);
    assert_eq!(checked.status.code(), Some(1));
    let object: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(object["valid"], false);
    let problem = object["problems"][0].as_str().unwrap();
    assert!(problem.contains("drone.toml:1: role: \"dron\" is not one of"), "{problem}");

    let nowhere = directory.path().join("none.sock");
    let status = fulmar(&["status", "--json", "--socket", path(&nowhere)]);
    assert_eq!(status.status.code(), Some(1));
    let object: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(object["error"].as_str().unwrap().contains("none.sock"));
}

#[test]
fn what_is_shown_anew_every_second_steers_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("drone.sock");
    let daemon = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let answers = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut client, _) = daemon.accept().unwrap();
            client.write_all(br#"{"role":"drone\u001b[2J"}"#).unwrap();
        }
    });
    let watched = fulmar(&["status", "--watch", "--socket", path(&socket)]);
    answers.join().unwrap();
    assert!(text(&watched.stderr).contains("the daemon is gone"));
    let flows = fulmar(&["cc", "watch", "--count", "2"]);
    for shown in [text(&watched.stdout), text(&flows.stdout)] {
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
    assert_eq!(text(&watched.stdout).matches("drone").count(), 2);
}

#[test]
fn watched_json_is_one_object_on_each_line() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("drone.sock");
    let daemon = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let answers = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut client, _) = daemon.accept().unwrap();
            client.write_all(br#"{"role":"drone"}"#).unwrap();
        }
    });
    let watched = fulmar(&["status", "--watch", "--json", "--socket", path(&socket)]);
    assert_eq!(watched.status.code(), Some(1));
    answers.join().unwrap();
    let objects: Vec<serde_json::Value> =
        text(&watched.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 3);
    assert!(objects[..2].iter().all(|object| object["role"] == "drone"));
    assert!(objects[2]["error"].as_str().unwrap().contains("the daemon is gone"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("drone.sock");
    let daemon = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = daemon.accept() {
            client.write_all(br#"{"role":"drone"}"#).unwrap();
        }
    });
    let file = directory.path().join("wrong.toml");
    std::fs::write(&file, "role = \"dron\"").unwrap();
    let socket = path(&socket);
    for (arguments, code) in [
        (&["status", "--socket", socket][..], 0),
        (&["status", "--json", "--socket", socket], 0),
        (&["status", "--watch", "--socket", socket], 0),
        (&["status", "--watch", "--json", "--socket", socket], 0),
        (&["status", "--fields"], 0),
        (&["check", "--json", path(&file)], 1),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
        let ended = command.args(arguments).stdout(writer).output().unwrap();
        let told = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(!told.contains("panicked") && !told.contains("ipe"), "{arguments:?}: {told}");
    }
    // And nobody reads the complaint.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    let ended = command.args(["check", path(&file)]).stderr(writer).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn wrong_usage_ends_with_two_and_help_teaches() {
    for arguments in [
        &["fly"][..],
        &["run"],
        &["check"],
        &["run", "a.toml", "--config", "b.toml"],
        &["status", "--fields", "--watch"],
    ] {
        assert_eq!(fulmar(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let help = fulmar(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("First steps"));
    let run = fulmar(&["run", "/nonexistent.toml"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("cannot read"));
}

#[test]
fn check_looks_at_this_computer_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("private.key");
    assert!(fulmar(&["keygen", "--out", path(&key)]).status.success());
    let other = directory.path().join("other.key");
    let public = text(&fulmar(&["keygen", "--out", path(&other)]).stdout);
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let file = directory.path().join("drone.toml");
    // Nobody makes anything below a file, root included.
    let socket = format!("{}/drone.sock", path(&key));
    let config = format!(
        "role = \"drone\"\nprivate_key_file = \"private.key\"\n\
         [[peer]]\nname = \"station\"\npublic_key = \"{}\"\n\
         [[path]]\ninterface = \"nosuch0\"\nremote = \"192.0.2.1:14700\"\n\
         [tunnel]\naddress = \"10.77.0.2/24\"\n\
         [[mavlink]]\nname = \"autopilot\"\nkind = \"serial\"\ndevice = \"/dev/nosuch0\"\n\
         [[mavlink]]\nname = \"odd\"\nkind = \"serial\"\ndevice = \"/dev/null\"\nbaud = 57601\n\
         [[mavlink]]\nname = \"foreign\"\nkind = \"udp-server\"\naddress = \"192.0.2.77:14550\"\n\
         [[mavlink]]\nname = \"taken\"\nkind = \"udp-server\"\naddress = \"127.0.0.1:{port}\"\n\
         [[message]]\nname = \"log\\nger\"\nchannel = 9\nkind = \"seqpacket\"\npath = \"{socket}\"\n\
         [status]\nsocket = \"{socket}\"\n",
        public.trim()
    );
    std::fs::write(&file, config).unwrap();
    let checked = fulmar(&["check", path(&file)]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    let warnings = text(&checked.stderr);
    for what in [
        "path \"nosuch0\": no interface nosuch0",
        "endpoint \"autopilot\": there is no /dev/nosuch0",
        "endpoint \"odd\": 57601 baud is an odd speed",
        "endpoint \"foreign\": no interface of this host has 192.0.2.77",
        &format!("endpoint \"taken\": 127.0.0.1:{port} is in use"),
        "peer \"station\" has no allowed_addresses",
        &format!("status socket: {socket}: Not a directory (os error 20); [status] socket names"),
        &format!("endpoint \"log\\nger\": {socket}: Not a directory"),
    ] {
        assert!(warnings.contains(what), "{what}: {warnings}");
    }
    let json = text(&fulmar(&["check", "--json", path(&file)]).stdout);
    assert!(json.contains("no interface nosuch0"), "{json}");
}
