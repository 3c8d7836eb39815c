//! What a traced algorithm did, event by event, in the order in which the kernel ran its hooks.
//!
//! Nothing is sampled: every reduction, every end of a recovery and every ACK that may change the
//! window is there, however busy the machine, as long as the buffer is emptied in time.

use std::time::Duration;

use libbpf_rs::{MapCore, Object, RingBufferBuilder};

use crate::flows::Memory;
use crate::words::word;
use crate::{Error, object};

/// One run of a hook, and what it left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which hook, and what it was told.
    pub step: Step,
    /// The congestion window, packets.
    pub cwnd: u32,
    /// The slow-start threshold, packets.
    pub ssthresh: u32,
    /// What ASRAN remembers.
    pub memory: Memory,
    /// The smoothed round-trip time.
    pub srtt: Duration,
    /// Our port.
    pub local_port: u16,
    /// The other end's port.
    pub peer_port: u16,
}

/// Which hook ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A connection began to use the algorithm.
    Init,
    /// The kernel asked how far to reduce the window; what the base algorithm said.
    Reduction(u32),
    /// The kernel went into a state (`TCP_CA_*`: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss).
    State(u32),
    /// A recovery, or a reduction that ECN asked for, is over.
    Recovered,
    /// The retransmission timer fired.
    Timeout,
    /// The last reduction was needless.
    Undo,
    /// So many packets were acknowledged outside a recovery.
    Ack(u32),
}

/// Empties the buffer of a traced object.
pub(crate) fn take(object: &Object) -> Result<Vec<Record>, Error> {
    let refused = |error: libbpf_rs::Error| object::explain("read the trace", &error);
    let Some(map) = object.maps().find(|map| map.name() == "asran_trace") else {
        return Ok(Vec::new());
    };
    let mut records = Vec::new();
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, |bytes| {
            records.extend(parse(bytes));
            0
        })
        .map_err(refused)?;
    builder.build().and_then(|buffer| buffer.consume()).map_err(refused)?;
    Ok(records)
}

/// Reads `struct trace_record`.
fn parse(bytes: &[u8]) -> Option<Record> {
    let detail = word(bytes, 1)?;
    let step = match word(bytes, 0)? {
        0 => Step::Init,
        1 => Step::Reduction(detail),
        2 => Step::State(detail),
        3 => Step::Recovered,
        4 => Step::Timeout,
        5 => Step::Undo,
        6 => Step::Ack(detail),
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    Some(Record {
        step,
        cwnd: word(bytes, 2)?,
        ssthresh: word(bytes, 3)?,
        memory: Memory::of(bytes.get(16..)?)?,
        srtt: Duration::from_micros(word(bytes, 9)?.into()),
        local_port: port(40)?,
        peer_port: port(42)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_record_is_none() {
        let bytes = [0; 44];
        assert!(parse(&bytes).is_some());
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), None);
        }
    }
}
