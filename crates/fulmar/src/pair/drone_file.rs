//! What a drone's file is given when it is paired: the station as its peer, paths where it has
//! none, its addresses in the tunnel.

use ipnet::IpNet;
use proto::PublicKey;
use toml_edit::{DocumentMut, Item, Table};

use super::links::Link;
use crate::config::{Config, Remote};
use crate::edit::sections::{self, NewPeer, put_peer, sections, set, set_list};

/// What a station is called unless the file has a name for it.
const STATION: &str = "ground";

/// What is known of the station.
pub(super) struct Station<'s> {
    pub(super) key: &'s PublicKey,
    /// Where it may be found.
    pub(super) remotes: &'s [Remote],
    /// The links over which it answered.
    pub(super) links: &'s [Link],
    pub(super) addresses: &'s [IpNet],
    /// The drone's addresses in the tunnel.
    pub(super) own_addresses: &'s [IpNet],
}

/// Decides what the station is called in a file: as it is already, or as the one whose place it
/// takes.
///
/// # Errors
/// Where the file has another station and this one is not to take its place.
pub(super) fn name_for(
    config: &Config,
    station: &PublicKey,
    replace: bool,
) -> Result<String, String> {
    if let Some(known) = config.peers.iter().find(|peer| peer.key == *station) {
        return Ok(known.name.clone());
    }
    match config.peers.as_slice() {
        [] => Ok(STATION.into()),
        [only] if replace => Ok(only.name.clone()),
        [only] => Err(format!(
            "the file has another station, {} ({}): --replace lets the new one take its place",
            only.name, only.key
        )),
        several => Err(format!(
            "the file has {} other stations: remove those that it is not to have (fulmar peers remove NAME)",
            several.len()
        )),
    }
}

/// Puts the station into the file, under `name`.
pub(super) fn put_station(
    document: &mut DocumentMut,
    name: &str,
    secret_file: &str,
    station: &Station<'_>,
) {
    let key = station.key.to_string();
    let is_new = !sections::tables(document, "peer")
        .iter()
        .any(|peer| peer.get("public_key").and_then(Item::as_str) == Some(key.as_str()));
    let allowed: Vec<_> =
        station.addresses.iter().map(|net| IpNet::from(net.addr()).to_string()).collect();
    put_peer(document, &NewPeer { name, key: station.key, secret_file, allowed: &allowed });
    // Paths without addresses of their own follow the peer's, which are of one family.
    let is_ipv6 = |remote: &Remote| remote.address().is_some_and(|address| address.is_ipv6());
    let of_links = station.links.first().map_or(station.remotes, |link| &link.remotes);
    let family = of_links.first().is_some_and(is_ipv6);
    let shared: Vec<_> =
        station.remotes.iter().filter(|remote| is_ipv6(remote) == family).collect();
    let texts: Vec<_> = shared.iter().map(ToString::to_string).collect();
    for peer in sections(document, "peer").iter_mut() {
        if peer.get("name").and_then(Item::as_str) == Some(name) {
            set_list(peer, "endpoint", &texts);
        }
    }
    if !sections::has(document, "path") {
        for link in station.links {
            let mut path = Table::new();
            if link.name != link.interface {
                set(&mut path, "name", &link.name);
            }
            set(&mut path, "interface", &link.interface);
            if !link.remotes.iter().all(|remote| is_ipv6(remote) == family) {
                let remotes: Vec<_> = link.remotes.iter().map(Remote::to_string).collect();
                set_list(&mut path, "remote", &remotes);
            }
            sections(document, "path").push(path);
        }
    } else if is_new {
        // Where the old station was, the new one is not.
        for path in sections(document, "path").iter_mut() {
            path.remove("remote");
        }
    }
    if !station.own_addresses.is_empty() {
        let own: Vec<_> = station.own_addresses.iter().map(IpNet::to_string).collect();
        let tunnel = document.entry("tunnel").or_insert_with(|| Item::Table(Table::new()));
        if let Some(tunnel) = tunnel.as_table_mut() {
            set_list(tunnel, "address", &own);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::StaticSecret;

    use super::*;

    fn link(interface: &str, remotes: &[&str]) -> Link {
        let remotes = remotes.iter().map(|text| text.parse().unwrap()).collect();
        let name = if interface == "both" { "both-ipv6" } else { interface }.to_owned();
        Link { name, interface: interface.into(), remotes }
    }

    /// A file after the station with this key was put into it.
    fn put(text: &str, name: &str, seed: u8, links: &[Link]) -> String {
        let key = StaticSecret::generate([seed; 32]).public();
        let remotes: Vec<_> = links.iter().flat_map(|link| link.remotes.clone()).collect();
        let nets = ["10.77.0.1/24", "10.77.0.2/24"].map(|net| net.parse().unwrap());
        let mut document = text.parse().unwrap();
        let station = Station {
            key: &key,
            remotes: &remotes,
            links,
            addresses: &nets[..1],
            own_addresses: &nets[1..],
        };
        put_station(&mut document, name, "ground.psk", &station);
        document.to_string()
    }

    #[test]
    fn an_empty_file_is_given_peer_paths_and_tunnel() {
        let links = [link("wlan0", &["192.0.2.1:14700"]), link("both", &["[2001:db8::5]:14700"])];
        let text =
            put("role = \"drone\" # ours\n\n[log]\nlevel = \"debug\"\n", "ground", 1, &links);
        for part in [
            "role = \"drone\" # ours",
            "[log]\nlevel = \"debug\"",
            "endpoint = [\"192.0.2.1:14700\"]",
            "allowed_addresses = [\"10.77.0.1/32\"]",
            "[[path]]\ninterface = \"wlan0\"\n\n",
            "[[path]]\nname = \"both-ipv6\"\ninterface = \"both\"\nremote = [\"[2001:db8::5]:14700\"]\n",
            "[tunnel]\naddress = [\"10.77.0.2/24\"]",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(put(&text, "ground", 1, &links), text, "once is enough");
    }

    #[test]
    fn another_station_takes_the_place_of_the_first_and_paths_follow_it() {
        let text = put("[[path]]\ninterface = \"wlan0\" # the only one\n", "ground", 1, &[]);
        let old = text.replace("# the only one", "# the only one\nremote = \"198.51.100.1:1\"");
        let new = put(&old, "ground", 2, &[link("wlan0", &["192.0.2.1:14700"])]);
        assert!(new.contains("# the only one") && !new.contains("198.51.100.1"), "{new}");
        assert_eq!(new.matches("[[p").count(), 2, "{new}");
    }
}
