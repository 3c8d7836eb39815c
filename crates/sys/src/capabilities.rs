//! What a thread may do beyond an ordinary user: Linux's capabilities, and giving them up.
//!
//! They belong to a thread, and a thread that it starts later has them from it. What was given up
//! comes back only with another program.

use std::fmt;
use std::io;

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// A capability that something here may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Files of others, whatever their permissions.
    DacOverride,
    /// Interfaces, routes, and buffers beyond the system's limit.
    NetAdmin,
    /// Ports below 1024, or where the system draws the line.
    NetBindService,
    /// Before Linux 5.7, sockets that are bound to an interface.
    NetRaw,
    /// Real-time priority.
    SysNice,
}

impl Capability {
    const ALL: [Self; 5] =
        [Self::DacOverride, Self::NetAdmin, Self::NetBindService, Self::NetRaw, Self::SysNice];

    fn bit(self) -> CapabilitySet {
        match self {
            Self::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
            Self::NetBindService => CapabilitySet::NET_BIND_SERVICE,
            Self::NetRaw => CapabilitySet::NET_RAW,
            Self::SysNice => CapabilitySet::SYS_NICE,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DacOverride => "CAP_DAC_OVERRIDE",
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetBindService => "CAP_NET_BIND_SERVICE",
            Self::NetRaw => "CAP_NET_RAW",
            Self::SysNice => "CAP_SYS_NICE",
        })
    }
}

/// Tells whether the process runs as root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Lists what the calling thread has and may use.
///
/// # Errors
/// Those of `capget`.
pub fn held() -> io::Result<Vec<Capability>> {
    let effective = capabilities(None)?.effective;
    Ok(Capability::ALL.into_iter().filter(|one| effective.contains(one.bit())).collect())
}

/// Gives up every capability of the calling thread but these, as far as it has them; returns which
/// of those known here it had and has no more.
///
/// # Errors
/// Those of `capget` and `capset`; then nothing has changed.
pub fn keep_only(kept: &[Capability]) -> io::Result<Vec<Capability>> {
    let before = capabilities(None)?;
    let kept = kept.iter().fold(CapabilitySet::empty(), |all, one| all | one.bit());
    let after = CapabilitySets {
        effective: before.effective & kept,
        permitted: before.permitted & kept,
        // None is for a program that this one would become.
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, after)?;
    let lost = before.permitted - after.permitted;
    Ok(Capability::ALL.into_iter().filter(|one| lost.contains(one.bit())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_gone_from_the_thread_and_from_those_that_it_starts() {
        // A thread of its own: other tests keep what they have.
        let (before, lost, after, inherited) = std::thread::spawn(|| {
            let before = held().unwrap();
            let lost = keep_only(&[Capability::NetAdmin]).unwrap();
            let inherited = std::thread::spawn(|| held().unwrap()).join().unwrap();
            (before, lost, held().unwrap(), inherited)
        })
        .join()
        .unwrap();
        let kept: Vec<_> =
            before.iter().copied().filter(|one| *one == Capability::NetAdmin).collect();
        assert_eq!((&after, &inherited), (&kept, &kept));
        assert!(before.iter().all(|one| kept.contains(one) || lost.contains(one)));
        assert!(!lost.contains(&Capability::NetAdmin));
        assert_eq!(held().unwrap(), before, "no other thread has lost anything");
    }
}
