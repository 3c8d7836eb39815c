//! Keeps what is ours of the tunnel's interface: that it is up, its MTU, its addresses, its routes,
//! and the settings by which the kernel would believe what a peer says of routes.
//!
//! What somebody has flushed is put back, at once the first time. Where another program takes it
//! away again and again, it waits twice as long each time, up to a minute, and says whom to ask.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use proto::{Duration, Instant};
use sys::interfaces::Interface;
use sys::tun::Tun;

use crate::config::TunnelConfig;

/// Time until the next look, and after something was put back at first.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest that this becomes, where something is taken away again and again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After so long without need the next time is the first again.
const CALM: Duration = Duration::from_secs(300);
/// From this pause on it is no accident.
const FIGHT: Duration = Duration::from_secs(8);

/// When to look at the interface, and what was found.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// Something has changed on this host since the last look.
    is_due: bool,
    next: Instant,
    pause: Duration,
    mended_at: Instant,
    times: u64,
    trouble: Option<String>,
}

impl Upkeep {
    pub(super) fn new() -> Self {
        let (next, mended_at) = (Instant::ZERO, Instant::ZERO);
        Self { is_due: false, next, pause: PAUSE, mended_at, times: 0, trouble: None }
    }

    /// Notes that interfaces, addresses or routes have changed.
    pub(super) fn on_change(&mut self) {
        self.is_due = true;
    }

    /// Tells whether to look now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        (self.is_due || self.trouble.is_some()) && self.next <= now
    }

    /// Returns how many times something was put back.
    pub(super) fn times(&self) -> u64 {
        self.times
    }

    /// Says what cannot be put back, or is taken away again and again.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Notes what a look has put back, and what it could not.
    pub(super) fn on_look(&mut self, now: Instant, interface: &str, look: &Look) {
        // A host where much changes is not looked at more often than this.
        (self.is_due, self.next) = (false, now + PAUSE);
        if now.since(self.mended_at) >= CALM {
            (self.pause, self.trouble) = (PAUSE, None);
        }
        let failed = look.failed.join("; ");
        if look.put_back.is_empty() {
            if failed.is_empty() {
                if self.pause < FIGHT {
                    self.trouble = None;
                }
            } else {
                self.fail(now, interface, failed);
            }
            return;
        }
        let what = look.put_back.join(", ");
        self.times += 1;
        (self.mended_at, self.next) = (now, now + self.pause);
        if self.pause >= FIGHT {
            let wait = self.pause.as_secs();
            let said = format!(
                "another program takes away again and again what {interface} needs ({what}): it is put back after \
                 {wait} s; does NetworkManager or systemd-networkd manage {interface}?"
            );
            if self.trouble.is_none() {
                tracing::warn!("tunnel {said}");
            }
            self.trouble = Some(said);
        } else {
            tracing::warn!("tunnel {interface}: somebody took away {what}; it is put back");
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        if !failed.is_empty() {
            self.fail(now, interface, failed);
        }
    }

    fn fail(&mut self, now: Instant, interface: &str, failed: String) {
        self.next = now + LONGEST_PAUSE;
        if self.trouble.as_ref() != Some(&failed) {
            tracing::warn!("tunnel {interface}: {failed}");
        }
        self.trouble = Some(failed);
    }
}

/// What a look at the interface has put back, and could not.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) put_back: Vec<String>,
    pub(super) failed: Vec<String>,
}

impl Look {
    /// Puts back whatever is missing of `wanted`; `seen` is the interface as it is.
    pub(super) fn new<'a>(
        device: &Tun,
        seen: &Interface,
        config: &TunnelConfig,
        routes: impl Iterator<Item = &'a IpNet>,
    ) -> Self {
        let mut look = Self::default();
        let mtu = u32::from(config.mtu);
        if seen.mtu != mtu {
            let was = format!("its MTU of {mtu} (it was {})", seen.mtu);
            look.note(was, device.set_mtu(mtu).map(|()| true));
        }
        if !seen.is_up {
            look.note("its being up".into(), device.set_up().map(|()| true));
        }
        for net in &config.addresses {
            // Those of IPv6 go when the interface does; the list of addresses leaves prefixes out.
            look.note(
                format!("its address {net}"),
                add_address(device, net.addr(), net.prefix_len()),
            );
        }
        for net in routes {
            let done = device.add_route(net.network(), net.prefix_len());
            look.note(format!("the route to {net}"), done);
        }
        for setting in device.distrust() {
            look.note(format!("its setting {setting}"), Ok(true));
        }
        look
    }

    fn note(&mut self, what: String, done: io::Result<bool>) {
        match done {
            Ok(true) => self.put_back.push(what),
            Ok(false) => {}
            Err(error) => self.failed.push(error.to_string()),
        }
    }
}

fn add_address(device: &Tun, address: IpAddr, prefix: u8) -> io::Result<bool> {
    match device.add_address(address, prefix) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(put_back: &[&str], failed: &[&str]) -> Look {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Look { put_back: owned(put_back), failed: owned(failed) }
    }

    #[test]
    fn a_fight_slows_down_and_is_told_and_calm_ends_it() {
        let mut upkeep = Upkeep::new();
        let mut now = Instant::from_millis(1_000_000);
        let mut waits = Vec::new();
        for _ in 0..9 {
            upkeep.on_change();
            while !upkeep.is_due(now) {
                now += Duration::from_secs(1);
            }
            upkeep.on_look(now, "fulmar0", &look(&["its address 10.0.0.1/24"], &[]));
            assert_eq!(upkeep.trouble().is_some(), waits.len() >= 3, "{waits:?}");
            waits.push(upkeep.next.since(now).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(upkeep.trouble().unwrap().contains("10.0.0.1/24"), "{:?}", upkeep.trouble());
        assert_eq!(upkeep.times(), 9);
        now += CALM;
        upkeep.on_change();
        assert!(upkeep.is_due(now));
        upkeep.on_look(now, "fulmar0", &look(&[], &[]));
        assert_eq!((upkeep.trouble(), upkeep.pause), (None, PAUSE));
    }

    #[test]
    fn what_cannot_be_put_back_is_told_and_tried_again() {
        let mut upkeep = Upkeep::new();
        let mut now = Instant::from_millis(1_000_000);
        upkeep.on_change();
        upkeep.on_look(now, "fulmar0", &look(&[], &["no permission"]));
        assert_eq!((upkeep.trouble(), upkeep.is_due(now)), (Some("no permission"), false));
        now += LONGEST_PAUSE;
        assert!(upkeep.is_due(now));
        upkeep.on_look(now, "fulmar0", &look(&[], &[]));
        assert_eq!((upkeep.trouble(), upkeep.times()), (None, 0));
    }
}
