//! Whether this process may hand BPF programs to the kernel.
//!
//! The kernel answers EACCES both when a process may not load programs and when its verifier
//! rejects one. The loader asks here which of the two it was.

use std::fs;

// Bits of the kernel's capability sets (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Says whether the process has the capabilities that `tcp_congestion_ops` in BPF need. Without
/// procfs it says no.
pub(crate) fn suffice() -> bool {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    has_capabilities(&read("status")) && is_of_the_machine(&read("uid_map"))
}

/// Reads `/proc/self/status`.
fn has_capabilities(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(effective) = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()) else {
        return false;
    };
    let has = |bit: u32| effective >> bit & 1 == 1;
    has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON) && has(CAP_NET_ADMIN))
}

/// Reads `/proc/self/uid_map`: in a user namespace of its own, capabilities are worth nothing to
/// BPF.
fn is_of_the_machine(uid_map: &str) -> bool {
    let fields: Vec<&str> = uid_map.split_whitespace().collect();
    fields == ["0", "0", "4294967295"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_as_the_kernel_writes_them() {
        let status = |hex: &str| format!("Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{hex}\n");
        let suffices = |hex: &str| has_capabilities(&status(hex));
        assert!(suffices("000001ffffffffff"), "root");
        assert!(suffices("000000c000001000"), "BPF, PERFMON and NET_ADMIN");
        assert!(suffices("0000000000200000"), "SYS_ADMIN");
        assert!(!suffices("000000c000000000") && !suffices("0000000000001000"));
        assert!(!suffices("0000000000000000") && !suffices("x") && !has_capabilities(""));
    }

    #[test]
    fn root_of_a_user_namespace_is_nobody_special() {
        assert!(is_of_the_machine("         0          0 4294967295\n"));
        assert!(!is_of_the_machine("         0       1000          1\n") && !is_of_the_machine(""));
    }
}
