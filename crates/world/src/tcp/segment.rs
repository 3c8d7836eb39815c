//! A TCP segment as bytes: the header of RFC 9293 and the options of RFC 2018 and RFC 7323.
//!
//! Payloads are zeros, so that a segment says how many bytes it carries and not which. Checksums
//! are written and looked at as on a real link.

use std::net::{IpAddr, SocketAddrV4};

use ip::{HEADER4, Packet, TCP};

/// Bytes of a TCP header without options.
pub(super) const HEADER: usize = 20;
/// Bytes of the timestamps in every segment, with the padding that Linux puts before them.
const TIMESTAMPS: usize = 12;
/// Blocks of SACK that fit beside timestamps [RFC 2018 §3].
pub(super) const SACK_BLOCKS: usize = 3;

// Kinds of options, and bits of the header.
const END: u8 = 0;
const PADDING: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;
const SYN_BIT: u8 = 0x02;
const ACK_BIT: u8 = 0x10;

/// One segment, as both ends write and read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) source: SocketAddrV4,
    pub(super) destination: SocketAddrV4,
    pub(super) sequence: u32,
    /// What is acknowledged; none in the first segment of a connection alone.
    pub(super) ack: Option<u32>,
    /// What a connection begins with, where this is a SYN.
    pub(super) syn: Option<Syn>,
    /// As it stands in the header: not yet scaled.
    pub(super) window: u16,
    /// Own clock in ms, and the peer's that is echoed.
    pub(super) timestamps: (u32, u32),
    /// Blocks from beginning to end; those that are not used are empty.
    pub(super) sack: [(u32, u32); SACK_BLOCKS],
    /// Bytes of payload.
    pub(super) len: usize,
}

/// What one end tells the other of itself in its SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syn {
    /// The longest segment that it takes, in bytes.
    pub(super) mss: u16,
    /// Bits by which its window is shifted.
    pub(super) window_scale: u8,
}

impl Segment {
    /// Writes the packet.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut tcp = Vec::with_capacity(HEADER + 40 + self.len);
        tcp.extend_from_slice(&self.source.port().to_be_bytes());
        tcp.extend_from_slice(&self.destination.port().to_be_bytes());
        tcp.extend_from_slice(&self.sequence.to_be_bytes());
        tcp.extend_from_slice(&self.ack.unwrap_or(0).to_be_bytes());
        let ack = self.ack.map_or(0, |_| ACK_BIT);
        tcp.extend_from_slice(&[0, ack | self.syn.map_or(0, |_| SYN_BIT)]);
        tcp.extend_from_slice(&self.window.to_be_bytes());
        tcp.extend_from_slice(&[0; 4]);
        self.write_options(&mut tcp);
        tcp[12] = ((tcp.len() / 4) as u8) << 4;
        // The payload's zeros add nothing to the sum.
        let partial = pseudo_header(self.source, self.destination, tcp.len() + self.len);
        let checksum = ip::checksum(&tcp, partial);
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
        tcp.resize(tcp.len() + self.len, 0);
        ip::ipv4(*self.source.ip(), *self.destination.ip(), TCP, &tcp)
    }

    /// Reads a packet; none for what is no whole TCP over IPv4 with timestamps, or is damaged.
    pub(super) fn read(packet: &[u8]) -> Option<Self> {
        let packet = Packet::read(packet)?;
        let (IpAddr::V4(source), IpAddr::V4(destination)) = packet.addresses() else { return None };
        let transport = packet.transport().filter(|found| found.protocol == TCP)?;
        let (tcp, header) = (transport.bytes, transport.bytes.get(..HEADER)?);
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let long = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        let source = SocketAddrV4::new(source, short(0));
        let destination = SocketAddrV4::new(destination, short(2));
        let options = tcp.get(HEADER..usize::from(header[12] >> 4) * 4)?;
        if ip::checksum(tcp, pseudo_header(source, destination, tcp.len())) != 0 {
            return None;
        }
        let mut segment = Self {
            source,
            destination,
            sequence: long(4),
            ack: (header[13] & ACK_BIT != 0).then(|| long(8)),
            syn: (header[13] & SYN_BIT != 0).then_some(Syn { mss: 536, window_scale: 0 }),
            window: short(14),
            timestamps: (0, 0),
            sack: Default::default(),
            len: tcp.len() - HEADER - options.len(),
        };
        segment.read_options(options).then_some(segment)
    }

    /// Returns the blocks of SACK that it has.
    pub(super) fn sack_blocks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.sack.iter().copied().filter(|(start, end)| start != end)
    }

    fn write_options(&self, tcp: &mut Vec<u8>) {
        if let Some(syn) = self.syn {
            let [high, low] = syn.mss.to_be_bytes();
            tcp.extend_from_slice(&[MSS, 4, high, low]);
            tcp.extend_from_slice(&[SACK_PERMITTED, 2, WINDOW_SCALE, 3, syn.window_scale, PADDING]);
        }
        tcp.extend_from_slice(&[PADDING, PADDING, TIMESTAMP, 10]);
        tcp.extend_from_slice(&self.timestamps.0.to_be_bytes());
        tcp.extend_from_slice(&self.timestamps.1.to_be_bytes());
        let blocks = self.sack_blocks().count();
        if blocks > 0 {
            tcp.extend_from_slice(&[PADDING, PADDING, SACK, 2 + 8 * blocks as u8]);
            for (start, end) in self.sack_blocks() {
                tcp.extend_from_slice(&start.to_be_bytes());
                tcp.extend_from_slice(&end.to_be_bytes());
            }
        }
        tcp.resize(tcp.len().next_multiple_of(4), END);
    }

    /// Takes the options over; false where they are no options, or have no timestamps.
    fn read_options(&mut self, mut options: &[u8]) -> bool {
        let mut has_timestamps = false;
        while let [kind, rest @ ..] = options {
            if *kind == END {
                break;
            }
            if *kind == PADDING {
                options = rest;
                continue;
            }
            let Some(&len) = rest.first() else { return false };
            let Some(value) = options.get(2..usize::from(len)) else { return false };
            options = &options[usize::from(len)..];
            match (*kind, value) {
                (MSS, &[high, low]) => {
                    let mss = u16::from_be_bytes([high, low]);
                    self.syn = self.syn.map(|syn| Syn { mss, ..syn });
                }
                (WINDOW_SCALE, &[window_scale]) => {
                    self.syn = self.syn.map(|syn| Syn { window_scale, ..syn });
                }
                (TIMESTAMP, _) => {
                    let Some(pair) = pairs(value).next() else { return false };
                    (self.timestamps, has_timestamps) = (pair, true);
                }
                (SACK, _) => {
                    for (place, block) in self.sack.iter_mut().zip(pairs(value)) {
                        *place = block;
                    }
                }
                _ => {}
            }
        }
        has_timestamps
    }
}

