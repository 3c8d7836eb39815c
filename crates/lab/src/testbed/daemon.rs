//! Two fulmar daemons on a copy of the links, and relays between them where there are any: their
//! files, their processes, their end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use proto::StaticSecret;
use serde_json::Value;
use tempfile::TempDir;

use super::links::{Copy, Side};
use super::relays::RelayPlan;
use crate::scheme::{Carried, SessionScheme};

/// Port of the local endpoint whose every datagram is control.
pub(crate) const DECLARED_PORT: u16 = 14_800;
/// Port of the local MAVLink endpoint.
pub(crate) const MAVLINK_PORT: u16 = 14_550;
/// Port of the local endpoint of which the newest datagram wins.
pub(crate) const LIVE_PORT: u16 = 14_801;
/// Port of the local endpoint of messages.
pub(crate) const MESSAGES_PORT: u16 = 14_802;
/// Port of the local MAVLink endpoint of telemetry: one of its own, for an endpoint gives all that
/// comes to each of its applications.
pub(crate) const TELEMETRY_PORT: u16 = 14_803;
/// Port of the daemons on the links.
const LINK_PORT: u16 = 14_700;
/// The longest packet of the tunnel, bytes: what IPv6 needs, and the daemon's own choice.
const TUNNEL_MTU: u16 = 1_280;
/// How long a daemon may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(3);

/// Returns a side's address in the tunnel.
pub(crate) fn tunnel_address(side: Side) -> Ipv4Addr {
    match side {
        Side::Station => Ipv4Addr::new(10, 99, 0, 1),
        Side::Drone => Ipv4Addr::new(10, 99, 0, 2),
    }
}

/// Says what stands in the files of a pair of daemons.
pub(crate) struct DaemonPlan<'a> {
    /// The lines of `[transport]`.
    pub(crate) transport: &'a str,
    /// What the drone's file says of the path over each link.
    pub(crate) path_lines: &'a dyn Fn(usize) -> String,
    /// What carries the paths, where it is not UDP alone.
    pub(crate) carried: Option<Carried>,
    /// The sections of the local endpoints; given the side and the folder in which sockets may lie.
    pub(crate) endpoints: &'a dyn Fn(Side, &Path) -> String,
    /// The longest packet of their tunnel in bytes; none where they have none.
    pub(crate) tunnel_mtu: Option<u16>,
    /// The relays between them, where there are any: in place of links.
    pub(crate) relays: Option<&'a RelayPlan>,
    /// Whether they run before ordinary programs.
    pub(crate) realtime: bool,
    /// Tells pairs on the same hosts apart.
    pub(crate) pair: u16,
}

/// Two running daemons, and relays between them; dropping it ends them.
pub(crate) struct Daemons {
    /// By the name of the host; station and drone first.
    children: Vec<(String, Child)>,
    /// Configurations, keys and logs; removed with it.
    folder: TempDir,
}

impl Daemons {
    /// Writes configurations for a scheme and starts both daemons in their hosts.
    ///
    /// # Errors
    /// When the program `fulmar` cannot be found or started.
    pub(crate) fn start(scheme: SessionScheme, copy: &Copy<'_>) -> Result<Self, String> {
        let plan = DaemonPlan {
            transport: scheme.daemon_lines(),
            path_lines: &|link| {
                let backup = if scheme.is_backup(link) { "backup = true\n" } else { "" };
                let cost = copy.cost(link).map(|cost| format!("cost = {cost:?}\n"));
                // A record calls the link as the scenario does, not as its numbered copy.
                let name = copy.records().map(|_| format!("name = \"{}\"\n", copy.link(link)));
                backup.to_owned() + &cost.unwrap_or_default() + &name.unwrap_or_default()
            },
            carried: scheme.carried(),
            endpoints: &|side, _| local_endpoints(scheme) + &record_section(scheme, side, copy),
            tunnel_mtu: Some(TUNNEL_MTU),
            relays: None,
            realtime: false,
            pair: 0,
        };
        Self::start_with(&plan, copy)
    }

