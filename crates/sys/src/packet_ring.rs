//! Frames in and out of a namespace's interfaces: a memory-mapped receive ring (AF_PACKET,
//! TPACKET_V2) with the kernel's receive timestamps, and a socket that sends raw frames.
//!
//! It interprets nothing in a frame. The emulator reads here what hosts sent and sends what its
//! model lets through.
//!
//! One ring serves all interfaces of the namespace, so frames of all links come in the order of
//! their arrival. Version 2 of the ring shows each frame at once; version 3 collects blocks, which
//! costs up to a millisecond. Formats: `linux/if_packet.h`, packet(7).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force};

/// Bytes of a block of the ring: contiguous physical memory, so small enough to be found.
const BLOCK_BYTES: usize = 1 << 16;
/// Bytes that the kernel puts before a frame: header, link-level address and alignment.
const FRAME_OVERHEAD: usize = 128;
/// Bytes of sent frames that the receiving side has not read yet: a burst of a few thousand frames.
const SEND_BUFFER: usize = 8 << 20;
/// Bytes of an Ethernet header.
const ETHERNET_HEADER: usize = 14;

/// A frame as the kernel received it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The number of the interface that it came in on.
    pub interface: u32,
    /// When the kernel received it, wall-clock nanoseconds since 1970.
    pub received_at_wall_nanos: u64,
    /// The frame from its Ethernet header on.
    pub bytes: &'a [u8],
    /// Its length on the link; more than `bytes` holds where it did not fit the ring's slots.
    pub length: usize,
}

/// Counts frames of a ring since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStatistics {
    /// Frames that arrived, dropped ones included.
    pub arrived: u64,
    /// Frames that found the ring full.
    pub dropped: u64,
}

/// Receives frames of all interfaces of one namespace.
#[derive(Debug)]
pub struct PacketRing {
    socket: OwnedFd,
    map: NonNull<u8>,
    map_bytes: usize,
    frame_bytes: usize,
    frames_per_block: usize,
    frames: usize,
    next: usize,
    statistics: RingStatistics,
}

