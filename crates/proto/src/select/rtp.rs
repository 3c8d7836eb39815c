//! Finds RTP among the UDP flows of the tunnel.
//!
//! RTP has no mark of its own: a quarter of all bytes look like its version 2 in the first two bits
//! [RFC 3550 §5.1]. But a source numbers its packets one by one, so a flow is believed when
//! [`PROOF`] of its packets in a row carry the same source and successive numbers. RTCP shares
//! RTP's first bits, and is told apart by its packet types: 200 to 204, and those reserved for more
//! [RFC 3550 §12.1].

/// Packets in a row that prove a flow: four bits of evidence each, and 32 of the source.
const PROOF: u8 = 4;
/// Numbers that may be missing between two packets: as many as a queue before the tunnel may drop
/// at once.
const LARGEST_STEP: u16 = 64;
/// Flows that are remembered: a vehicle has a few cameras, and flows that are not RTP come and go.
const FLOWS: usize = 32;
/// Bytes of a header without extensions.
const HEADER: usize = 12;
/// The second byte of RTCP.
const RTCP: std::ops::RangeInclusive<u8> = 192..=223;

#[derive(Clone, Copy, Debug)]
struct Flow {
    flow: u32,
    source: u32,
    number: u16,
    run: u8,
}

/// Names a frame of an RTP stream: all its packets carry the time at which it was taken
/// [RFC 3550 §5.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpFrame {
    /// The stream's source.
    pub source: u32,
    /// When the frame was taken, in the stream's own units.
    pub timestamp: u32,
}

/// Remembers the flows that may be RTP, the most recently seen one last.
#[derive(Debug, Default)]
pub(super) struct RtpFlows {
    flows: Vec<Flow>,
}

impl RtpFlows {
    /// Notes a UDP packet of `flow`; returns the frame that it is a piece of if it belongs to an
    /// RTP stream.
    pub(super) fn note(&mut self, flow: u32, payload: &[u8]) -> Option<RtpFrame> {
        let (source, number, timestamp) = header(payload)?;
        let known =
            self.flows.iter().position(|known| known.flow == flow && known.source == source);
        let mut entry = match known {
            Some(index) => self.flows.remove(index),
            None => Flow { flow, source, number: number.wrapping_sub(1), run: 0 },
        };
        let step = number.wrapping_sub(entry.number);
        if (1..=LARGEST_STEP).contains(&step) {
            entry.run = entry.run.saturating_add(1);
            entry.number = number;
        } else if step.wrapping_neg() > LARGEST_STEP {
            // Neither one of the next numbers nor an overtaken one: the count began anew, or this
            // is no RTP.
            (entry.run, entry.number) = (0, number);
        }
        let proved = entry.run >= PROOF;
        if self.flows.len() >= FLOWS {
            self.flows.remove(0);
        }
        self.flows.push(entry);
        proved.then_some(RtpFrame { source, timestamp })
    }
}

/// Returns source, number and timestamp, if this may be an RTP packet.
fn header(payload: &[u8]) -> Option<(u32, u16, u32)> {
    let header = payload.get(..HEADER)?;
    if header[0] >> 6 != 2 || RTCP.contains(&header[1]) {
        return None;
    }
    let word =
        |at| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    Some((word(8), u16::from_be_bytes([header[2], header[3]]), word(4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8, number: u16, source: u32) -> Vec<u8> {
        let mut packet = vec![0x80, kind];
        packet.extend_from_slice(&number.to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        packet.extend_from_slice(&source.to_be_bytes());
        packet.resize(1_200, 7);
        packet
    }

    fn proved(
        flows: &mut RtpFlows,
        flow: u32,
        numbers: impl IntoIterator<Item = u16>,
    ) -> Vec<bool> {
        let note = |number| flows.note(flow, &packet(96, number, 5)).is_some();
        numbers.into_iter().map(note).collect()
    }

    #[test]
    fn a_few_numbers_in_a_row_prove_a_flow() {
        let mut flows = RtpFlows::default();
        let numbers = [65_533, 65_534, 2, 3, 4, 5];
        assert_eq!(proved(&mut flows, 1, numbers), [false, false, false, true, true, true]);
        assert_eq!(proved(&mut flows, 2, [6]), [false], "another flow");
        assert_eq!(proved(&mut flows, 1, [7, 6, 8]), [true; 3], "one was overtaken");
        assert_eq!(proved(&mut flows, 1, [9_000, 9_001]), [false; 2], "it began anew");
    }

    #[test]
    fn packets_of_one_time_are_one_frame() {
        let mut flows = RtpFlows::default();
        let mut note = |number: u16, timestamp: u32| {
            let mut packet = packet(96, number, 5);
            packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
            flows.note(1, &packet)
        };
        (0..4).for_each(|number| assert_eq!(note(number, 3_000).is_some(), number == 3));
        assert_eq!(note(4, 3_000), Some(RtpFrame { source: 5, timestamp: 3_000 }));
        assert_eq!(note(5, 6_000), Some(RtpFrame { source: 5, timestamp: 6_000 }));
    }

    #[test]
    fn other_traffic_is_none() {
        let mut flows = RtpFlows::default();
        for number in 0..50_u16 {
            assert_eq!(flows.note(1, &packet(200, number, 5)), None, "RTCP");
            assert_eq!(flows.note(2, &packet(96, 0, 5)), None, "the same number again and again");
            assert_eq!(
                flows.note(3, &packet(96, number, u32::from(number))),
                None,
                "as many sources"
            );
            assert_eq!(
                flows.note(4, &packet(96, number.wrapping_mul(1_009), 5)),
                None,
                "any numbers"
            );
            assert_eq!(flows.note(5, &packet(96, number, 5)[..11]), None, "too short");
            let mut dns = packet(96, number, 5);
            dns[0] = 0x45;
            assert_eq!(flows.note(6, &dns), None, "another version");
        }
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_is_heard_of() {
        let mut flows = RtpFlows::default();
        for number in 0..1_000_u16 {
            let believed = flows.note(1, &packet(96, number, 5)).is_some();
            assert_eq!(believed, number >= 3);
            flows.note(u32::from(number) + 2, &packet(96, number, 5));
            assert!(flows.flows.len() <= FLOWS);
        }
    }
}