/// Returns the MSS that an end announces whose packets have at most `mtu` bytes [RFC 9293 §3.7.1].
pub(super) fn announced_mss(mtu: usize) -> u16 {
    mtu.saturating_sub(HEADER4 + HEADER).clamp(TIMESTAMPS + 1, 65_495) as u16
}

/// Returns the bytes of payload of a segment whose peer has announced an MSS.
pub(super) fn payload_of(mss: u16) -> u64 {
    u64::from(mss).saturating_sub(TIMESTAMPS as u64).max(1)
}

/// Reads numbers of four bytes, two by two.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    bytes.chunks_exact(8).map(move |pair| (number(&pair[..4]), number(&pair[4..])))
}

/// Sums up what a checksum covers beside the segment [RFC 9293 §3.1].
fn pseudo_header(source: SocketAddrV4, destination: SocketAddrV4, len: usize) -> u32 {
    let addresses = [source, destination].map(|end| ip::sum(&end.ip().octets()));
    addresses[0] + addresses[1] + u32::from(TCP) + len as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> Segment {
        Segment {
            source: "10.99.0.2:40000".parse().unwrap(),
            destination: "10.99.0.1:5001".parse().unwrap(),
            sequence: 0xFFFF_FFF0,
            ack: Some(7),
            syn: None,
            window: 500,
            timestamps: (1, 2),
            sack: [(10, 20), (30, 45), (0, 0)],
            len: 1_001,
        }
    }

    #[test]
    fn what_is_written_is_read_and_damage_is_seen() {
        let syn = Segment {
            ack: None,
            syn: Some(Syn { mss: 1_360, window_scale: 7 }),
            sack: Default::default(),
            len: 0,
            ..segment()
        };
        for segment in [segment(), syn] {
            let mut packet = segment.write();
            assert_eq!(Segment::read(&packet), Some(segment));
            for cut in 0..packet.len() {
                assert_eq!(Segment::read(&packet[..cut]), None);
            }
            packet[33] ^= 0x10;
            assert_eq!(Segment::read(&packet), None);
        }
    }

    #[test]
    fn nonsense_of_options_is_survived() {
        for options in [&[SACK][..], &[SACK, 0], &[TIMESTAMP, 3, 0], &[SACK, 200, 1], &[9, 1, 1]] {
            assert!(!segment().read_options(options), "{options:?}");
        }
    }
}
