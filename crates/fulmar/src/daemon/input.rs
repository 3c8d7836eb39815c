//! What comes in: datagrams of the links, packets of the tunnel, bytes of local applications.

use std::io::ErrorKind;

use proto::select::Class;
use proto::{Duration, Endpoint, Instant, Received, SendError, SessionId, Share, Source};
use sys::clock;
use sys::poller::Ready;

use super::renewal::Former;
use super::sockets::InterfaceSocket;
use super::{Daemon, PeerState};
use crate::config::EndpointConfig;
use crate::endpoints::{Passed, Shared, Taken};
use crate::recorder::Recorder;

/// Times that one turn asks a socket for more: enough to empty what a socket holds by default, and
/// an end where a sender fills it faster than it can be emptied.
const RECEIVES: usize = 32;
/// How long what has come in is handled, one datagram at least, before the sockets are looked at
/// again. A peer that costs little waits no longer than this.
const TURN: Duration = Duration::from_micros(250);
/// Segments that one turn takes from the tunnel, each of up to 64 kB.
const SEGMENTS: usize = 4;
/// How long after the start of a session its paths are still being probed for larger datagrams. A
/// sender remembers the size that it was told for ten minutes, so large packets are dropped without
/// a word until then.
const SETTLING: Duration = Duration::from_secs(3);

impl Daemon {
    pub(super) fn handle_socket(&mut self, now: Instant, slot: usize, event: Ready) {
        if self.sockets.list.get(&slot).is_some_and(InterfaceSocket::is_of_streams) {
            return self.accept_streams(now, slot);
        }
        if event.writable {
            self.handle_room(slot, 0);
        }
        if !event.readable {
            return;
        }
        for former in [false, true] {
            for _ in 0..RECEIVES {
                if !self.receive(now, slot, former) {
                    break;
                }
            }
        }
    }

    /// Takes in what one call of the kernel gives, of the socket or of the one that it had before;
    /// returns whether there may be more.
    fn receive(&mut self, now: Instant, slot: usize, former: bool) -> bool {
        let Self { received, sockets, endpoint, .. } = self;
        let Some(socket) = sockets.list.get_mut(&slot) else { return false };
        let (udp, heard) = match (&mut socket.former, &socket.udp) {
            (Some(Former { udp, heard }), _) if former => (&*udp, heard),
            (_, Some(udp)) if !former => (udp, &mut socket.heard),
            _ => return false,
        };
        match udp.receive(received) {
            Ok(true) => *heard = true,
            Ok(false) => return false,
            Err(error) => {
                tracing::debug!(link = %socket.name, %error, "receive");
                return false;
            }
        }
        // What came in during the turn is later than the turn's own time: with that, offsets of
        // clocks would be estimated from packets that arrive before they were sent.
        let now = clock::now().max(now);
        let more = received.is_full();
        received.for_each(|incoming, bytes| {
            let received = Received {
                interface: sockets.interface_id(slot, incoming.interface),
                local: incoming.local,
                source: incoming.source.into(),
                ecn: incoming.ecn,
            };
            endpoint.admit_datagram(now, &received, bytes);
        });
        more
    }

    /// Handles what has come in until the turn's time is over, the peer that has cost the least
    /// first. Handing the contents to applications is part of the cost.
    pub(super) fn serve(&mut self) {
        let began = clock::now();
        let mut before = began;
        while let Some(share) = self.endpoint.serve(before) {
            if let Share::Session(session) = share {
                self.deliver_of(before, session);
            }
            let after = clock::now();
            self.endpoint.charge(share, after.since(before));
            before = after;
            if after.since(began) >= TURN {
                self.more = true;
                break;
            }
        }
    }

    /// Notes that a socket takes datagrams again.
    pub(super) fn handle_room(&mut self, slot: usize, outlet: usize) {
        self.sockets.unblock(slot, outlet, &self.poller);
        self.follow_blocked();
    }