    /// Starts daemons as a plan says.
    ///
    /// # Errors
    /// As of [`Daemons::start`].
    pub(crate) fn start_with(plan: &DaemonPlan<'_>, copy: &Copy<'_>) -> Result<Self, String> {
        let program = program()?;
        let describe = |error: io::Error| format!("prepare the daemons' files: {error}");
        // Keys lie in it: it is the user's alone, and goes with the daemons.
        let folder = tempfile::Builder::new().prefix("fulmar-lab-").tempdir().map_err(describe)?;
        let directory = folder.path();
        let mut secrets = Vec::new();
        for _ in Side::BOTH {
            secrets.push(StaticSecret::generate(sys::entropy::seed().map_err(describe)?));
        }
        let [station, drone] = secrets.as_slice() else {
            return Err("two sides have two keys".to_owned());
        };
        let mut files = Vec::new();
        for (side, own, peer) in [(Side::Station, station, drone), (Side::Drone, drone, station)] {
            files.push((
                side.name().to_owned(),
                configuration(plan, copy, side, own, peer, directory)?,
            ));
        }
        if let Some(relays) = plan.relays {
            let key = StaticSecret::generate(sys::entropy::seed().map_err(describe)?);
            write_private(&relays.key_file(directory), &text_of(&key)).map_err(describe)?;
            files.extend(relays.files(plan.realtime, copy, directory));
        }
        // What was started already ends with this, should a later one not start.
        let mut daemons = Self { children: Vec::new(), folder };
        for (host, text) in files {
            let child = spawn(&program, copy, &host, &text, daemons.folder.path())?;
            daemons.children.push((host, child));
        }
        Ok(daemons)
    }

    /// Returns the folder of the daemons' files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the processor time of all so far; none where one has ended.
    pub(crate) fn processor_time(&self) -> Option<units::Duration> {
        let time = |(_, child): &(String, Child)| sys::realtime::processor_time(child.id());
        self.children.iter().map(time).sum()
    }

    /// Returns what a side's daemon says of itself: what `fulmar status --json` prints.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn status(&self, side: Side) -> Result<Value, String> {
        self.status_of(side.name())
    }

    /// Returns the same of the daemon in any host, by its name in the scenario.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn status_of(&self, host: &str) -> Result<Value, String> {
        let describe =
            |error: &dyn std::fmt::Display| format!("status of the {host} daemon: {error}");
        let mut text = String::new();
        let path = socket_path(self.folder.path(), host);
        let read = UnixStream::connect(path).and_then(|mut socket| {
            socket.set_read_timeout(Some(GRACE))?;
            socket.read_to_string(&mut text)
        });
        read.map_err(|error| describe(&error))?;
        serde_json::from_str(&text).map_err(|error| describe(&error))
    }

    /// Says so when a daemon has ended, with the end of what it logged.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        for (host, child) in &mut self.children {
            if let Ok(Some(status)) = child.try_wait() {
                let path = log_path(self.folder.path(), host);
                let log = fs::read_to_string(path).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(8)..].join("\n");
                return Err(format!("the {host} daemon ended with {status}:\n{last}"));
            }
        }
        Ok(())
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for (_, child) in &self.children {
            // It may have ended by itself; then there is nobody to ask.
            let _ = sys::signals::terminate(child);
        }
        let deadline = Instant::now() + GRACE;
        for (_, child) in &mut self.children {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(20));
            }
            // Errors mean that it has ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the socket of a daemon's status.
pub(super) fn socket_path(directory: &Path, host: &str) -> PathBuf {
    directory.join(format!("{host}.sock"))
}

/// Finds the daemon: beside this program, else in PATH.
fn program() -> Result<PathBuf, String> {
    let beside = std::env::current_exe().ok().and_then(|lab| Some(lab.parent()?.join("fulmar")));
    if let Some(path) = beside.filter(|path| path.is_file()) {
        return Ok(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("fulmar"));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        "the daemon `fulmar` is neither beside fulmar-lab nor in PATH: build it with \
         `cargo build --release -p fulmar`"
            .to_owned()
    })
}

