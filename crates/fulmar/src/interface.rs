//! Which interface of this host a path is bound to, or a station waits at, and what it must have
//! for that.
//!
//! The file names one by its name, by a pattern, or by its hardware, which keeps its place when the
//! system gives it another name:
//!
//! ```text
//! "wwan0"                → that one
//! "wwan*", "wlx?c*"      → one whose name fits: `*` any letters, `?` one letter
//! "usb:1-1.2"            → one of the device at this USB port, as `ls /sys/bus/usb/devices` lists
//!                          them
//! "/sys/devices/…"       → one of the device at this place in the kernel's tree
//! ```
//!
//! Of several that fit, whoever has one keeps it while it works. Otherwise it is the first by name
//! that works, in the order of the file, and no two of one group (paths to one peer, addresses with
//! one port) get the same.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use sys::interfaces::Interface;
use toml_keys::did_you_mean;

use crate::ways;

/// Where the kernel shows the hardware of its interfaces.
const INTERFACES: &str = "/sys/class/net";
/// What a name by USB port begins with.
const USB: &str = "usb:";

/// Families of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Families {
    pub(crate) ipv4: bool,
    pub(crate) ipv6: bool,
}

impl Families {
    pub(crate) const BOTH: Self = Self { ipv4: true, ipv6: true };
    pub(crate) const IPV4: Self = Self { ipv4: true, ipv6: false };

    /// Returns those of which there are any.
    pub(crate) fn of(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut families = Self { ipv4: false, ipv6: false };
        for address in addresses {
            families.ipv4 |= address.is_ipv4();
            families.ipv6 |= address.is_ipv6();
        }
        families
    }

    pub(crate) fn has(self, address: IpAddr) -> bool {
        if address.is_ipv6() { self.ipv6 } else { self.ipv4 }
    }

    /// Names them.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::BOTH => "IPv4 and IPv6",
            Self { ipv6: true, .. } => "IPv6",
            _ => "IPv4",
        }
    }

    /// Names what it is that something has not got.
    fn lacking(self) -> &'static str {
        match self {
            Self::BOTH => "no address",
            Self { ipv6: true, .. } => "no IPv6 address",
            _ => "no IPv4 address",
        }
    }
}

/// What a socket is to be bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeker<'s> {
    /// As the file has it.
    pub(crate) wanted: &'s str,
    /// It needs an address of any of these.
    pub(crate) families: Families,
    /// Those of one group do not get the same by pattern or hardware.
    pub(crate) group: u64,
    /// The kernel's number of the one that it has.
    pub(crate) holds: Option<u32>,
}

/// An interface that a socket can be bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) index: u32,
    /// Its addresses, of the families in question.
    pub(crate) addresses: Vec<IpAddr>,
    /// Names of others that would have fitted.
    pub(crate) others: Vec<String>,
}

/// Interfaces of this host at one moment, and what of them is not for sockets.
pub(crate) struct Here<'h> {
    pub(crate) interfaces: &'h [Interface],
    /// Names that no pattern fits: the tunnel would be sent through itself.
    pub(crate) never: &'h [String],
}

/// Tells whether the file's word is the name of an interface, which is one interface or none.
pub(crate) fn is_name(wanted: &str) -> bool {
    !wanted.contains(['*', '?']) && !is_hardware(wanted)
}

/// Tells whether the file's word names an interface by its hardware.
pub(crate) fn is_hardware(wanted: &str) -> bool {
    wanted.starts_with(USB) || wanted.starts_with("/sys/")
}

