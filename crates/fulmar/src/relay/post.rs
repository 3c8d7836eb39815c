//! A node with its hops.

use proto::{Duration, Instant, NodeName, RelayHop, RelayMember, RelayNode, RelayRole, RelaySide};
use sys::interfaces::Interface;
use sys::poller::Poller;
use sys::udp::ReceiveBuffers;
use sys::{clock, entropy};

use super::hop::HopSocket;
use crate::config::{GatewayConfig, RelayFile};
use crate::status::{RelayMemberReport, RelayReport, millis};

/// Times that one turn asks a socket for more.
const RECEIVES: usize = 8;
/// Frames that one turn sends by a hop.
const AT_A_TIME: usize = 64;
/// How often a node is asked again while one of its hops is absent or full: what is due there
/// cannot leave.
const HELD_UP: Duration = Duration::from_millis(20);

/// What was seen so long ago still holds.
const LATELY: Duration = Duration::from_secs(10);

const HOPS: [RelayHop; 2] = [RelayHop::Wire, RelayHop::Radio];

/// How the poller names the sockets of a post: what comes in, and room to send, for each hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens(pub(crate) fn(usize, usize) -> u64, pub(crate) usize);

impl Tokens {
    fn of(self, hop: RelayHop) -> (u64, u64) {
        let Self(encode, place) = self;
        let part = hop as usize * 2;
        (encode(place, part), encode(place, part + 1))
    }
}

/// A node of a relayed link, and its sockets.
pub(crate) struct Post {
    /// Its name in the file; a relay's own is empty.
    name: String,
    node: RelayNode,
    /// Wire and radio.
    hops: [Option<HopSocket>; 2],
    tokens: Tokens,
    frame: Vec<u8>,
}

impl Post {
    /// Sets up a gateway.
    ///
    /// # Errors
    /// Say that there is no randomness to be had.
    pub(crate) fn gateway(config: &GatewayConfig, tokens: Tokens) -> Result<Self, String> {
        let GatewayConfig { name, side, wire, form, k, group_key, .. } = config;
        let role = RelayRole::Gateway { form: *form, k: *k };
        let hops = [Some(HopSocket::new(wire.clone(), "wire")), None];
        Self::new(name.clone(), *side, role, **group_key, hops, tokens)
    }

    /// Sets up a relay.
    ///
    /// # Errors
    /// Say that there is no randomness to be had.
    pub(crate) fn relay(config: &RelayFile, tokens: Tokens) -> Result<Self, String> {
        let RelayFile { side, number, wire, radio, rate, group_key, .. } = config;
        let role = RelayRole::Relay { number: *number, rate: *rate };
        let wire = HopSocket::new(wire.clone(), "wire");
        let radio = HopSocket::new(radio.clone(), "radio");
        Self::new(String::new(), *side, role, **group_key, [Some(wire), Some(radio)], tokens)
    }

    /// Gives the node itself, for what a session has to do with it.
    pub(crate) fn node(&mut self) -> &mut RelayNode {
        &mut self.node
    }

    /// Returns how long a datagram may be that a gateway takes.
    pub(crate) fn max_datagram(&self) -> usize {
        self.node.max_datagram()
    }

    /// Tells whether the wire is there.
    pub(crate) fn is_there(&self) -> bool {
        self.hops[RelayHop::Wire as usize].as_ref().is_some_and(HopSocket::is_there)
    }

    /// Follows the interfaces; returns whether hops came or went.
    pub(crate) fn refresh(&mut self, interfaces: &[Interface], poller: &Poller) -> bool {
        let mut changed = false;
        for (hop, socket) in HOPS.into_iter().zip(&mut self.hops) {
            if let Some(socket) = socket {
                changed |= socket.refresh(interfaces, poller, self.tokens.of(hop));
            }
        }
        changed
    }

    /// Does what a ready socket asks for; `part` is the poller's. Returns whether there may be more
    /// to take in.
    pub(crate) fn handle_ready(
        &mut self,
        part: usize,
        buffers: &mut ReceiveBuffers,
        poller: &Poller,
    ) -> bool {
        let Some(hop) = HOPS.get(part / 2).copied() else { return false };
        let Some(socket) = &mut self.hops[hop as usize] else { return false };
        if part % 2 == 1 {
            socket.on_room(poller, self.tokens.of(hop).1);
            return false;
        }
        let node = &mut self.node;
        (0..RECEIVES).all(|_| {
            let now = clock::now();
            socket.receive(buffers, |bytes| node.handle_frame(now, hop, bytes))
        })
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.node.timeout().is_some_and(|due| due <= now) {
            self.node.handle_timeout(now);
        }
        while let Some(doubled) = self.node.poll_doubled() {
            tracing::error!(
                "two nodes have one number: {doubled}; give one of them another one (node = )"
            );
        }
    }

