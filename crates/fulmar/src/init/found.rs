//! What this machine has: links, serial ports, a network that the tunnel can have.

use std::fs;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use sys::interfaces::{self, Interface};

use crate::holders::{entries, holder};

/// Serial ports that are looked at, at most: each costs a thread.
const MAX_PORTS: usize = 16;
/// The kind of interface of PPP, an old modem's, which is no device of the kernel's (`ARPHRD_PPP`).
const PPP: &str = "512";
/// Names of serial ports: of USB, of Arm's UARTs, of Nvidia's, of PCs.
const PORTS: [&str; 5] = ["ttyACM", "ttyUSB", "ttyAMA", "ttyTHS", "ttyS"];

/// The links of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    /// Interfaces that are up and have an address, and with it a route.
    pub(super) ready: Vec<String>,
    /// Those of hardware that are down, or have no address yet.
    pub(super) waiting: Vec<String>,
}

/// A serial port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Its name, one that stays when ports are plugged in another order where there is one.
    pub(super) device: PathBuf,
    /// Why it is left alone, if it is.
    pub(super) taken: Option<String>,
}

/// Lists the interfaces of hardware: no loopback, no bridge, no container's, no tunnel.
///
/// # Errors
/// Those of netlink.
pub(super) fn links() -> Result<Links, String> {
    let all = interfaces::list().map_err(|error| format!("list the interfaces: {error}"))?;
    let is_hardware = |name: &str| {
        let place = Path::new("/sys/class/net").join(name);
        let kind = fs::read_to_string(place.join("type")).unwrap_or_default();
        place.join("device").exists() || kind.trim() == PPP
    };
    Ok(choose(&all, is_hardware))
}

/// Lists the serial ports that are really there, and says which of them are somebody's.
pub(super) fn ports() -> Vec<Port> {
    let consoles = fs::read_to_string("/sys/class/tty/console/active").unwrap_or_default();
    let consoles: Vec<_> = consoles.split_whitespace().collect();
    let devices = devices(Path::new("/dev"), Path::new("/sys/class/tty"));
    let taken = |device: &Path| {
        let real = device.canonicalize().ok()?;
        let name = real.file_name()?.to_str()?;
        if consoles.contains(&name) {
            return Some(
                "the kernel's console: raspi-config or the kernel's command line frees it".into(),
            );
        }
        holder(&real).map(|program| format!("in use by {program}"))
    };
    devices.into_iter().map(|device| Port { taken: taken(&device), device }).collect()
}

/// Returns a station's address in a network that this machine has no part in yet.
pub(super) fn free_tunnel() -> Option<IpNet> {
    let all = interfaces::list().unwrap_or_default();
    let used: Vec<_> = all.into_iter().flat_map(|interface| interface.addresses).collect();
    let nets = (77..=99).filter_map(|net| format!("10.{net}.0.1/24").parse::<IpNet>().ok());
    let mut free = nets.filter(|net| !used.iter().any(|address| net.contains(address)));
    free.next()
}

fn choose(all: &[Interface], is_hardware: impl Fn(&str) -> bool) -> Links {
    let mut links = Links::default();
    for interface in all.iter().filter(|interface| is_hardware(&interface.name)) {
        let is_ready = interface.running && !interface.addresses.is_empty();
        let list = if is_ready { &mut links.ready } else { &mut links.waiting };
        list.push(interface.name.clone());
    }
    links.ready.truncate(proto::MAX_PATHS);
    links.waiting.truncate(proto::MAX_PATHS);
    links
}

fn devices(dev: &Path, class: &Path) -> Vec<PathBuf> {
    let mut devices = entries(&dev.join("serial/by-id"));
    let known: Vec<_> = devices.iter().filter_map(|device| device.canonicalize().ok()).collect();
    for device in entries(dev) {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        let is_port = PORTS.iter().any(|port| {
            let number = name.strip_prefix(port);
            number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        });
        // The kernel makes ttyS0 to ttyS3 on any PC: without a chip they have the type 0.
        let kind = fs::read_to_string(class.join(&*name).join("type")).unwrap_or_default();
        let is_known = device.canonicalize().is_ok_and(|device| known.contains(&device));
        if is_port && kind.trim() != "0" && !is_known {
            devices.push(device);
        }
    }
    devices.truncate(MAX_PORTS);
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_of_hardware_and_those_without_an_address_wait() {
        let interface = |name: &str, running, addresses: &[&str]| {
            crate::interface::tests::interface(1, name, running, addresses)
        };
        let all = [
            interface("lo", true, &["127.0.0.1"]),
            interface("wlan0", true, &["192.0.2.7"]),
            interface("wwan0", false, &[]),
            interface("docker0", true, &["172.17.0.1"]),
            interface("eth0", true, &[]),
            interface("fulmar0", true, &["10.77.0.2"]),
        ];
        let found = choose(&all, |name| ["wlan0", "wwan0", "eth0"].contains(&name));
        assert_eq!(found.ready, ["wlan0"]);
        assert_eq!(found.waiting, ["wwan0", "eth0"]);
    }

    #[test]
    fn a_port_is_listed_once_and_one_without_a_chip_never() {
        let folder = tempfile::tempdir().unwrap();
        let (dev, class) = (folder.path().join("dev"), folder.path().join("class"));
        fs::create_dir_all(dev.join("serial/by-id")).unwrap();
        for (name, kind) in [("ttyS0", "4\n"), ("ttyS1", "0\n"), ("ttyS", "4\n"), ("tty1", "4\n")] {
            fs::create_dir_all(class.join(name)).unwrap();
            fs::write(class.join(name).join("type"), kind).unwrap();
            fs::write(dev.join(name), "").unwrap();
        }
        for name in ["ttyACM0", "ttyAMA10", "ttyUSBx"] {
            fs::write(dev.join(name), "").unwrap();
        }
        let by_id = dev.join("serial/by-id/usb-ArduPilot-if00");
        std::os::unix::fs::symlink("../../ttyACM0", &by_id).unwrap();
        let expected = [by_id, dev.join("ttyAMA10"), dev.join("ttyS0")];
        assert_eq!(devices(&dev, &class), expected);
        (0..40).for_each(|number| fs::write(dev.join(format!("ttyUSB{number}")), "").unwrap());
        assert_eq!(devices(&dev, &class).len(), MAX_PORTS);
    }

    #[test]
    fn who_has_a_port_open_is_named() {
        let line = sys::serial::PseudoTerminal::open().unwrap();
        assert_eq!(holder(line.device()), None);
        let _open =
            sys::serial::Serial::open(line.device(), 57_600, sys::serial::FlowControl::None)
                .unwrap();
        let number = std::process::id().to_string();
        assert!(holder(line.device()).is_some_and(|who| who.contains(&number)));
    }
}
