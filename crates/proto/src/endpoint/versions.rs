//! Peers that speak another version of the wire: both ends are told, for people [specs/wire.md §4]
//! (4.8).
//!
//! ```text
//! Initiation that its peer made, and that cannot be opened → Version → Version of the initiator
//! ```
//!
//! A responder of a release that knows no Version datagrams answers with cookies and nothing else:
//! that tells as much.

use units::Instant;

use super::Endpoint;
use crate::crypto::{OtherVersion, VersionAnswer};
use crate::ids::{PeerId, Received, SessionId};

impl Endpoint {
    /// Tells whether a peer speaks another version of the wire, as far as it is known: then there
    /// will be no session.
    pub fn other_version(&self, peer: PeerId) -> Option<OtherVersion> {
        let begun = self.sessions.begun_with(peer).and_then(|id| self.sessions.get(id));
        let initiator = begun.and_then(|slot| slot.initiator.as_ref());
        let of_responder = initiator.and_then(|initiator| initiator.other_version(self.now));
        of_responder.or_else(|| self.responder.other_version(peer).cloned())
    }

    pub(super) fn handle_version(&mut self, now: Instant, received: &Received, bytes: &[u8]) {
        let Ok(answer) = VersionAnswer::decode(bytes) else {
            self.counters.garbage += 1;
            return;
        };
        let taken = match self.sessions.owner(answer.receiver) {
            Some(id) => self.take_version(now, received, id, &answer),
            None => self.responder.handle_version(received.source, &answer, &self.peers),
        };
        if !taken {
            self.counters.bad_mac += 1;
        }
    }

    /// Takes what the responder of one of our handshakes says, and says what we speak.
    fn take_version(
        &mut self,
        now: Instant,
        received: &Received,
        id: SessionId,
        answer: &VersionAnswer,
    ) -> bool {
        let wire = self.wire;
        let Some(slot) = self.sessions.get_mut(id) else { return false };
        let peer = self.peers.get(slot.peer);
        let told = peer.zip(slot.initiator_of(answer.receiver)).and_then(|(peer, initiator)| {
            let from = (received.interface, received.source);
            initiator.handle_version(now, from, (&peer.shared, wire), answer)
        });
        match told {
            Some(reply) => {
                reply.into_iter().for_each(|reply| self.answer(received, reply.to_vec()));
                true
            }
            None => false,
        }
    }
}
