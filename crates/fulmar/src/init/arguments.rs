//! The arguments of `fulmar init`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::IpNet;

/// What `fulmar init --help` ends with.
pub(crate) const LONG: &str = "\
  station$ sudo fulmar init station      listens for drones, hands MAVLink to the ground station
  drone$   sudo fulmar init drone        looks for links, listens for the autopilot on the serial ports
  fulmar init drone ./drone.toml --interface wlan0 --interface wwan0 --serial /dev/ttyAMA0:921600

It asks on a terminal what the machine cannot tell; every question is an option too, and --yes takes the defaults. It
makes private.key beside the file where there is none. The file needs no [[peer]]: fulmar pair adds it at both ends.";

/// The end that a file is for.
#[derive(Debug, Subcommand)]
pub(crate) enum InitCommand {
    /// Write the drone's file: a path for each link, the autopilot where it is heard.
    Drone(DroneArguments),
    /// Write the station's file: where drones find it, and the ground station that they are for.
    Station(StationArguments),
}

/// What is known of a drone.
#[derive(Debug, Args)]
pub(crate) struct DroneArguments {
    /// The file to write.
    #[arg(default_value = "/etc/fulmar/drone.toml")]
    pub(super) file: PathBuf,
    /// A link's interface, once for each link; without it those with an address.
    #[arg(long, value_name = "NAME")]
    pub(super) interface: Vec<String>,
    /// The autopilot's serial port, such as /dev/ttyAMA0:921600; without the speed it is listened
    /// for. "udp" where mavlink-router or another program has the port.
    #[arg(long, value_name = "DEVICE[:BAUD]", value_parser = autopilot)]
    pub(super) serial: Option<Autopilot>,
    #[command(flatten)]
    pub(super) how: How,
}

/// What is known of a station.
#[derive(Debug, Args)]
pub(crate) struct StationArguments {
    /// The file to write.
    #[arg(default_value = "/etc/fulmar/station.toml")]
    pub(super) file: PathBuf,
    /// Where drones find this station.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:14700", value_parser = address)]
    pub(super) listen: SocketAddr,
    /// Where the ground station listens for MAVLink over UDP; asked without it, 127.0.0.1:14550.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(super) ground_station: Option<SocketAddr>,
    /// This station's address in the tunnel, which carries video and ssh; "none" for MAVLink alone.
    /// Asked without it.
    #[arg(long, value_name = "ADDRESS/NN", value_parser = tunnel)]
    pub(super) tunnel: Option<Tunnel>,
    #[command(flatten)]
    pub(super) how: How,
}

/// How either is done.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// Take the default of every question, and ask nothing.
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Write over the file, and keep the old one as FILE.old.
    #[arg(long)]
    pub(super) force: bool,
    /// Print one JSON object: what was found and written. Asks nothing.
    #[arg(long)]
    pub(super) json: bool,
}

/// Where MAVLink of the vehicle comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Autopilot {
    /// From a serial port; without its speed where that is not known.
    Serial(PathBuf, Option<u32>),
    /// From a program of this computer, such as mavlink-router.
    Udp,
}

/// A station's addresses in the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    At(IpNet),
    None,
}

/// Reads `DEVICE[:BAUD]` or `udp`.
pub(super) fn autopilot(text: &str) -> Result<Autopilot, String> {
    if text == "udp" {
        return Ok(Autopilot::Udp);
    }
    // Names in /dev/serial/by-id may have colons: only digits after the last one are a speed.
    let (device, baud) = match text.rsplit_once(':') {
        Some((device, baud)) if baud.parse::<u32>().is_ok() => (device, baud.parse::<u32>().ok()),
        _ => (text, None),
    };
    if baud.is_some_and(|baud| !(1_200..=12_000_000).contains(&baud)) {
        return Err("a speed is from 1200 to 12000000 baud".into());
    }
    if !device.starts_with('/') {
        return Err("a port is a path, such as /dev/ttyAMA0 or /dev/ttyAMA0:921600; or udp".into());
    }
    Ok(Autopilot::Serial(device.into(), baud))
}

/// Reads an address with a port that is not 0.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
    address.ok_or_else(|| "an address and port such as 127.0.0.1:14550 or [::1]:14550".into())
}

/// Reads an address with the length of its network, or `none`.
pub(super) fn tunnel(text: &str) -> Result<Tunnel, String> {
    if text == "none" {
        return Ok(Tunnel::None);
    }
    let at = text.parse::<IpNet>().ok();
    at.map(Tunnel::At).ok_or_else(|| "an address with prefix, such as 10.77.0.1/24; or none".into())
}
