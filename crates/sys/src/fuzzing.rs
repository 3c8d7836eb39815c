//! Doors for the fuzz targets in `fuzz/`; not part of the crate otherwise.

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
