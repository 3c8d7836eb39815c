//! What live connections are doing: the kernel's account of each, with what ASRAN remembers of it.

use std::os::fd::AsFd;

use libbpf_rs::query::{MapInfo, MapInfoIter};
use libbpf_rs::{MapHandle, MapType};
use sys::socket_diag::{self, TcpSocket};

use crate::words::word;

/// How the names of the object's maps of sockets begin.
const MAPS_BEGIN: &str = "asran_";
/// Size of `struct asran`, with which the memory of every flavour begins.
const MEMORY_BYTES: u32 = 20;
/// More objects than anybody runs at once.
const MAPS: usize = 64;

/// Shows a TCP connection of this network namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// What the kernel says.
    pub socket: TcpSocket,
    /// What an installed flavour remembers; none for other algorithms, and for users who may not
    /// look.
    pub memory: Option<Memory>,
}

/// What ASRAN remembers of a connection, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The window just before the last loss, 0 before the first.
    pub last_max_cwnd: u32,
    /// What the base algorithm asked for at the last loss.
    pub original_ssthresh: u32,
    /// What ASRAN made of it.
    pub recalculated_ssthresh: u32,
    /// What is going on.
    pub phase: Phase,
}

/// Says what ASRAN is doing with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing: the base algorithm alone is at work.
    Steady,
    /// A loss was met; the kernel has not yet said how it takes it.
    Decided,
    /// Fast recovery: the window is reduced, the recalculated threshold waits for its end.
    Pending,
    /// Recovery is over: slow start towards the recalculated threshold, then congestion avoidance.
    Restoring,
}

impl Phase {
    /// Returns its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Steady => "steady",
            Phase::Decided => "decided",
            Phase::Pending => "recovering",
            Phase::Restoring => "restoring",
        }
    }

    fn of(number: u32) -> Phase {
        match number {
            1 => Phase::Decided,
            2 => Phase::Pending,
            3 => Phase::Restoring,
            _ => Phase::Steady,
        }
    }
}

impl Memory {
    /// Says whether a window of `cwnd` packets is on its way back to what the path carried before.
    pub fn is_restoring(&self, cwnd: u32) -> bool {
        self.phase == Phase::Restoring && cwnd < self.recalculated_ssthresh
    }

    /// Reads `struct asran` of the object.
    pub(crate) fn of(bytes: &[u8]) -> Option<Memory> {
        Some(Memory {
            last_max_cwnd: word(bytes, 0)?,
            original_ssthresh: word(bytes, 1)?,
            recalculated_ssthresh: word(bytes, 3)?,
            phase: Phase::of(word(bytes, 4)?),
        })
    }
}

/// Lists the TCP connections of the calling thread's network namespace, of every algorithm.
///
/// Sub-flows of multipath TCP are connections of their own here. Only root sees what ASRAN
/// remembers of each.
///
/// # Errors
///
/// Those of socket diagnosis (a kernel without CONFIG_INET_TCP_DIAG).
pub fn flows() -> std::io::Result<Vec<Flow>> {
    let maps = memories();
    let maps: Vec<_> = maps.iter().map(AsFd::as_fd).collect();
    let sockets = match socket_diag::tcp_sockets(&maps) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            socket_diag::tcp_sockets(&[])
        }
        other => other,
    };
    let flow = |socket: TcpSocket| {
        let memory = socket.storage.as_deref().and_then(Memory::of);
        Flow { socket, memory }
    };
    Ok(sockets?.into_iter().map(flow).collect())
}

/// Finds the maps of all objects, whether installed or of an experiment. It finds them by name,
/// since not every map has a file: the programs that use it keep it alive. None for users who may
/// not look.
fn memories() -> Vec<MapHandle> {
    let is_one = |info: &MapInfo| {
        info.ty == MapType::SkStorage
            && info.name.to_string_lossy().starts_with(MAPS_BEGIN)
            && info.value_size >= MEMORY_BYTES
    };
    let found = MapInfoIter::default().filter(is_one);
    found.filter_map(|info| MapHandle::from_map_id(info.id).ok()).take(MAPS).collect()
}
