//! What a drone takes of a station's offer, and what it does not: the station may be a stranger's,
//! or be lied to itself.
//!
//! A tunnel's network is routed there as soon as the file is taken over. It must not carry off a
//! network that the drone is in, the station's own address or half of the world.

use std::net::IpAddr;

use ipnet::IpNet;
use proto::PublicKey;

use super::enrol::Offer;
use crate::config::{Remote, no_hosts};
use crate::keys;

/// The widest networks that are taken, in bits: a whole private block of IPv4, and of IPv6 what a
/// site's network is cut from.
const WIDEST: (u8, u8) = (8, 32);

/// What the drone knows by itself.
pub(super) struct Here<'h> {
    /// Whether it asked for addresses in a tunnel.
    pub(super) asked: bool,
    /// Where the station was found.
    pub(super) remotes: &'h [Remote],
    /// The networks of its interfaces, but for the tunnel's: name, address, bits.
    pub(super) networks: &'h [(String, IpAddr, u8)],
    /// Keys that others have seen.
    pub(super) public_keys: [PublicKey; 2],
}

/// Tells whether an offer is taken.
///
/// # Errors
/// Say in words why not.
pub(super) fn check(offer: &Offer, here: &Here<'_>) -> Result<(), String> {
    let secret = offer.secret()?.to_bytes();
    if keys::is_guessable(&secret) || here.public_keys.iter().any(|key| key.0 == secret) {
        return Err(refused("its secret is one that anybody could guess"));
    }
    let (ours, theirs) = (&offer.addresses, &offer.station_addresses);
    let has_any = !ours.is_empty() || !theirs.is_empty();
    if has_any && !here.asked {
        return Err(refused("it has addresses for a tunnel, which was not asked for"));
    }
    if ours.len() != theirs.len() {
        return Err(refused("it has not one address of the station for each of this drone"));
    }
    for (at, (own, station)) in ours.iter().zip(theirs).enumerate() {
        if own.trunc() != station.trunc() || own.addr() == station.addr() {
            return Err(refused(&format!(
                "{own} and {station} are no two addresses of one network"
            )));
        }
        if let Some(twice) = ours[..at].iter().find(|other| overlap(other, own)) {
            return Err(refused(&format!("{own} is of the same network as {twice}")));
        }
        for net in [own, station] {
            if let Some(why) = no_hosts(net).or_else(|| ill_fitting(net)) {
                return Err(refused(&format!("{net} {why}")));
            }
        }
        check_place(own, here)?;
    }
    Ok(())
}

/// Tells that a network in the tunnel is nowhere else.
fn check_place(own: &IpNet, here: &Here<'_>) -> Result<(), String> {
    let taken = here.networks.iter().find(|(_, address, bits)| {
        IpNet::new(*address, *bits).is_ok_and(|there| overlap(&there, own))
    });
    if let Some((interface, address, bits)) = taken {
        return Err(format!(
            "{}. Give the station's [tunnel] another network, or pair with --no-tunnel",
            refused(&format!("{own} is in the network of {interface} here ({address}/{bits})"))
        ));
    }
    let found = here.remotes.iter().filter_map(Remote::address).map(|address| address.ip());
    if let Some(station) = found.into_iter().find(|station| own.contains(station)) {
        return Err(refused(&format!(
            "the network of {own} holds the station's own address {station}"
        )));
    }
    Ok(())
}

fn ill_fitting(net: &IpNet) -> Option<&'static str> {
    let (is_link_local, is_wide) = match net {
        IpNet::V4(net) => (net.addr().is_link_local(), net.prefix_len() < WIDEST.0),
        IpNet::V6(net) => (net.addr().is_unicast_link_local(), net.prefix_len() < WIDEST.1),
    };
    let has_ends = matches!(net, IpNet::V4(net) if net.prefix_len() < 31);
    if is_link_local {
        return Some("is an address of one link alone (link-local)");
    }
    if is_wide {
        return Some("is wider than any tunnel's network");
    }
    let is_end = [net.network(), net.broadcast()].contains(&net.addr());
    (has_ends && is_end).then_some("is the network's own address, or that of all in it")
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(&other.trunc()) || other.contains(&one.trunc())
}

