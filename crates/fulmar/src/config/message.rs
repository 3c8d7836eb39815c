//! The local endpoints of message delivery: `[[message]]`.
//!
//! A message arrives once and whole, in the order of its stream or as soon as it can, or is skipped
//! when its deadline has passed. RTP is one use of that: no order, and a deadline by default.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use proto::{Duration, MessageOrder, MessageStream};
use toml_keys::Section;

use super::kind::{Kind, endpoint_kind};
use super::peers::{ReadPeer, peer};
use super::{Content, EndpointConfig, EndpointKind, MessageContent};

/// Beyond this age a video packet is of no use: three frames at 25 a second, and a round trip of
/// LTE; receivers wait about as long by default (GStreamer's `rtpjitterbuffer`: 200 ms).
const RTP_DEADLINE: Duration = Duration::from_millis(200);
/// Permissions of a SEQPACKET socket unless the file says otherwise: for its owner and its group.
const USUAL_MODE: u32 = 0o660;
/// The longest path that the kernel takes for a socket, without the final zero.
const LONGEST_PATH: usize = 107;

#[derive(Clone, Copy)]
enum Shape {
    Datagrams(Kind),
    Rtp(Kind),
    Seqpacket,
}

/// Reads one `[[message]]`.
pub(super) fn message(section: &Section<'_>, peers: &[ReadPeer]) -> Option<EndpointConfig> {
    let name = section.required_text("name").unwrap_or_default().to_owned();
    section.require("channel");
    let channel = section.number("channel", 1..=255);
    let stream = section.number("stream", 0..=65_535).unwrap_or(0) as u16;
    let kinds = [
        ("udp-server", Shape::Datagrams(Kind::UdpServer)),
        ("udp-client", Shape::Datagrams(Kind::UdpClient)),
        ("seqpacket", Shape::Seqpacket),
        ("rtp-server", Shape::Rtp(Kind::UdpServer)),
        ("rtp-client", Shape::Rtp(Kind::UdpClient)),
    ];
    section.require("kind");
    // A kind that is not understood must not make the others' keys unknown.
    let _ = ["address", "path", "mode"].map(|key| section.has(key));
    let shape = section.choice("kind", &kinds);
    let kind = shape.and_then(|shape| match shape {
        Shape::Datagrams(kind) | Shape::Rtp(kind) => datagrams(section, kind),
        Shape::Seqpacket => seqpacket(section),
    });
    let rtp = matches!(shape, Some(Shape::Rtp(_)));
    let orders = [("in-order", MessageOrder::InOrder), ("unordered", MessageOrder::Unordered)];
    let order = section.choice("order", &orders);
    if rtp && order == Some(MessageOrder::InOrder) {
        section.wrong("order", "RTP numbers its packets: it is \"unordered\", nothing waits");
    }
    let deadline = section.number("deadline_ms", 10..=60_000).map(Duration::from_millis);
    let usual = if rtp { MessageOrder::Unordered } else { MessageOrder::InOrder };
    let stream = MessageStream {
        id: stream,
        order: order.unwrap_or(usual),
        deadline: deadline.or(rtp.then_some(RTP_DEADLINE)),
    };
    let content = MessageContent { stream, rtp };
    let (peer, content) = (peer(section, peers), Content::Message(content));
    Some(EndpointConfig { name, channel: channel? as u8, peer: peer?, kind: kind?, content })
}

fn datagrams(section: &Section<'_>, kind: Kind) -> Option<EndpointKind> {
    for key in ["path", "mode"] {
        if section.has(key) {
            section.wrong(key, "belongs to kind = \"seqpacket\"");
        }
    }
    endpoint_kind(section, kind)
}

fn seqpacket(section: &Section<'_>) -> Option<EndpointKind> {
    if section.has("address") {
        section.wrong("address", "belongs to UDP; a SEQPACKET socket has a path");
    }
    let mode = section.text("mode").map(|text| {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        if mode.is_none() {
            section.wrong("mode", format!("\"{text}\" is not permissions such as \"0660\""));
        }
        mode.unwrap_or(USUAL_MODE)
    });
    let path = PathBuf::from(section.required_text("path")?);
    let length = path.as_os_str().as_bytes().len();
    if !path.is_absolute() || length > LONGEST_PATH {
        let what = format!("needs an absolute path of at most {LONGEST_PATH} bytes");
        section.wrong("path", what);
    } else if std::fs::symlink_metadata(&path).is_ok_and(|there| !there.file_type().is_socket()) {
        section.wrong("path", format!("something else than a socket lies at {}", path.display()));
    }
    Some(EndpointKind::Seqpacket(path, mode.unwrap_or(USUAL_MODE)))
}
