//! Files of relays and of gateways.

use std::path::PathBuf;

use proto::{RelayForm, RelaySide};

use super::*;

/// A folder with a key in it, and where a file of it would be.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("relay.key"), format!("{SECRET}\n")).unwrap();
    let file = folder.path().join("node.toml");
    (folder, file)
}

const RELAY: &str = "role = \"relay\"\n[relay]\nside = \"air\"\nnode = 3\ngroup_key_file = \"relay.key\"\n\
                     wire = { interface = \"eth0\" }\n\
                     radio = { interface = \"wlan0\", address = \"239.255.77.1:900\", rate_mbps = 5.5 }\n";
const GATEWAY: &str =
    "[[relay]]\nname = \"air\"\ngroup_key_file = \"relay.key\"\nwire = { interface = \"eth1\" }\n";

#[test]
fn a_relay_is_told_its_place_its_hops_and_the_rate_of_its_radio() {
    let (_folder, file) = folder();
    let Kind::Relay(relay) = parse_any(RELAY, &file).unwrap() else { panic!("no relay") };
    assert_eq!((relay.side, relay.number), (RelaySide::Air, 3));
    assert_eq!(relay.wire.interface, "eth0");
    assert_eq!(relay.wire.address.to_string(), "255.255.255.255:14710");
    assert_eq!(relay.radio.address.to_string(), "239.255.77.1:900");
    assert_eq!(relay.rate.as_bps(), 5_500_000);
    assert_eq!(relay.status, Path::new("/run/fulmar/node.sock"));
    let error = parse(RELAY, &file).unwrap_err().to_string();
    assert!(error.contains("is a relay's file"), "{error}");
}

#[test]
fn a_gateway_stands_at_the_side_of_its_role_and_sends_in_our_form_unless_it_is_told() {
    let (_folder, file) = folder();
    let path = "[[path]]\nrelay = \"air\"\n";
    let config = parse(&drone(&format!("{path}{GATEWAY}")), &file).unwrap();
    let [gateway] = config.relays.as_slice() else { panic!("one gateway") };
    assert_eq!((gateway.side, gateway.k), (RelaySide::Air, 4));
    assert_eq!(gateway.form, RelayForm::Ranked { f: None });
    let path = &config.paths[1];
    assert_eq!((path.name.as_str(), path.relay, path.remotes.len()), ("air", Some(0), 0));
    let station =
        "role = \"station\"\nprivate_key_file = \"relay.key\"\n[[listen]]\nrelay = \"air\"\n";
    let published = "form = \"published\"\nf = 2\nk = 8\n";
    let config = parse(&format!("{station}{GATEWAY}{published}"), &file).unwrap();
    let gateway = &config.relays[0];
    assert_eq!((gateway.side, gateway.k, gateway.listens), (RelaySide::Ground, 8, true));
    assert_eq!(gateway.form, RelayForm::Published { f: Some(2), r: 10 });
    assert!(config.listens.is_empty());
}

#[test]
fn a_relayed_link_that_nothing_uses_is_warned_of() {
    let (_folder, file) = folder();
    let config = parse(&drone(GATEWAY), &file).unwrap();
    assert!(config.warnings.iter().any(|it| it.contains("\"air\" is used by no")));
}