impl Here<'_> {
    /// Finds an interface for each, or says what is missing.
    pub(crate) fn assign(&self, seekers: &[Seeker<'_>]) -> Vec<Result<Found, String>> {
        let in_use: Vec<_> = seekers.iter().map(|seeker| seeker.wanted).collect();
        let mut taken: Vec<(u64, u32)> = Vec::new();
        for seeker in seekers.iter().filter(|seeker| is_name(seeker.wanted)) {
            let named = self.interfaces.iter().find(|at| at.name == seeker.wanted);
            taken.extend(named.map(|at| (seeker.group, at.index)));
        }
        let mut found: Vec<Option<Result<Found, String>>> = vec![None; seekers.len()];
        // First those that keep theirs, so that nobody who comes takes it from them.
        for keeps in [true, false] {
            for (seeker, found) in seekers.iter().zip(&mut found) {
                if is_name(seeker.wanted) {
                    let families = seeker.families;
                    *found = Some(find_usable(seeker.wanted, families, self.interfaces, &in_use));
                } else if found.is_none() {
                    let chosen = self.choose(seeker, &taken, keeps);
                    taken.extend(chosen.iter().flatten().map(|at| (seeker.group, at.index)));
                    *found = chosen;
                }
            }
        }
        found.into_iter().map(|found| found.unwrap_or_else(|| Err(String::new()))).collect()
    }

    /// Returns the interface that fits, or what is missing; only the one that the seeker `keeps`,
    /// if that is asked for.
    fn choose(
        &self,
        seeker: &Seeker<'_>,
        taken: &[(u64, u32)],
        keeps: bool,
    ) -> Option<Result<Found, String>> {
        let Seeker { wanted, families, group, .. } = *seeker;
        let fits =
            |at: &&Interface| fits(wanted, &at.name, INTERFACES) && !self.never.contains(&at.name);
        let mut fitting: Vec<&Interface> = self.interfaces.iter().filter(fits).collect();
        fitting.sort_by_key(|at| by_number(&at.name));
        let is_free = |at: &&Interface| !taken.contains(&(group, at.index));
        let free: Vec<&Interface> = fitting.iter().copied().filter(is_free).collect();
        let mut usable = free.iter().filter_map(|at| usable(at, families).ok());
        let kept = usable.clone().find(|at| Some(at.index) == seeker.holds);
        if keeps {
            return kept.map(|found| Ok(Self::with_others(found, &free)));
        }
        if let Some(found) = usable.next() {
            return Some(Ok(Self::with_others(found, &free)));
        }
        let lacks = match (free.first(), fitting.first()) {
            (Some(first), _) => usable_trouble(first, families),
            (None, Some(first)) => {
                format!(
                    "{}, which {wanted} fits, is another path's, and there is no other",
                    first.name
                )
            }
            (None, None) => {
                let names: Vec<_> = self.interfaces.iter().map(|at| at.name.as_str()).collect();
                format!("no interface that {wanted} fits; interfaces here are {}", names.join(", "))
            }
        };
        Some(Err(lacks))
    }

    fn with_others(mut found: Found, free: &[&Interface]) -> Found {
        let others = free.iter().filter(|at| at.index != found.index);
        found.others = others.map(|at| at.name.clone()).collect();
        found
    }
}

/// Returns number and addresses of an interface, or what it lacks. `in_use` names the interfaces
/// that the file has: those are not suggested for one that is missing.
pub(crate) fn find_usable(
    name: &str,
    families: Families,
    interfaces: &[Interface],
    in_use: &[&str],
) -> Result<Found, String> {
    let Some(found) = interfaces.iter().find(|interface| interface.name == name) else {
        let names: Vec<_> = interfaces.iter().map(|at| at.name.as_str()).collect();
        let free: Vec<_> = names.iter().copied().filter(|at| !in_use.contains(at)).collect();
        let (names, meant) = (names.join(", "), did_you_mean(name, &free));
        return Err(format!("no interface {name}; interfaces here are {names}{meant}"));
    };
    usable(found, families)
}

fn usable(interface: &Interface, families: Families) -> Result<Found, String> {
    let Interface { index, ref name, running, ref addresses, .. } = *interface;
    if !running {
        return Err(ways::why_not_running(interface));
    }
    let all = addresses;
    let mut addresses = all.clone();
    addresses.retain(|address| families.has(*address));
    if addresses.is_empty() {
        let other = Families::of(all.iter().copied()).words();
        let other = if all.is_empty() { String::new() } else { format!(", it has {other} alone") };
        let off = if families.ipv6 { ways::ipv6_is_off(name) } else { String::new() };
        return Err(format!("{name} has {}{other}{off}", families.lacking()));
    }
    Ok(Found { name: name.clone(), index, addresses, others: Vec::new() })
}

fn usable_trouble(interface: &Interface, families: Families) -> String {
    usable(interface, families).err().unwrap_or_default()
}

/// Tells whether an interface is one that the file's pattern or hardware means.
fn fits(wanted: &str, name: &str, interfaces: &str) -> bool {
    if !is_hardware(wanted) {
        return name != "lo" && is_like(wanted.as_bytes(), name.as_bytes());
    }
    // One place in the tree has several names; the interface's own is the last part.
    let Ok(device) = Path::new(interfaces).join(name).canonicalize() else { return false };
    match wanted.strip_prefix(USB) {
        Some(port) => device.iter().filter_map(|part| part.to_str()).any(|part| {
            // An interface of a USB device is named after it: 1-1.2:1.4 of 1-1.2.
            part == port || part.split_once(':').is_some_and(|(device, _)| device == port)
        }),
        None => {
            let wanted = PathBuf::from(wanted);
            device.starts_with(wanted.canonicalize().unwrap_or(wanted))
        }
    }
}

/// Tells whether a name is like a pattern with `*` and `?`.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        // Two stars are one.
        (Some((b'*', rest)), _) if rest.starts_with(b"*") => is_like(rest, name),
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| is_like(rest, &name[skipped..])),
        (Some((b'?', pattern)), Some((_, name))) => is_like(pattern, name),
        (Some((letter, pattern)), Some((is, name))) => letter == is && is_like(pattern, name),
        _ => false,
    }
}