fn refused(why: &str) -> String {
    format!("the station's offer is not taken, and nothing was changed here: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(addresses: &[&str], station_addresses: &[&str]) -> Offer {
        let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Offer {
            name: "drone".into(),
            preshared_key: keys::encode(&keys::generate().unwrap()),
            addresses: nets(addresses),
            station_addresses: nets(station_addresses),
        }
    }

    fn try_offer(offer: &Offer, asked: bool) -> Result<(), String> {
        let networks =
            [("lo", "127.0.0.1", 8), ("eth0", "192.168.7.4", 24), ("wwan0", "10.9.8.7", 32)];
        let networks =
            networks.map(|(name, at, bits)| (name.to_owned(), at.parse().unwrap(), bits));
        let remotes = ["203.0.113.5:14700", "station.example.org:14700"];
        let remotes = remotes.map(|text| text.parse().unwrap());
        let public_keys = [PublicKey(std::array::from_fn(|at| at as u8)), PublicKey([7; 32])];
        check(offer, &Here { asked, remotes: &remotes, networks: &networks, public_keys })
    }

    #[test]
    fn what_stations_offer_is_taken() {
        for (own, station) in [
            (&[][..], &[][..]),
            (&["10.77.0.2/24"], &["10.77.0.1/24"]),
            (&["10.77.0.2/24", "fd77::2/64"], &["10.77.0.1/24", "fd77::1/64"]),
            (&["100.64.3.0/31"], &["100.64.3.1/31"]),
        ] {
            assert_eq!(try_offer(&offer(own, station), true), Ok(()), "{own:?}");
        }
        assert_eq!(try_offer(&offer(&[], &[]), false), Ok(()));
    }

    #[test]
    fn no_station_takes_a_network_that_is_not_its_to_give() {
        for (own, station, why) in [
            ("192.168.7.9/24", "192.168.7.1/24", "network of eth0 here (192.168.7.4/24)"),
            ("192.168.0.9/16", "192.168.0.1/16", "network of eth0"),
            ("192.168.7.130/25", "192.168.7.129/25", "network of eth0"),
            ("10.9.0.2/16", "10.9.0.1/16", "network of wwan0"),
            ("203.0.113.9/24", "203.0.113.1/24", "station's own address 203.0.113.5"),
            ("224.0.0.5/4", "224.0.0.6/4", "multicast"),
            ("ff02::5/64", "ff02::6/64", "multicast"),
            ("9.9.9.9/0", "8.8.8.8/0", "everything there is"),
            ("fd77::2/0", "fd77::1/0", "everything there is"),
            ("9.9.9.9/1", "8.8.8.8/1", "wider"),
            ("2001:db8::2/3", "2001:db8::1/3", "wider"),
            ("127.1.0.2/16", "127.1.0.1/16", "loopback"),
            ("::1/127", "::/127", "loopback"),
            ("169.254.3.2/16", "169.254.3.1/16", "link-local"),
            ("fe80::2/64", "fe80::1/64", "link-local"),
            ("::ffff:10.1.0.2/120", "::ffff:10.1.0.1/120", "no address of a host"),
            ("0.0.0.2/8", "0.0.0.1/8", "no address of a host"),
            ("255.255.255.254/31", "255.255.255.255/31", "no address of a host"),
            ("10.77.0.0/24", "10.77.0.1/24", "network's own"),
            ("10.77.0.255/24", "10.77.0.1/24", "of all in it"),
            ("10.77.0.2/24", "10.77.0.2/24", "no two addresses"),
            ("10.77.0.2/24", "8.8.8.8/24", "no two addresses"),
            ("10.77.0.2/24", "10.77.0.1/16", "no two addresses"),
        ] {
            let said = try_offer(&offer(&[own], &[station]), true).unwrap_err();
            assert!(said.contains(why) && said.contains("nothing was changed"), "{own}: {said}");
        }
        let twice = offer(&["10.77.0.2/24", "10.77.0.3/24"], &["10.77.0.1/24", "10.77.0.1/24"]);
        assert!(try_offer(&twice, true).unwrap_err().contains("same network"));
        assert!(try_offer(&offer(&["10.77.0.2/24"], &[]), true).is_err());
        let unasked = offer(&["10.77.0.2/24"], &["10.77.0.1/24"]);
        assert!(try_offer(&unasked, false).unwrap_err().contains("not asked for"));
    }

    #[test]
    fn no_secret_that_anybody_could_guess_is_taken() {
        let counted = std::array::from_fn(|at| at as u8);
        for secret in [[0; 32], [0xAA; 32], [7; 32], counted] {
            let preshared_key = PublicKey(secret).to_string();
            let said = try_offer(&Offer { preshared_key, ..offer(&[], &[]) }, true).unwrap_err();
            assert!(said.contains("guess"), "{said}");
        }
    }
}
