//! What goes out: deliveries to local applications and the tunnel, datagrams to the links.

use proto::select::{Class, Policy};
use proto::{Delivery, Instant, SessionId, Transmit, Via};

use super::Daemon;
use super::batches::Way;
use super::packet;
use super::recording::record_delivery;
use crate::config::Content;
use crate::endpoints::Passed;

/// Datagrams that one turn sends before it looks at its inputs again.
const AT_A_TIME: usize = 256;

impl Daemon {
    /// Gives applications what the sessions have for them.
    pub(super) fn deliver(&mut self, now: Instant) {
        while let Some(delivery) = self.endpoint.poll_delivery() {
            self.hand_over(now, delivery);
        }
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.flush();
        }
    }

    /// Gives applications what one session has for them; packets of the tunnel may wait to be
    /// joined.
    pub(super) fn deliver_of(&mut self, now: Instant, session: SessionId) {
        // An event will say which peer it belongs to.
        if self.peer_of(session).is_none() {
            return;
        }
        while let Some(delivery) = self.endpoint.poll_delivery_of(session) {
            self.hand_over(now, delivery);
        }
    }

    /// Sends what the sessions have to say, in batches, up to the bound of a turn.
    pub(super) fn transmit(&mut self, now: Instant) {
        for sent in 0.. {
            if sent == AT_A_TIME {
                self.more = true;
                self.relays.transmit(now, &self.poller);
                break;
            }
            self.relays.tell_room(now, &mut self.endpoint);
            let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.datagram) else {
                let flushed = self.relays.transmit(now, &self.poller);
                self.more |= flushed.more;
                if flushed.has_room {
                    continue;
                }
                break;
            };
            if let Via::Relay(relay) = transmit.destination {
                self.push_to_relay(now, relay, &transmit);
            } else if let Via::Stream(remote) = transmit.destination {
                self.push_to_stream(now, remote, &transmit);
            } else if let Some(way) = self.way(now, &transmit) {
                self.ask_before(now, way.slot);
                let way = (way, transmit.path.zip(transmit.number));
                self.batches.push(now, way, &self.datagram, &mut self.sockets, &self.poller);
                self.follow_blocked();
            }
        }
        self.flush_streams(now);
        self.batches.flush(now, &mut self.sockets, &self.poller);
        for (path, number) in self.batches.refused.drain(..) {
            self.endpoint.on_unsent(path, number);
        }
        self.follow_blocked();
    }

    /// Tells the sessions which sockets are full: their paths wait, the others carry on.
    pub(super) fn follow_blocked(&mut self) {
        for (id, remote, blocked) in self.sockets.news.drain(..) {
            self.endpoint.set_blocked(id, remote.map(Via::Udp), blocked);
        }
    }

    /// Returns the place of a session's peer in the configuration.
    pub(super) fn peer_of(&self, session: SessionId) -> Option<usize> {
        self.places.get(&session).copied()
    }

    fn hand_over(&mut self, now: Instant, mut delivery: Delivery) {
        let Some(peer) = self.peer_of(delivery.session) else {
            return self.take_from_guest(&delivery);
        };
        if delivery.channel == 0 {
            let Some(tunnel) = &mut self.tunnel else {
                return self.on_unclaimed(now, peer, 0, None);
            };
            let Some(to) = tunnel.rules.incoming(peer, &mut delivery.bytes) else {
                let from = (peer, self.config.peers[peer].name.as_str());
                tunnel.strays.on_spoofed(now, &delivery.bytes, from, &mut tunnel.counts);
                return;
            };
            if packet::misleads(&delivery.bytes) {
                tunnel.counts.misleading += 1;
                return;
            }
            tunnel.counts.in_packets += 1;
            tunnel.note_destination(now, to);
            tunnel.send(&delivery.bytes);
            return;
        }
        let (mut is_mavlink, mut is_taken) = (false, false);
        let Delivery { class, mut expires, ref bytes, .. } = delivery;
        // A slow link brings what is old; after a standstill it has waited in our own sockets.
        if class == Class::Telemetry
            && self.standstill.was(now)
            && delivery.age >= Policy::TELEMETRY.ttl
        {
            expires = Some(now);
        }
        let passed = Passed { class, expires, bytes };
        let Self { locals, peers, poller, .. } = self;
        let sources = &mut peers[peer].sources;
        locals.for_each_of(peer, |_, local| {
            if local.config.channel == delivery.channel && local.config.takes(delivery.stream) {
                let is_first = !is_mavlink && matches!(local.config.content, Content::Mavlink(_));
                if is_first {
                    sources.on_far(now, bytes);
                    is_mavlink = true;
                }
                local.deliver(now, passed, None, sources, poller);
                is_taken = true;
            }
        });
        if !is_taken {
            self.on_unclaimed(now, peer, delivery.channel, delivery.stream);
        }
        if let Some(recorder) = &mut self.recorder {
            let name = &self.config.peers[peer].name;
            record_delivery(recorder, now, name, &delivery, is_mavlink);
        }
    }

    fn way(&mut self, now: Instant, transmit: &Transmit) -> Option<Way> {
        let (slot, interface) = self.sockets.place(transmit.interface)?;
        let dscp = if transmit.urgent { self.config.transport.control_dscp } else { 0 };
        let local = transmit.local;
        let Via::Udp(destination) = transmit.destination else { return None };
        let socket = self.sockets.list.get_mut(&slot)?;
        let of_path = transmit.path.is_some();
        socket.sends_ipv6 = destination.is_ipv6();
        let outlet = socket.outlets.find(now, destination, of_path, socket.udp.as_ref());
        Some(Way { slot, interface, local, destination, dscp, outlet })
    }
}
