//! What the kernel counted of all TCP in one host.

use super::kernel_stream::counter;
use super::links::{Copy, Side};

/// Counts since the host was made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TcpCounters {
    /// Segments that were sent again.
    pub(crate) retransmits: u64,
    /// Timers of retransmission that ran out.
    pub(crate) timeouts: u64,
}

impl TcpCounters {
    /// Reads those of a side's host.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn read(copy: &Copy<'_>, side: Side) -> Result<Self, String> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        let (snmp, netstat) = copy.enter(side, || Ok((read("snmp")?, read("netstat")?)))?;
        let missing = || "the kernel tells no counters of TCP".to_owned();
        let retransmits = counter(&snmp, "Tcp:", "RetransSegs").ok_or_else(missing)?;
        let timeouts = counter(&netstat, "TcpExt:", "TCPTimeouts").ok_or_else(missing)?;
        Ok(Self { retransmits, timeouts })
    }
}
