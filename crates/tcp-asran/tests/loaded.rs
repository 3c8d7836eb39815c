//! Algorithms that live as long as a value: registered, used, gone.

use std::fs;

use fulmar_tcp_asran::{Error, Flavour, Loaded};

fn available() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("procfs")
}

#[test]
fn loaded_algorithms_are_listed_and_leave_with_their_owner() {
    let loaded = match Loaded::load_apart(&Flavour::ALL) {
        Ok(loaded) => loaded,
        Err(error @ Error::Refused { .. }) => panic!("{error}"),
        Err(error) => return println!("SKIPPED: loaded_algorithms_are_listed: {error}"),
    };
    let names = Flavour::ALL.map(|flavour| loaded.name(flavour).to_owned());
    for name in &names {
        assert!(available().split_whitespace().any(|listed| listed == name), "{name}");
    }
    drop(loaded);
    for name in &names {
        assert!(!available().split_whitespace().any(|listed| listed == name), "{name}");
    }
}
