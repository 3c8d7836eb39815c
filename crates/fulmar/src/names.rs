//! Names of hosts, looked up by the system's resolver. That takes seconds where no server answers: it is
//! for threads of their own.

use std::net::{SocketAddr, ToSocketAddrs};

/// What the standard library puts before the resolver's own words.
const PREFIX: &str = "failed to lookup address information: ";

/// Looks a name up, and returns its addresses of one family, or what is wrong with it: words that
/// follow the name.
pub(crate) fn look_up(host: &str, port: u16, is_ipv6: bool) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs().map_err(|error| {
        let error = error.to_string();
        format!("cannot be looked up: {}", error.strip_prefix(PREFIX).unwrap_or(&error))
    })?;
    let ours: Vec<_> = found.filter(|address| address.is_ipv6() == is_ipv6).collect();
    match ours.is_empty() {
        true => Err(format!("has no IPv{} address", if is_ipv6 { 6 } else { 4 })),
        false => Ok(ours),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_addresses_or_a_reason() {
        let there = look_up("localhost", 14_700, false).unwrap();
        assert!(there.iter().all(SocketAddr::is_ipv4));
        let reason = look_up("nobody.invalid", 14_700, false).unwrap_err();
        assert!(reason.starts_with("cannot be looked up: "), "{reason}");
        assert!(!reason.contains(PREFIX), "{reason}");
    }
}
