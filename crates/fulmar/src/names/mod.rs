//! Names of hosts, looked up. That takes seconds where no server answers: it is for threads of
//! their own.
//!
//! A name that a path goes to is looked up *through the path's own link*: the question leaves by
//! its interface, to the name servers that the link brought. What another link's captive portal
//! says, or a resolver that is reached by another link alone, does not count for it, and a network
//! that has IPv6 alone may have addresses of its own for a host (DNS64).
//!
//! ```text
//! /etc/hosts has the name                    → that
//! the link's own servers answer              → that
//! the system's servers answer by the link    → that
//! none of them answers, or can tell          → what the system's resolver says, tried after
//!                                              everything else
//! ```

mod question;
mod servers;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::interface::{Families, Found as Interface};
use question::Failure;
#[cfg(fuzzing)]
pub(crate) use question::addresses_in;

/// What the standard library puts before the resolver's own words.
const PREFIX: &str = "failed to lookup address information: ";

/// An interface that names are looked up through.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// The kernel's number of it.
    pub(crate) index: u32,
    /// Those that it has addresses of.
    pub(crate) families: Families,
}

impl Link {
    pub(crate) fn of(interface: &Interface) -> Self {
        let families = Families::of(interface.addresses.iter().copied());
        Self { name: interface.name.clone(), index: interface.index, families }
    }

    /// Says what is wrong where the link can reach none of a name's addresses: words that follow
    /// the name.
    pub(crate) fn lack_of(&self, addresses: &[SocketAddr]) -> Option<String> {
        if addresses.iter().any(|address| self.families.has(address.ip())) {
            return None;
        }
        let theirs = Families::of(addresses.iter().map(SocketAddr::ip)).words();
        let (name, ours) = (&self.name, self.families.words());
        Some(format!("has {theirs} addresses alone, and {name} has {ours} alone"))
    }
}

/// What a name has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether it was asked through the link, or is this host's own word.
    pub(crate) is_links: bool,
}

/// Looks a name up by the system's resolver, and returns its addresses, or what is wrong with it:
/// words that follow the name.
pub(crate) fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs().map_err(|error| {
        let error = error.to_string();
        format!("cannot be looked up: {}", error.strip_prefix(PREFIX).unwrap_or(&error))
    })?;
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err("has no address".into()) } else { Ok(found) }
}

/// Looks a name up through a link, and returns its addresses, or what is wrong with it: words that
/// follow the name.
pub(crate) fn look_up_through(host: &str, port: u16, link: &Link) -> Result<Answer, String> {
    let own = |addresses: Vec<IpAddr>| {
        let addresses = addresses.into_iter().map(|address| (address, port).into()).collect();
        Ok(Answer { addresses, is_links: true })
    };
    let listed = servers::hosts_entry(host);
    if !listed.is_empty() {
        return own(listed);
    }
    let mut failure = None;
    // A name without a dot, and one of the local network, are not for name servers of the internet.
    let host = host.trim_end_matches('.');
    if host.contains('.') && !host.to_ascii_lowercase().ends_with(".local") {
        for servers in servers::of(link) {
            match question::ask(host, &servers, link) {
                Ok(addresses) => return own(addresses),
                Err(why) => failure = failure.max(Some(why)),
            }
        }
    }
    // Whoever was asked by the link knows better than somebody who was asked by another.
    if let Some(Failure::NoSuch(words)) = failure {
        return Err(format!("cannot be looked up: {words}"));
    }
    match (look_up(host, port), failure) {
        (Ok(addresses), _) => Ok(Answer { addresses, is_links: false }),
        (Err(trouble), Some(Failure::Silence)) => {
            Err(format!("{trouble}; no name server answers by {}", link.name))
        }
        (Err(trouble), _) => Err(trouble),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_addresses_or_a_reason() {
        let there = look_up("localhost", 14_700).unwrap();
        assert!(there.iter().any(SocketAddr::is_ipv4));
        let reason = look_up("nobody.invalid", 14_700).unwrap_err();
        assert!(reason.starts_with("cannot be looked up: "), "{reason}");
        assert!(!reason.contains(PREFIX), "{reason}");
    }

    #[test]
    fn a_link_without_the_family_of_a_name_says_so() {
        let families = Families { ipv4: false, ipv6: true };
        let link = Link { name: "wwan0".into(), index: 7, families };
        let [ipv4, ipv6] =
            ["192.0.2.1:1", "[2001:db8::1]:1"].map(|text| text.parse::<SocketAddr>().unwrap());
        assert_eq!(link.lack_of(&[ipv4, ipv6]), None);
        let lacks = "has IPv4 addresses alone, and wwan0 has IPv6 alone";
        assert_eq!(link.lack_of(&[ipv4]).unwrap(), lacks);
    }
}
