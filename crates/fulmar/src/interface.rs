//! What an interface of this host must have for a path to be bound to it, or for a station to wait at it.

use std::net::IpAddr;

use sys::interfaces::Interface;
use toml_keys::did_you_mean;

use crate::ways;

/// Returns number and addresses of an interface, or what it lacks. `in_use` names the interfaces that the
/// file has: those are not suggested for one that is missing.
pub(crate) fn find_usable(
    name: &str,
    is_ipv6: bool,
    interfaces: &[Interface],
    in_use: &[&str],
) -> Result<(u32, Vec<IpAddr>), String> {
    let Some(found) = interfaces.iter().find(|interface| interface.name == name) else {
        let names: Vec<_> = interfaces.iter().map(|at| at.name.as_str()).collect();
        let free: Vec<_> = names.iter().copied().filter(|at| !in_use.contains(at)).collect();
        let (names, meant) = (names.join(", "), did_you_mean(name, &free));
        return Err(format!("no interface {name}; interfaces here are {names}{meant}"));
    };
    if !found.running {
        return Err(ways::why_not_running(found));
    }
    let mut addresses = found.addresses.clone();
    addresses.retain(|address| address.is_ipv6() == is_ipv6);
    if addresses.is_empty() {
        let off = if is_ipv6 { ways::ipv6_is_off(name) } else { String::new() };
        return Err(format!("{name} has no IPv{} address{off}", if is_ipv6 { 6 } else { 4 }));
    }
    Ok((found.index, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, running: bool, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Interface { index: 1, name: name.into(), is_up: running, running, mtu: 1_500, addresses }
    }

    #[test]
    fn an_interface_has_to_be_there_with_an_address() {
        let here = [interface("wlan0", true, &["192.0.2.7"]), interface("wwan0", false, &[])];
        let trouble = |name, is_ipv6, in_use: &[&str]| {
            find_usable(name, is_ipv6, &here, in_use).err().unwrap_or_default()
        };
        assert_eq!(trouble("wlan0", false, &[]), "");
        assert!(trouble("wlan0", true, &[]).contains("no IPv6 address"));
        assert!(trouble("wwan0", false, &[]).contains("down"));
        let missing = "no interface wlan1; interfaces here are wlan0, wwan0";
        assert_eq!(trouble("wlan1", false, &["wlan1"]), format!("{missing}; did you mean wlan0?"));
        let in_use = ["wlan0", "wlan1", "wwan0"];
        assert_eq!(trouble("wlan1", false, &in_use), missing, "another path is over it");
    }
}