    /// Sends what there is, up to the bound of a turn, and no more once `stop` says so; returns
    /// whether the bound was reached.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        poller: &Poller,
        stop: impl Fn(&RelayNode) -> bool,
    ) -> bool {
        let mut more = false;
        for hop in HOPS {
            let Some(socket) = &mut self.hops[hop as usize] else { continue };
            for sent in 0.. {
                if !socket.has_room() {
                    break;
                }
                if sent == AT_A_TIME {
                    more = true;
                    break;
                }
                if !self.node.poll_transmit(now, hop, &mut self.frame) {
                    break;
                }
                socket.send(&self.frame, poller, self.tokens.of(hop).1);
                if stop(&self.node) {
                    return more;
                }
            }
        }
        more
    }

    /// Returns when the node is to be asked again.
    pub(crate) fn timeout(&self, now: Instant) -> Option<Instant> {
        let is_held_up = self.hops.iter().flatten().any(|socket| !socket.has_room());
        let timeout = self.node.timeout()?;
        Some(if is_held_up { timeout.max(now + HELD_UP) } else { timeout })
    }

    /// Returns what is wrong, in words, if anything is.
    pub(crate) fn trouble(&self, now: Instant) -> Option<String> {
        for socket in self.hops.iter().flatten() {
            if let Some(trouble) = &socket.trouble {
                return Some(trouble.clone());
            }
            if let Some(error) = &socket.last_error {
                return Some(format!("cannot send by {}: {error}", socket.config.interface));
            }
        }
        let status = self.node.status(now);
        let own = status.name;
        if let Some(doubled) = status.members.iter().find(|member| is_doubled(own, member)) {
            return Some(format!("two nodes have one number: {}", doubled.name));
        }
        let hears = |member: &RelayMember| {
            member.name.side == own.side
                && member.name.number != own.number
                && is_alive(member.wire)
        };
        if status.members.iter().any(hears) {
            return None;
        }
        let whom = if own.number == 0 { "no relay" } else { "no gateway and no other relay" };
        let key = if status.refused.of(proto::Refusal::BadCode) > 0 {
            ", but frames under another key: compare group_key_file"
        } else {
            ""
        };
        Some(format!("{whom} is heard by the wire{key}"))
    }

    /// Says what the node does.
    pub(crate) fn report(&self, now: Instant) -> RelayReport {
        let status = self.node.status(now);
        let interface = |hop: RelayHop| {
            let socket = self.hops[hop as usize].as_ref();
            socket.map_or(String::new(), |socket| socket.config.interface.clone())
        };
        let members = status.members.iter().map(|member| RelayMemberReport {
            name: member.name.to_string(),
            alive: is_alive(member.wire) || is_alive(member.radio),
            wire_ms: member.wire.map(millis),
            radio_ms: member.radio.map(millis),
            doubled: is_doubled(status.name, member),
            doubled_s: member.doubled.map(|since| since.as_secs_f64()),
            carries_mbps: member.carries.map(|[carries, _]| carries.as_mbps()),
            says_mbps: member.carries.map(|[_, says]| says.as_mbps()),
        });
        RelayReport {
            name: self.name.clone(),
            node: status.name.to_string(),
            wire: interface(RelayHop::Wire),
            radio: interface(RelayHop::Radio),
            trouble: self.trouble(now).unwrap_or_default(),
            members: members.collect(),
            send_errors: self.hops.iter().flatten().map(|socket| socket.errors).sum(),
            ..RelayReport::from(&status)
        }
    }

    fn new(
        name: String,
        side: RelaySide,
        role: RelayRole,
        group_key: [u8; 32],
        hops: [Option<HopSocket>; 2],
        tokens: Tokens,
    ) -> Result<Self, String> {
        let entropy = entropy::seed().map_err(|error| format!("draw random numbers: {error}"))?;
        let config = proto::RelayConfig { side, role, group_key, entropy };
        let node = RelayNode::new(config, clock::now()).map_err(|error| error.to_string())?;
        Ok(Self { name, node, hops, tokens, frame: Vec::with_capacity(2_048) })
    }
}

/// Tells whether two nodes have a number now: it was seen lately, or it is our own that somebody
/// else lives under.
fn is_doubled(own: NodeName, member: &RelayMember) -> bool {
    let is_twin = member.name == own && (is_alive(member.wire) || is_alive(member.radio));
    is_twin || member.doubled.is_some_and(|since| since < LATELY)
}

/// Tells whether a node was heard within the time after which it counts as gone.
fn is_alive(heard: Option<Duration>) -> bool {
    heard.is_some_and(|since| since < Duration::from_secs(1))
}
