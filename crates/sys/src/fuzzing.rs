//! Doors for the fuzz targets in `fuzz/`; not part of the crate otherwise.

use crate::framing::{Deframer, LENGTH, LONGEST, put};
use crate::netlink::{error_of, messages};
use crate::{interfaces, routes, socket_diag};

/// Reads a netlink datagram as the answer to every request that we make.
pub fn netlink_answer(bytes: &[u8]) {
    let mut total = 0;
    for (_, message) in messages(bytes) {
        total += message.body.len();
        assert!(total < bytes.len(), "messages do not overlap, and each has a header");
        let _ = error_of(message.body);
        if let Some(link) = interfaces::link(message.body) {
            assert!(link.name.len() <= 3 * message.body.len());
        }
        let _ = interfaces::address(message.body);
        let _ = routes::route(message.body);
        let _ = routes::neighbour(message.body);
        if let Some(socket) = socket_diag::parse(message.body) {
            let storage = socket.storage.map_or(0, |storage| storage.len());
            assert!(storage <= message.body.len());
        }
    }
}

/// Reads a stream of framed datagrams: it is refused, or all of it is datagrams with their lengths
/// and a rest, whatever pieces it comes in.
pub fn framing(bytes: &[u8]) {
    let Some((&piece, stream)) = bytes.split_first() else { return };
    let read = |piece: usize| {
        let (mut deframer, mut again) = (Deframer::default(), Vec::new());
        let mut end = None;
        for part in stream.to_vec().chunks_mut(piece) {
            let fed = deframer.feed(part, |datagram| put(datagram, &mut again));
            assert!(deframer.kept() < LENGTH + LONGEST, "no more than one datagram is kept");
            if let Err(error) = fed {
                end = Some(error);
                break;
            }
        }
        assert!(stream.starts_with(&again), "datagrams come out as they went in");
        assert!(end.is_some() || again.len() + deframer.kept() == stream.len());
        (again, end)
    };
    assert_eq!(read(usize::from(piece).max(1)), read(stream.len().max(1)));
}
