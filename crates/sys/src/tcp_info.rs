//! What the kernel says about a TCP connection: window, round-trip time, retransmissions.
//!
//! It is a snapshot: for a curve, ask again and again. For multipath TCP the kernel answers about
//! the first sub-flow.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use units::{Duration, Rate};

/// Room for the kernel's answer; newer kernels know more than is read here.
const BYTES: usize = 256;
/// `ssthresh` of a connection that has not lost anything yet.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The kernel's account of one connection at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; none before the first loss.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The shortest round-trip time of the last minutes.
    pub min_rtt: Duration,
    /// Segments on their way and not acknowledged.
    pub unacked: u32,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// Bytes acknowledged since the connection began.
    pub bytes_acked: u64,
    /// Bytes that were written and have not left.
    pub not_sent: u32,
    /// Rate of delivery in the newest sample that was not limited by the application.
    pub delivery_rate: Rate,
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// State of congestion control: 0 open, 1 disorder, 2 reduced on request, 3 fast recovery,
    /// 4 recovery from a timeout.
    pub state: u8,
}

/// Asks the kernel about a connection.
///
/// # Errors
/// When the socket is not one of TCP.
pub fn tcp_info(stream: &TcpStream) -> io::Result<TcpInfo> {
    let mut bytes = [0_u8; BYTES];
    let mut len = BYTES as libc::socklen_t;
    // SAFETY: `bytes` is writable for `len` bytes, and `len` itself for the call.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if result != 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(error.kind(), format!("ask about a TCP connection: {error}")));
    }
    Ok(parse(&bytes))
}

/// Reads the same from a message of socket diagnosis; what is missing at its end is zero.
pub(crate) fn from_message(message: &[u8]) -> TcpInfo {
    let mut bytes = [0_u8; BYTES];
    let length = message.len().min(BYTES);
    bytes[..length].copy_from_slice(&message[..length]);
    parse(&bytes)
}

/// Reads `struct tcp_info` of `linux/tcp.h`, whose fields keep their places; what an older kernel
/// does not fill in is zero.
fn parse(bytes: &[u8; BYTES]) -> TcpInfo {
    let u32_at =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    let micros = |at: usize| Duration::from_micros(u32_at(at).into());
    TcpInfo {
        state: bytes[1],
        mss: u32_at(16),
        unacked: u32_at(24),
        srtt: micros(68),
        rttvar: micros(72),
        ssthresh: Some(u32_at(76)).filter(|ssthresh| *ssthresh < INFINITE_SSTHRESH),
        cwnd: u32_at(80),
        retransmits: u32_at(100),
        bytes_acked: u64_at(120),
        not_sent: u32_at(144),
        min_rtt: micros(148),
        delivery_rate: Rate::from_bps(u64_at(160).saturating_mul(8)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_connection_tells_what_it_has_done() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let before = tcp_info(&client).unwrap();
        assert!(before.cwnd > 0 && before.mss > 500 && before.ssthresh.is_none(), "{before:?}");
        client.write_all(&[7; 1_000]).unwrap();
        server.read_exact(&mut [0; 1_000]).unwrap();
        server.write_all(b"done").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        let after = tcp_info(&client).unwrap();
        assert_eq!(after.bytes_acked - before.bytes_acked, 1_000);
        assert_eq!((after.retransmits, after.state), (0, 0));
        assert!(after.srtt > Duration::ZERO && after.srtt < Duration::from_secs(1), "{after:?}");
        assert!(after.min_rtt <= after.srtt * 2, "{after:?}");
    }
}