// SAFETY: the ring owns its mapping and its socket; neither is tied to a thread.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Opens a ring of at least `frames` slots for IP packets of up to `mtu` bytes, in the calling
    /// thread's namespace.
    ///
    /// Memory: about `frames` × (`mtu` + 142) bytes of the kernel's.
    ///
    /// # Errors
    ///
    /// Needs CAP_NET_RAW in the namespace; fails where the kernel has no memory for the ring.
    pub fn open(frames: usize, mtu: usize) -> io::Result<Self> {
        let socket = packet_socket(0)?;
        set_option(&socket, libc::PACKET_IGNORE_OUTGOING, 1)?;
        Self::map(socket, frames, mtu)
    }

    /// Opens a ring that also shows what the namespace's own programs send, stamped as it leaves.
    ///
    /// Arguments and errors are those of [`Self::open`].
    pub fn open_tap(frames: usize, mtu: usize) -> io::Result<Self> {
        Self::map(packet_socket(0)?, frames, mtu)
    }

    /// Returns how many frames the ring holds.
    pub fn capacity(&self) -> usize {
        self.frames
    }

    /// Says whether a frame waits.
    pub fn is_ready(&self) -> bool {
        self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Shows the next frame to `work` and gives its slot back to the kernel; `None` when none
    /// waits.
    pub fn with_next<T>(&mut self, work: impl FnOnce(Frame<'_>) -> T) -> Option<T> {
        if !self.is_ready() {
            return None;
        }
        let slot = self.next;
        let result = work(self.frame(slot));
        self.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (slot + 1) % self.frames;
        Some(result)
    }

    /// Counts what arrived and what found the ring full since it was opened.
    pub fn statistics(&mut self) -> io::Result<RingStatistics> {
        let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: both pointers are valid for the call and the length is that of the buffer.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // Reading resets the kernel's counts.
        self.statistics.arrived += u64::from(counts.tp_packets);
        self.statistics.dropped += u64::from(counts.tp_drops);
        Ok(self.statistics)
    }

    fn map(socket: OwnedFd, frames: usize, mtu: usize) -> io::Result<Self> {
        set_option(&socket, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
        let frame_bytes = (FRAME_OVERHEAD + ETHERNET_HEADER + mtu).next_multiple_of(16);
        let frames_per_block = BLOCK_BYTES / frame_bytes;
        if frames_per_block == 0 {
            let message = format!("packet ring: an MTU of {mtu} does not fit its blocks");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let blocks = frames.div_ceil(frames_per_block);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_bytes as u32,
            tp_frame_nr: (blocks * frames_per_block) as u32,
        };
        set_option(&socket, libc::PACKET_RX_RING, request)?;
        let map_bytes = blocks * BLOCK_BYTES;
        let map = map_memory(&socket, map_bytes)?;
        let ring = Self {
            socket,
            map,
            map_bytes,
            frame_bytes,
            frames_per_block,
            frames: blocks * frames_per_block,
            next: 0,
            statistics: RingStatistics::default(),
        };
        ring.enable_timestamps()?;
        // Only now, with the ring in place, does the socket want frames.
        bind(&ring.socket, libc::ETH_P_ALL as u16)?;
        Ok(ring)
    }

    fn frame(&self, slot: usize) -> Frame<'_> {
        let start = self.slot(slot);
        // SAFETY: the slot belongs to us until its status is stored: the kernel wrote a
        // `tpacket2_hdr` at its start, aligned to 16 bytes.
        let header = unsafe { start.cast::<libc::tpacket2_hdr>().as_ref() };
        let (at, stored) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let stored = stored.min(self.frame_bytes.saturating_sub(at));
        // SAFETY: `at + stored` lies within the slot, and so does the address, which the kernel
        // puts 16-byte aligned right behind the header.
        let (bytes, address) = unsafe {
            let address_at = (size_of::<libc::tpacket2_hdr>()).next_multiple_of(16);
            (
                std::slice::from_raw_parts(start.add(at).as_ptr(), stored),
                start.add(address_at).cast::<libc::sockaddr_ll>().as_ref(),
            )
        };
        Frame {
            interface: u32::try_from(address.sll_ifindex).unwrap_or(0),
            received_at_wall_nanos: u64::from(header.tp_sec) * 1_000_000_000
                + u64::from(header.tp_nsec),
            bytes,
            length: header.tp_len as usize,
        }
    }

    fn slot(&self, slot: usize) -> NonNull<u8> {
        let (block, place) = (slot / self.frames_per_block, slot % self.frames_per_block);
        let offset = block * BLOCK_BYTES + place * self.frame_bytes;
        // SAFETY: `slot` < `frames`, so the offset lies within the mapping.
        unsafe { self.map.add(offset) }
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with its status word, aligned to 16 bytes, which kernel and program
        // access atomically; it lives as long as the mapping.
        unsafe { AtomicU32::from_ptr(self.slot(slot).cast().as_ptr()) }
    }

    /// Has the kernel stamp frames where they enter the stack instead of where they enter the ring.
    fn enable_timestamps(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        // SAFETY: the pointer is valid for the call and the length is that of the value.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_bytes) };
    }
}

/// Sends raw frames on the interfaces of one namespace.
#[derive(Debug)]
pub struct PacketSender {
    socket: OwnedFd,
}

impl PacketSender {
    /// Opens a sender in the calling thread's namespace.
    pub fn open() -> io::Result<Self> {
        // Protocol 0: this socket receives nothing.
        let socket = packet_socket(0)?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, 1)?;
        // Only root gets more than the machine's limit; others get as much as it allows.
        let _ = set_socket_send_buffer_size_force(&socket, SEND_BUFFER)
            .or_else(|_| set_socket_send_buffer_size(&socket, SEND_BUFFER));
        Ok(Self { socket })
    }

    /// Sends `frame`, from its Ethernet header on, on the interface of that number.
    pub fn send(&self, interface: u32, frame: &[u8]) -> io::Result<()> {
        let address = link_address(interface, 0);
        // SAFETY: both pointers are valid for the call with the lengths given.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn packet_socket(protocol: u16) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers; the descriptor is fresh and owned by nobody else.
    unsafe {
        match libc::socket(libc::AF_PACKET, kind, i32::from(protocol.to_be())) {
            -1 => Err(named("open a packet socket")),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

fn map_memory(socket: &OwnedFd, bytes: usize) -> io::Result<NonNull<u8>> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let map = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, socket.as_raw_fd(), 0)
    };
    if map == libc::MAP_FAILED {
        return Err(named("map the packet ring"));
    }
    NonNull::new(map.cast()).ok_or_else(|| io::Error::other("map the packet ring: at address 0"))
}

fn bind(socket: &OwnedFd, protocol: u16) -> io::Result<()> {
    let address = link_address(0, protocol);
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer is valid for the call and the length is that of the address.
    match unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } {
        0 => Ok(()),
        _ => Err(named("bind the packet ring")),
    }
}

fn link_address(interface: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

fn set_option<T>(socket: &OwnedFd, option: i32, value: T) -> io::Result<()> {
    // SAFETY: the pointer is valid for the call and the length is that of the value.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(named(&format!("set packet socket option {option}"))) }
}

fn named(operation: &str) -> io::Error {
    let error = io::Error::last_os_error();
    io::Error::new(error.kind(), format!("{operation}: {error}"))
}
