//! The text of the file: what this end needs, each key with a comment.

use std::net::SocketAddr;

use toml_edit::Value;

use super::arguments::{Autopilot, Tunnel};
use super::found::Links;

/// The speed of a port whose autopilot was not heard: what both autopilots' telemetry ports have by
/// default.
pub(super) const USUAL_BAUD: u32 = 57_600;

const HEAD: &str = "\
# Keys: docs/configuration.md; an example with all of them: dist/ROLE.toml, of the package /etc/fulmar/ROLE.toml.example.
# Made by fulmar init. fulmar check FILE says what is wrong with it, fulmar reload takes a change over.

role = \"ROLE\"
# The key of this computer alone. The other end gets its public half by fulmar pair.
private_key_file = \"private.key\"
";

const PATHS: &str = "
# One [[path]] for each link. An interface that is missing joins as soon as it appears. They lead to the endpoint of the
# station's [[peer]] section, which fulmar pair writes, with [tunnel], for video and ssh, where the station has one.
";

/// Writes a drone's file.
pub(super) fn drone(links: &Links, autopilot: &Autopilot) -> String {
    let mut text = HEAD.replace("ROLE", "drone");
    if links.ready.is_empty() {
        text += "\n# No link was up when this was written: fulmar pair writes a [[path]] for each that reaches the station.\n";
    } else {
        text += PATHS;
        for name in &links.ready {
            text += &format!("[[path]]\ninterface = {}\n", quoted(name));
        }
    }
    for name in &links.waiting {
        text += &format!(
            "\n# Down, or without an address, when this was written: without the # it is a path as well.\n\
             #[[path]]\n#interface = {}\n",
            quoted(name)
        );
    }
    text += "\n# The vehicle's MAVLink.\n[[mavlink]]\nname = \"autopilot\"\n";
    text += &match autopilot {
        Autopilot::Serial(device, baud) => format!(
            "kind = \"serial\"\ndevice = {}\n# As the autopilot's port has it: SERIALn_BAUD of ArduPilot, SER_xxx_BAUD of PX4.\n\
             baud = {}\n",
            quoted(&device.to_string_lossy()),
            baud.unwrap_or(USUAL_BAUD)
        ),
        Autopilot::Udp => {
            "# mavlink-router, or another program that has the port, sends to this address.\n\
                           kind = \"udp-server\"\naddress = \"127.0.0.1:14555\"\n"
                .into()
        }
    };
    text
}

/// Writes a station's file.
pub(super) fn station(listen: SocketAddr, ground_station: SocketAddr, tunnel: Tunnel) -> String {
    let mut text = HEAD.replace("ROLE", "station");
    text += &format!(
        "\n# Where drones find this station: UDP, to be open in the firewall and forwarded by a router.\n\
         [[listen]]\naddress = \"{listen}\"\n\
         \n# Where the ground station listens: QGroundControl and Mission Planner at UDP 14550.\n\
         [[mavlink]]\nname = \"ground-station\"\nkind = \"udp-client\"\naddress = \"{ground_station}\"\n"
    );
    text += &match tunnel {
        Tunnel::At(net) => format!(
            "\n# An IP network between the two ends, for video and ssh. Drones get their addresses by fulmar pair.\n\
             [tunnel]\naddress = [\"{net}\"]\n"
        ),
        Tunnel::None => "\n# An IP network between the two ends, for video and ssh:\n\
                         #[tunnel]\n#address = [\"10.77.0.1/24\"]\n"
            .into(),
    };
    text
}

/// Writes a text as TOML does.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{config, keys};

    /// Reads a text as it is written, then with what pairing adds: endpoints are read with their
    /// peer.
    fn config_of(text: &str) -> config::Config {
        let folder = tempfile::tempdir().unwrap();
        keys::write_new(&folder.path().join("private.key"), &keys::generate().unwrap()).unwrap();
        let file = folder.path().join("x.toml");
        let read = |text: &str| {
            config::parse(text, &file).unwrap_or_else(|error| panic!("{error}\n{text}"))
        };
        let alone = read(text);
        assert_eq!(alone.warnings.len(), 1, "only that there is no peer: {:?}", alone.warnings);
        let key = keys::generate().unwrap().public();
        let mut paired = format!(
            "{text}\n[[peer]]\nname = \"other\"\npublic_key = \"{key}\"\nendpoint = [\"192.0.2.1:14700\"]\n"
        );
        if text.contains("role = \"drone\"") && !text.contains("\n[[path]]") {
            paired += "[[path]]\ninterface = \"wlan0\"\n";
        }
        read(&paired)
    }

    #[test]
    fn every_combination_is_a_valid_file() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let device = |name: &str, baud| Autopilot::Serial(Path::new(name).into(), baud);
        let odd = "/dev/serial/by-id/a \"quoted\" \\ name:1";
        for ready in [names(&[]), names(&["wlan0"]), names(&["wlan0", "wwan0", "a\"b"])] {
            for waiting in [names(&[]), names(&["eth0"])] {
                for autopilot in
                    [Autopilot::Udp, device("/dev/ttyAMA0", Some(921_600)), device(odd, None)]
                {
                    let links = Links { ready: ready.clone(), waiting: waiting.clone() };
                    let text = drone(&links, &autopilot);
                    let last = text.lines().last().unwrap_or_default();
                    assert!(!last.starts_with('#'), "sections of pairing would precede: {last}");
                    let config = config_of(&text);
                    assert_eq!(config.endpoints.len(), 1);
                    if let Autopilot::Serial(device, baud) = autopilot {
                        let baud = baud.unwrap_or(USUAL_BAUD);
                        assert_eq!(
                            config.endpoints[0].kind,
                            config::EndpointKind::Serial(
                                device,
                                config::Line { baud, rts_cts: false }
                            )
                        );
                    }
                }
            }
        }
        let address = |text: &str| text.parse().unwrap();
        for listen in ["0.0.0.0:14700", "[::]:1"] {
            for tunnel in ["10.77.0.1/24", "fd00::1/64"].map(|net| Tunnel::At(net.parse().unwrap()))
            {
                let config =
                    config_of(&station(address(listen), address("127.0.0.1:14550"), tunnel));
                assert_eq!(
                    (config.listens[0].address, config.tunnel.is_some()),
                    (address(listen), true)
                );
            }
            let config = config_of(&station(address(listen), address("[::1]:14550"), Tunnel::None));
            assert!(config.tunnel.is_none() && config.endpoints.len() == 1);
        }
    }
}