    pub(super) fn handle_tunnel(&mut self, now: Instant) {
        let Self { tunnel: Some(tunnel), endpoint, peers, standstill, config, .. } = self else {
            return;
        };
        let came = standstill.came(now);
        let (rules, counts, strays) = (&tunnel.rules, &mut tunnel.counts, &mut tunnel.strays);
        let mut answers: Vec<Vec<u8>> = Vec::new();
        let mut take = |packet: &mut [u8]| {
            counts.out_packets += 1;
            let place = rules.outgoing(packet);
            let peer = place.map(|place| &peers[place]);
            let connected = peer.and_then(|peer| Some((peer.connected()?, peer.connected_at?)));
            let Some((session, since)) = connected else {
                let owner = place.map(|place| (place, config.peers[place].name.as_str()));
                return strays.on_unrouted(packet, owner, counts);
            };
            match endpoint.send_late((now, came), session, Source::Tunnel, packet) {
                Ok(_) => {}
                Err(SendError::TooLarge { limit }) => {
                    counts.too_large += 1;
                    if now.since(since) > SETTLING {
                        answers.extend(rules.too_big(packet, limit));
                    }
                }
                Err(SendError::Busy | SendError::NoSession | SendError::TooOld) => {
                    counts.refused += 1
                }
            }
        };
        let mut lost = None;
        for _ in 0..SEGMENTS {
            let Some(device) = tunnel.device.get_mut() else { return };
            match device.receive(&mut take) {
                Ok(true) => {}
                Ok(false) => break,
                // What cannot be cut into packets is dropped; other errors are the interface's end.
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    tracing::debug!(%error, "read from the tunnel");
                }
                Err(error) => {
                    lost = Some(error);
                    break;
                }
            }
        }
        for answer in answers {
            tunnel.send(&answer);
        }
        tunnel.flush();
        if let Some(error) = lost {
            tunnel.lose(now, &error);
        }
    }

    pub(super) fn handle_local(&mut self, now: Instant, place: usize, part: usize, event: Ready) {
        let came = self.standstill.came(now);
        let Self { locals, endpoint, peers, poller, recorder, .. } = self;
        let Some(local) = locals.get_mut(place) else { return };
        let session = peers[local.config.peer].connected();
        {
            let PeerState { sources, .. } = &mut peers[local.config.peer];
            let mut take = taker(&local.config, session, (endpoint, recorder), now);
            local.handle_ready((now, came), part, event, poller, sources, &mut take);
        }
        self.share(now, place);
    }

    /// Lets the other applications of a channel hear what one of them has sent.
    fn share(&mut self, now: Instant, place: usize) {
        let Self { locals, peers, poller, .. } = self;
        let Some(local) = locals.get_mut(place) else { return };
        let shared = local.take_shared();
        let (peer, channel) = (local.config.peer, local.config.channel);
        let sources = &mut peers[peer].sources;
        for Shared { from, came, frame } in shared {
            locals.for_each_of(peer, |_, local| {
                if local.config.channel == channel && local.shares() {
                    let passed = Passed::of_host(came, Class::Telemetry, &frame);
                    local.deliver(now, passed, Some(from), sources, poller);
                }
            });
        }
    }

    pub(super) fn handle_local_timers(&mut self, now: Instant) {
        let Self { locals, endpoint, peers, poller, recorder, .. } = self;
        let mut due = Vec::new();
        for (place, local) in locals.iter_mut() {
            if local.timeout().is_none_or(|due| due > now) {
                continue;
            }
            due.push(place);
            let peer = &mut peers[local.config.peer];
            let (session, sources) = (peer.connected(), &mut peer.sources);
            {
                let mut take = taker(&local.config, session, (endpoint, recorder), now);
                local.offer_held(now, poller, &mut take);
                local.handle_stream_timeout(now, sources, &mut take);
            }
            let mut queue_free_percent =
                || Some(endpoint.status(now, session?)?.queue_free_percent);
            local.handle_timeout(now, poller, sources, &mut queue_free_percent);
        }
        due.into_iter().for_each(|place| self.share(now, place));
    }

    /// Offers a session what waited for room in it.
    pub(super) fn offer_held(&mut self, now: Instant, session: SessionId) {
        let Some(peer) = self.peer_of(session) else { return };
        let Self { locals, endpoint, peers, poller, recorder, .. } = self;
        locals.for_each_of(peer, |_, local| {
            let session = peers[local.config.peer].connected();
            let mut take = taker(&local.config, session, (endpoint, recorder), now);
            local.offer_held(now, poller, &mut take);
        });
    }
}

/// Returns what hands the messages of a local endpoint to its peer's session.
fn taker<'a>(
    config: &EndpointConfig,
    session: Option<SessionId>,
    (endpoint, recorder): (&'a mut Endpoint, &'a mut Option<Recorder>),
    now: Instant,
) -> impl FnMut(Instant, &[u8]) -> Taken + use<'a> {
    let source = config.source();
    move |came, bytes| {
        let Some(session) = session else { return Taken::NotConnected };
        match endpoint.send_late((now, came), session, source, bytes) {
            Ok(_) => {
                if let (Source::Mavlink { .. }, Some(recorder)) = (source, recorder.as_mut()) {
                    recorder.on_mavlink(now, bytes);
                }
                Taken::Yes
            }
            Err(SendError::Busy) => Taken::Busy,
            Err(SendError::TooOld) => Taken::TooOld,
            Err(SendError::NoSession) => Taken::NotConnected,
            Err(SendError::TooLarge { .. }) => Taken::Refused,
        }
    }
}