/// Orders names as people do: wwan2 before wwan10.
fn by_number(name: &str) -> (String, u64, String) {
    let letters = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    (letters.to_owned(), name[letters.len()..].parse().unwrap_or(0), name.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const IPV4: Families = Families::IPV4;
    const IPV6: Families = Families { ipv4: false, ipv6: true };

    /// Makes an interface as the kernel would tell of it.
    pub(crate) fn interface(
        index: u32,
        name: &str,
        running: bool,
        addresses: &[&str],
    ) -> Interface {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Interface { index, name: name.into(), is_up: running, running, mtu: 1_500, addresses }
    }

    fn seeker(wanted: &str, group: u64) -> Seeker<'_> {
        Seeker { wanted, families: Families::BOTH, group, holds: None }
    }

    /// Returns what each is given: a name, or what is missing.
    fn given(interfaces: &[Interface], seekers: &[Seeker<'_>]) -> Vec<String> {
        let here = Here { interfaces, never: &["fulmar0".to_owned()] };
        let all = here.assign(seekers).into_iter();
        all.map(|found| found.map_or_else(|lacks| lacks, |found| found.name)).collect()
    }

    #[test]
    fn an_interface_has_to_be_there_with_an_address() {
        let here = [interface(1, "wlan0", true, &["192.0.2.7"]), interface(2, "wwan0", false, &[])];
        let trouble = |name, families, in_use: &[&str]| {
            find_usable(name, families, &here, in_use).err().unwrap_or_default()
        };
        assert_eq!(trouble("wlan0", IPV4, &[]), "");
        assert_eq!(trouble("wlan0", Families::BOTH, &[]), "");
        assert!(trouble("wlan0", IPV6, &[]).contains("no IPv6 address"));
        assert!(trouble("wwan0", IPV4, &[]).contains("down"));
        let missing = "no interface wlan1; interfaces here are wlan0, wwan0";
        assert_eq!(trouble("wlan1", IPV4, &["wlan1"]), format!("{missing}; did you mean wlan0?"));
        let in_use = ["wlan0", "wlan1", "wwan0"];
        assert_eq!(trouble("wlan1", IPV4, &in_use), missing, "another path is over it");
    }

    #[test]
    fn a_pattern_takes_the_first_by_name_that_works_and_keeps_it_while_it_does() {
        let mut here = vec![
            interface(1, "lo", true, &["127.0.0.1"]),
            interface(2, "wwan10", true, &["192.0.2.10"]),
            interface(3, "wwan2", true, &["2001:db8::2"]),
            interface(4, "wwan0", true, &[]),
            interface(5, "fulmar0", true, &["10.77.0.1"]),
        ];
        assert_eq!(given(&here, &[seeker("wwan*", 0)]), ["wwan2"]);
        assert_eq!(given(&here, &[seeker("*", 0), seeker("*", 0)]), ["wwan2", "wwan10"]);
        let held = Seeker { holds: Some(2), ..seeker("wwan*", 0) };
        assert_eq!(given(&here, &[held]), ["wwan10"]);
        assert_eq!(given(&here, &[seeker("wwan*", 0), held]), ["wwan2", "wwan10"]);
        assert_eq!(given(&here, &[Seeker { families: IPV4, ..seeker("wwan*", 0) }]), ["wwan10"]);
        // It has another name now, and then no carrier.
        here[1].name = "wwan7".into();
        assert_eq!(given(&here, &[held]), ["wwan7"]);
        here[1].running = false;
        assert_eq!(given(&here, &[held]), ["wwan2"]);
    }

    #[test]
    fn two_of_a_group_do_not_take_the_same_and_two_groups_may() {
        let here = [interface(2, "wwan0", true, &["192.0.2.10"])];
        let both = given(&here, &[seeker("wwan*", 0), seeker("wwan*", 0)]);
        assert_eq!(both[0], "wwan0");
        assert!(both[1].contains("wwan0, which wwan* fits, is another path's"), "{both:?}");
        assert_eq!(given(&here, &[seeker("wwan*", 0), seeker("wwan*", 1)]), ["wwan0", "wwan0"]);
        let both = given(&here, &[seeker("wwan*", 0), seeker("wwan0", 0)]);
        assert!(both[0].contains("is another path's") && both[1] == "wwan0", "{both:?}");
        let none = given(&here, &[seeker("eth?", 0)]);
        assert_eq!(none, ["no interface that eth? fits; interfaces here are wwan0"]);
    }

    #[test]
    fn hardware_is_found_by_its_port_and_by_its_place_in_the_tree() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let device = root.join("devices/usb1/1-1/1-1.2/1-1.2:1.4/net/wwp1s0");
        std::fs::create_dir_all(&device).unwrap();
        let class = root.join("class");
        std::fs::create_dir(&class).unwrap();
        std::os::unix::fs::symlink(&device, class.join("wwp1s0")).unwrap();
        let class = class.to_str().unwrap();
        for (wanted, is_it) in [
            ("usb:1-1.2", true),
            ("usb:1-1", true),
            ("usb:1-1.2:1.4", true),
            ("usb:1-1.2:1.5", false),
            ("usb:1-1.3", false),
            ("usb:1", false),
            ("/sys/nothing", false),
        ] {
            assert_eq!(fits(wanted, "wwp1s0", class), is_it, "{wanted}");
        }
        assert!(!fits("usb:1-1.2", "wwan0", class));
    }
}
