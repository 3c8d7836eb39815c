//! Which name servers a link has, as the programs that set links up leave it in files. Nothing is
//! asked of those programs: none has to be there.
//!
//! | file | by |
//! | --- | --- |
//! | `/run/systemd/resolve/netif/INDEX` | systemd-resolved: what NetworkManager and others told it |
//! | `/run/systemd/netif/links/INDEX` | systemd-networkd |
//! | `/run/resolvconf/interface/NAME*` | resolvconf, openresolv |
//! | `/run/dhcpcd/hook-state/resolv.conf/NAME*` | dhcpcd |
//! | `/etc/resolv.conf`, `/run/systemd/resolve/resolv.conf`, `/run/NetworkManager/resolv.conf` | the system's, of all links |

use std::fs;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::Link;

/// The port of name servers.
const PORT: u16 = 53;
/// Name servers that are asked at once, of a link and of the system; resolvers know three.
const MOST: usize = 4;
/// Bytes read of a file: each has a few lines, the list of hosts has more.
const LARGEST: u64 = 1 << 20;
/// Addresses of a name in the list of hosts.
const MOST_ADDRESSES: usize = 16;

/// Returns the name servers to ask through a link: its own first, then those that the system has
/// for all links.
pub(super) fn of(link: &Link) -> Vec<Vec<SocketAddr>> {
    of_root(Path::new("/"), link)
}

/// Returns the addresses that this host's own list has for a name.
pub(super) fn hosts_entry(host: &str) -> Vec<IpAddr> {
    in_hosts(&read(Path::new("/etc/hosts")), host)
}

fn of_root(root: &Path, link: &Link) -> Vec<Vec<SocketAddr>> {
    let mut own = Vec::new();
    for (folder, key) in
        [("run/systemd/resolve/netif", "SERVERS="), ("run/systemd/netif/links", "DNS=")]
    {
        let text = read(&root.join(folder).join(link.index.to_string()));
        let values = text.lines().filter_map(|line| line.strip_prefix(key));
        own.extend(values.flat_map(str::split_ascii_whitespace).filter_map(|it| server(it, link)));
    }
    for folder in ["run/resolvconf/interface", "run/dhcpcd/hook-state/resolv.conf"] {
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_links = name.to_str().and_then(|name| name.strip_prefix(&link.name));
            // wwan1.dhcp is not of wwan, nor wwan10.dhcp of wwan1.
            if is_links.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
                own.extend(nameservers(&read(&entry.path()), link));
            }
        }
    }
    let all =
        ["etc/resolv.conf", "run/systemd/resolve/resolv.conf", "run/NetworkManager/resolv.conf"];
    let all = all.iter().flat_map(|file| nameservers(&read(&root.join(file)), link)).collect();
    let own = asked_by(own, link);
    let mut system = asked_by(all, link);
    system.retain(|server| !own.contains(server));
    system.truncate(MOST);
    [own, system].into_iter().filter(|servers| !servers.is_empty()).collect()
}

/// Keeps those that can be asked by the link: no resolver of this host itself, and a few.
fn asked_by(servers: Vec<SocketAddr>, link: &Link) -> Vec<SocketAddr> {
    let mut kept: Vec<SocketAddr> = Vec::new();
    for server in servers {
        let ip = server.ip();
        let leads_out = !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast();
        if leads_out && link.families.has(ip) && !kept.contains(&server) {
            kept.push(server);
        }
    }
    kept.truncate(MOST);
    kept
}

fn nameservers(text: &str, link: &Link) -> Vec<SocketAddr> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("nameserver"));
    lines.filter_map(|rest| server(rest.split_ascii_whitespace().next()?, link)).collect()
}

/// Reads `192.0.2.1`, `fe80::1%wwan0`, `[2001:db8::1]:5353#name`: with port, interface and a name
/// for TLS where there are any.
fn server(text: &str, link: &Link) -> Option<SocketAddr> {
    let text = text.split('#').next()?;
    let (text, zone) = text.split_once('%').unwrap_or((text, ""));
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let mut address: SocketAddr = match (text.parse(), bare.parse::<IpAddr>()) {
        (Ok(address), _) => address,
        (_, Ok(ip)) => {
            (ip, zone.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(PORT))
                .into()
        }
        _ => return None,
    };
    if let SocketAddr::V6(of_link) = &mut address
        && of_link.ip().is_unicast_link_local()
    {
        of_link.set_scope_id(link.index);
    }
    Some(address)
}

fn in_hosts(text: &str, host: &str) -> Vec<IpAddr> {
    let host = host.trim_end_matches('.');
    let entry = |line: &str| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
    };
    text.lines().filter_map(entry).take(MOST_ADDRESSES).collect()
}

/// Reads a file, or nothing.
fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    // A queue with nobody at its other end would hold us up.
    if fs::metadata(path).is_ok_and(|found| found.is_file())
        && let Ok(file) = fs::File::open(path)
    {
        let _ = file.take(LARGEST).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Families;

    fn link(families: Families) -> Link {
        Link { name: "wwan1".into(), index: 7, families }
    }

    #[test]
    fn the_servers_of_a_link_are_asked_before_the_systems_and_none_of_another_link() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "run/systemd/resolve/netif/7",
            "# private\nLLMNR=yes\nSERVERS=192.0.2.1 2001:db8::1#dns.example\n",
        );
        write("run/systemd/resolve/netif/8", "SERVERS=192.0.2.8\n");
        write("run/systemd/netif/links/7", "DNS=192.0.2.1 fe80::1\n");
        write("run/resolvconf/interface/wwan1.dhcp", "nameserver 192.0.2.2\n");
        write("run/resolvconf/interface/wwan10.dhcp", "nameserver 192.0.2.9\n");
        write("etc/resolv.conf", "search lan\nnameserver 127.0.0.53\nnameserver 192.0.2.2\n");
        write("run/systemd/resolve/resolv.conf", "nameserver 198.51.100.1\n");
        let texts = |families| -> Vec<Vec<String>> {
            let all = of_root(root.path(), &link(families)).into_iter();
            all.map(|some| some.iter().map(SocketAddr::to_string).collect()).collect()
        };
        assert_eq!(
            texts(Families::BOTH),
            [
                &["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%7]:53", "192.0.2.2:53"][..],
                &["198.51.100.1:53"][..]
            ]
        );
        assert_eq!(
            texts(Families { ipv4: false, ipv6: true }),
            [["[2001:db8::1]:53", "[fe80::1%7]:53"]]
        );
    }

    #[test]
    fn servers_are_read_as_the_files_have_them() {
        let link = link(Families::BOTH);
        for (text, is) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5353#name", "192.0.2.1:5353"),
            ("[2001:db8::1]:5353", "[2001:db8::1]:5353"),
            ("[2001:db8::1]", "[2001:db8::1]:53"),
            ("fe80::1%wwan0", "[fe80::1%7]:53"),
            ("[fe80::1%3]:5353", "[fe80::1%7]:5353"),
        ] {
            assert_eq!(server(text, &link).map(|it| it.to_string()).as_deref(), Some(is), "{text}");
        }
        assert_eq!(server("nonsense", &link), None);
    }

    #[test]
    fn the_list_of_hosts_has_several_names_in_a_line() {
        let text = "127.0.0.1 localhost\n192.0.2.1 a Station.Example # b.example\n2001:db8::1 station.example\n";
        assert_eq!(in_hosts(text, "station.example.").len(), 2);
        assert!(in_hosts(text, "b.example").is_empty());
    }
}
