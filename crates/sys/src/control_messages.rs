//! What goes with a datagram beside its bytes: marks, the way out, and where a batch is cut.

use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::udp::Outgoing;

/// Space for TOS, packet information and segment size, aligned for `cmsghdr`.
#[repr(align(8))]
struct Aligned([u8; 128]);

/// Encodes control messages for one send.
pub(crate) struct ControlMessages {
    bytes: Aligned,
    length: usize,
}

impl Default for ControlMessages {
    fn default() -> Self {
        Self { bytes: Aligned([0; 128]), length: 0 }
    }
}

impl ControlMessages {
    /// Says by which interface and address datagrams leave, and how they are marked and cut.
    pub(crate) fn of(outgoing: &Outgoing<'_>) -> Self {
        let mut messages = Self::default();
        messages.fill(outgoing);
        messages
    }

    /// Returns address and length, as `msghdr` wants them.
    pub(crate) fn parts(&mut self) -> (*mut libc::c_void, usize) {
        (self.bytes.0.as_mut_ptr().cast(), self.length)
    }

    fn fill(&mut self, outgoing: &Outgoing<'_>) {
        let tos = libc::c_int::from(outgoing.dscp << 2 | outgoing.ecn & 3);
        let interface = outgoing.interface.unwrap_or(0);
        if outgoing.destination.is_ipv4() {
            self.push(libc::IPPROTO_IP, libc::IP_TOS, tos);
        } else {
            self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos);
        }
        match (outgoing.destination, outgoing.local) {
            (_, None) if interface == 0 => {}
            (SocketAddr::V4(_), None | Some(IpAddr::V4(_))) => {
                let local = match outgoing.local {
                    Some(IpAddr::V4(local)) => local,
                    _ => Ipv4Addr::UNSPECIFIED,
                };
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, packet_info(local, interface));
            }
            (SocketAddr::V6(_), None | Some(IpAddr::V6(_))) => {
                let local = match outgoing.local {
                    Some(IpAddr::V6(local)) => local,
                    _ => Ipv6Addr::UNSPECIFIED,
                };
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: local.octets() },
                    ipi6_ifindex: interface as _,
                };
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
            // An address of the other family cannot be a source: the kernel chooses.
            _ => {}
        }
        if outgoing.bytes.len() > outgoing.segment {
            self.push(libc::SOL_UDP, libc::UDP_SEGMENT, outgoing.segment as u16);
        }
    }

    fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        let header_size = size_of::<libc::cmsghdr>();
        // SAFETY: CMSG_LEN and CMSG_SPACE only compute.
        let (length, space) = unsafe {
            (libc::CMSG_LEN(size_of::<T>() as u32), libc::CMSG_SPACE(size_of::<T>() as u32))
        };
        assert!(self.length + space as usize <= self.bytes.0.len(), "control messages outgrew");
        let header = libc::cmsghdr { cmsg_len: length as _, cmsg_level: level, cmsg_type: kind };
        // SAFETY: the assertion leaves room for header and value after `length`; both are plain
        // old data and are written without any demand on alignment.
        unsafe {
            let at = self.bytes.0.as_mut_ptr().add(self.length);
            at.cast::<libc::cmsghdr>().write_unaligned(header);
            at.add(header_size).cast::<T>().write_unaligned(value);
        }
        self.length += space as usize;
    }
}

fn packet_info(local: Ipv4Addr, interface: u32) -> libc::in_pktinfo {
    libc::in_pktinfo {
        ipi_ifindex: interface as _,
        ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(local.octets()) },
        ipi_addr: libc::in_addr { s_addr: 0 },
    }
}