fn spawn(
    program: &Path,
    copy: &Copy<'_>,
    host: &str,
    text: &str,
    directory: &Path,
) -> Result<Child, String> {
    let file = directory.join(format!("{host}.toml"));
    let describe = |error: io::Error| format!("start the {host} daemon: {error}");
    write_private(&file, text).map_err(describe)?;
    let log = File::create(log_path(directory, host)).map_err(describe)?;
    let errors = log.try_clone().map_err(describe)?;
    let mut command = Command::new(program);
    command.arg("run").arg(&file).stdin(Stdio::null()).stdout(log).stderr(errors);
    copy.emulation().spawn(&copy.named(host), command).map_err(describe)
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

fn log_path(directory: &Path, host: &str) -> PathBuf {
    directory.join(format!("{host}.log"))
}

/// Writes a secret key in the form of a public one: base64 of 32 bytes.
fn text_of(secret: &StaticSecret) -> String {
    proto::PublicKey(secret.to_bytes()).to_string()
}

/// Writes the file of one daemon.
fn configuration(
    plan: &DaemonPlan<'_>,
    copy: &Copy<'_>,
    side: Side,
    own: &StaticSecret,
    peer: &StaticSecret,
    directory: &Path,
) -> Result<String, String> {
    let mut text = format!(
        "role = \"{}\"\nrealtime = {}\nprivate_key = \"{}\"\n\n",
        side.name(),
        plan.realtime,
        text_of(own),
    );
    text += &format!(
        "[[peer]]\nname = \"{}\"\npublic_key = \"{}\"\nallowed_addresses = [\"{}/32\"]\n\n",
        side.other().name(),
        peer.public(),
        tunnel_address(side.other()),
    );
    let port = LINK_PORT + plan.pair;
    if let Some(relays) = plan.relays {
        text += &relays.gateway_sections(side, copy, directory);
    }
    for link in 0..copy.link_count() {
        let interface = copy.interface(link);
        let station = copy.address(Side::Station, link)?;
        text += &match side {
            Side::Station => listens(plan.carried, &interface, &format!("{station}:{port}")),
            Side::Drone => {
                let lines = (plan.path_lines)(link)
                    + &carrier_lines(plan.carried, &format!("{station}:{port}"));
                format!(
                    "[[path]]\ninterface = \"{interface}\"\nremote = \"{station}:{port}\"\n{lines}"
                )
            }
        };
    }
    if let Some(mtu) = plan.tunnel_mtu {
        let address = tunnel_address(side);
        text += &format!("\n[tunnel]\naddress = [\"{address}/24\"]\nmtu = {mtu}\n");
    }
    text += &format!("\n[transport]\n{}", plan.transport);
    text += &(plan.endpoints)(side, directory);
    let socket = socket_path(directory, side.name());
    text += &format!("\n[status]\nsocket = \"{}\"\n", socket.display());
    Ok(text)
}

/// Returns the sections by which a station listens at an address: for each carrier one.
fn listens(carried: Option<Carried>, interface: &str, address: &str) -> String {
    let udp = format!("[[listen]]\nname = \"{interface}\"\naddress = \"{address}\"\n");
    let tcp = format!(
        "[[listen]]\nname = \"{interface} tcp\"\naddress = \"{address}\"\ncarrier = \"tcp\"\n"
    );
    match carried {
        None => udp,
        Some(Carried::Auto) => udp + &tcp,
        Some(Carried::Tcp | Carried::TcpOne) => tcp,
    }
}

/// Returns what a drone's file says of the carrier of a path.
fn carrier_lines(carried: Option<Carried>, address: &str) -> String {
    match carried {
        None => String::new(),
        Some(Carried::Auto) => format!("carrier = \"auto\"\nfallback = \"{address}\"\n"),
        Some(Carried::Tcp) => "carrier = \"tcp\"\n".to_owned(),
        Some(Carried::TcpOne) => "carrier = \"tcp\"\nconnections = 1\n".to_owned(),
    }
}

/// Returns the section of the flight record, where one is kept: a folder for each scheme and side.
fn record_section(scheme: SessionScheme, side: Side, copy: &Copy<'_>) -> String {
    let Some(records) = copy.records() else { return String::new() };
    let directory = records.join(scheme.about().name).join(side.name());
    format!("\n[record]\ndirectory = {:?}\n", directory.display().to_string())
}

/// Returns the sections of the local endpoints.
fn local_endpoints(scheme: SessionScheme) -> String {
    let copies = scheme.daemon_copies();
    let control = |name: &str, channel: u8, port: u16| {
        format!(
            "\n[[control]]\nname = \"{name}\"\nchannel = {channel}\n\
             address = \"127.0.0.1:{port}\"\n{copies}"
        )
    };
    // The newest wins, for as long as the policy of set-points says.
    let ttl_ms = proto::select::Policy::LIVE.ttl.as_millis();
    let live = control("live", 12, LIVE_PORT) + &format!("order = \"latest\"\nttl_ms = {ttl_ms}\n");
    let messages = format!(
        "\n[[message]]\nname = \"messages\"\nchannel = 30\nkind = \"udp-server\"\n\
         address = \"127.0.0.1:{MESSAGES_PORT}\"\n"
    );
    // Frames are known by their bytes: they keep their numbers.
    let mavlink = |name: &str, lines: &str, port: u16| {
        format!(
            "\n[[mavlink]]\nname = \"{name}\"\n{lines}kind = \"udp-server\"\n\
             address = \"127.0.0.1:{port}\"\nradio_status_hz = 0\nstatustext = false\n\
             renumber = false\n"
        )
    };
    let telemetry = mavlink("telemetry", "channel = 13\n", TELEMETRY_PORT);
    let declared = control("declared", 10, DECLARED_PORT) + &live;
    // A session without copies: MAVLink too is reliable, on one path at a time.
    let flight = if scheme.is_fulmar() {
        mavlink("mavlink", "", MAVLINK_PORT)
    } else {
        control("mavlink", 11, MAVLINK_PORT)
    };
    declared + &flight + &messages + &telemetry + &scheme.daemon_sections()
}
