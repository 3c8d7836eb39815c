//! Two hosts in network namespaces, links between them, and daemons that run on them.
//!
//! Only for tests inside `sys::sandbox`: everything goes when their process does.

use std::net::Ipv4Addr;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::interface_setup::{self, VethEnd};
use sys::netns::Namespace;
use sys::sandbox;
use tempfile::TempDir;

/// Runs a command of the book on a host.
pub(crate) fn on(host: &Namespace, command: &str) {
    let mut words = command.split(' ');
    let mut process = Command::new(words.next().unwrap());
    process.args(words);
    host.place(&mut process);
    let output = process.output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

/// Does what [`sandbox::inside`] does for a test whose daemons have tunnels, which some machines
/// give to root alone.
pub(crate) fn inside_with_tunnels(name: &str) -> bool {
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        sandbox::skip(name, &format!("open /dev/net/tun: {error}"));
        return false;
    }
    sandbox::inside(name)
}

/// A drone, a station, and links named `l0`, `l1`, … that have the same name at both ends.
pub(crate) struct Rig {
    pub(crate) drone: Namespace,
    pub(crate) station: Namespace,
    pub(crate) directory: TempDir,
    /// Where the station's daemon listens; drones look for it at port 14700.
    pub(crate) station_port: u16,
}

/// A daemon that runs; it is killed when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Rig {
    pub(crate) fn new(links: u8) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rig = Self {
            drone: Namespace::create().unwrap(),
            station: Namespace::create().unwrap(),
            directory,
            station_port: 14_700,
        };
        for host in [&rig.drone, &rig.station] {
            host.run(|| interface_setup::set_up("lo").unwrap()).unwrap();
        }
        for number in 0..links {
            rig.add_link(number);
        }
        for end in ["drone", "station"] {
            rig.make_keys(end);
        }
        rig
    }

    /// Makes the key pair of an end, and returns its public half.
    pub(crate) fn make_keys(&self, end: &str) -> String {
        let key = self.directory.path().join(format!("{end}.key"));
        let made = fulmar().args(["keygen", "--out"]).arg(&key).output().unwrap();
        assert!(made.status.success());
        std::fs::write(key.with_extension("pub"), &made.stdout).unwrap();
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }

    /// Adds link `number`: 192.168.number.1 on the drone, .2 at the station.
    pub(crate) fn add_link(&self, number: u8) {
        let name = format!("l{number}");
        let end =
            |namespace, last| VethEnd { name: &name, mac: [2, 0, 0, 0, number, last], namespace };
        interface_setup::create_veth(&end(&self.drone, 1), &end(&self.station, 2), 1_500).unwrap();
        for (host, last) in [(&self.drone, 1), (&self.station, 2)] {
            let address = Ipv4Addr::new(192, 168, number, last);
            host.run(|| {
                interface_setup::set_up(&name).unwrap();
                interface_setup::add_address(&name, address, 24).unwrap();
            })
            .unwrap();
        }
    }

    /// Starts the drone's daemon with a path over each of `links`, and `more` in its file.
    pub(crate) fn start_drone(&self, links: &[u8], more: &str) -> Daemon {
        let paths: String = links
            .iter()
            .map(|number| {
                format!(
                    "[[path]]\ninterface = \"l{number}\"\nremote = \"192.168.{number}.2:14700\"\n"
                )
            })
            .collect();
        let text = format!("{}{paths}{more}", self.head("drone", "station", "10.77.0.1/32"));
        self.start("drone", &self.drone, &text)
    }

    /// Starts the station's daemon, with `more` in its file.
    pub(crate) fn start_station(&self, more: &str) -> Daemon {
        let head = self.head("station", "drone", "10.77.0.2/32");
        let port = self.station_port;
        let text = format!("{head}[[listen]]\naddress = \"0.0.0.0:{port}\"\n{more}");
        self.start("station", &self.station, &text)
    }

    /// Starts a daemon from a file's text, and waits until it says that it is ready.
    pub(crate) fn start(&self, name: &str, host: &Namespace, text: &str) -> Daemon {
        self.start_by(fulmar(), name, host, text)
    }

    /// Does the same by a command, to which `run` and the file are added.
    pub(crate) fn start_by(
        &self,
        mut command: Command,
        name: &str,
        host: &Namespace,
        text: &str,
    ) -> Daemon {
        let directory = self.directory.path();
        let file = directory.join(format!("{name}.toml"));
        std::fs::write(&file, text).unwrap();
        let manager = directory.join(format!("{name}.notify"));
        let _ = std::fs::remove_file(&manager);
        let listener = UnixDatagram::bind(&manager).unwrap();
        listener.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        command.arg("run").arg(&file).env("NOTIFY_SOCKET", &manager);
        host.place(&mut command);
        let log = directory.join(format!("{name}.log"));
        command.stderr(std::fs::File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let daemon = Daemon { child, socket: directory.join(format!("{name}.sock")), log };
        let mut buffer = [0; 64];
        let length = listener.recv(&mut buffer).expect("the daemon says that it is ready");
        assert_eq!(&buffer[..length], b"READY=1");
        daemon
    }

    /// The part of a file that every daemon needs.
    pub(crate) fn head(&self, role: &str, peer: &str, allowed: &str) -> String {
        let directory = self.directory.path();
        let public = std::fs::read_to_string(directory.join(format!("{peer}.pub"))).unwrap();
        format!(
            "role = \"{role}\"\nprivate_key_file = \"{role}.key\"\n\
             [status]\nsocket = \"{}/{role}.sock\"\n\
             [[peer]]\nname = \"{peer}\"\npublic_key = \"{}\"\nallowed_addresses = \"{allowed}\"\n",
            directory.display(),
            public.trim(),
        )
    }
}

impl Daemon {
    /// Asks for the report, as a script does.
    pub(crate) fn status(&self) -> Value {
        let output =
            fulmar().args(["status", "--json", "--socket"]).arg(&self.socket).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Asks for the report, as a person does.
    pub(crate) fn table(&self) -> String {
        // As it is for a program: no terminal, no width.
        let mut command = fulmar();
        command.args(["status", "--socket"]).arg(&self.socket).env_remove("COLUMNS");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until the report is as wanted.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_for_within(10, what, wanted)
    }

    /// Waits for `seconds` at most until the report is as wanted.
    pub(crate) fn wait_for_within(
        &self,
        seconds: u64,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "waited in vain until {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the session has `paths` active paths.
    pub(crate) fn wait_for_paths(&self, paths: usize) -> Value {
        self.wait_for(&format!("{paths} paths are active"), |status| {
            let peer = &status["peers"][0];
            let all = peer["paths"].as_array().unwrap();
            let active = all.iter().filter(|path| path["state"] == "active").count();
            peer["connected"] == true && active == paths
        })
    }

    /// Returns the memory that it has touched and not given back.
    pub(crate) fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Returns what it has said so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it says something.
    pub(crate) fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.log().contains(text) {
            assert!(Instant::now() < deadline, "waited in vain for \"{text}\":\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}:\n{}", self.log.display(), self.log());
        }
    }
}

fn fulmar() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fulmar"))
}
