//! One node of a relay group: takes frames, makes frames, and knows what time it is only by being
//! told.
//!
//! ```text
//! handle_frame ─► members: does it count? ─► gateway │ repeater ─► poll_delivery, poll_fate
//! push ─► gateway ─► poll_transmit ─► keys: sealed at the last moment
//! ```

use std::collections::VecDeque;
use std::fmt;

use units::{Duration, Instant, Rate};

use super::form::{Fate, RelayForm, Sent};
use super::frame::{Body, Hop, LAST_NODE, NodeName, Side, State};
use super::gateway::Gateway;
use super::keys::{Boot, GroupKey};
use super::members::{Members, Refusals};
use super::repeater::{Relayed, Repeater};
use super::sink::Received;
use super::{PRESENCE, Queued, RelayError};
use crate::crypto::Entropy;
use crate::limits;
use crate::path::RelayRoom;

/// What a node of a group is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RelayRole {
    /// Beside the session's daemon; its number is 0.
    Gateway {
        /// How it sends.
        form: RelayForm,
        /// Packets of a generation, 1 to 16.
        k: usize,
    },
    /// Between wire and radio.
    Relay {
        /// Its number, 1 to 63: no other relay of its side has it.
        number: u8,
        /// What its radio carries, headers of UDP and below not counted.
        rate: Rate,
    },
}

/// Configures a node.
pub struct RelayConfig {
    /// Which end it stands at.
    pub side: Side,
    /// What it is.
    pub role: RelayRole,
    /// What all nodes of the group share.
    pub group_key: [u8; 32],
    /// Random bytes from the operating system, anew at each start: they are all that keeps a node
    /// that is started again from using a key and a counter twice.
    pub entropy: [u8; 32],
}

/// A node that has been heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayMember {
    /// Who it is.
    pub name: NodeName,
    /// Since when a frame of it came by the wire.
    pub wire: Option<Duration>,
    /// The same by the radio.
    pub radio: Option<Duration>,
    /// Since when two nodes were last seen to have this number.
    pub doubled: Option<Duration>,
    /// To a gateway of the form `ranked`, what the radio of a relay of its side is held to carry,
    /// and what that relay says of it.
    pub carries: Option<[Rate; 2]>,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayStatus {
    /// Who it is.
    pub name: NodeName,
    /// Whom it has heard.
    pub members: Vec<RelayMember>,
    /// Frames that came in, and that left.
    pub frames_in: u64,
    /// Frames that left.
    pub frames_out: u64,
    /// Frames that were not taken, by reason.
    pub refused: Refusals,
    /// Generations that are open at a gateway.
    pub open: usize,
    /// What a gateway sent.
    pub sent: Sent,
    /// What came to a gateway.
    pub received: Received,
    /// What a relay passed on.
    pub relayed: Relayed,
}

enum Role {
    Gateway(Box<Gateway>),
    Repeater(Box<Repeater>),
}

/// One node of a relay group, gateway or relay, without input or output of its own.
///
/// ```
/// use fulmar_proto::{Instant, RelayConfig, RelayForm, RelayHop, RelayNode, RelayRole, RelaySide};
///
/// let role = RelayRole::Gateway { form: RelayForm::Ranked { f: None }, k: 4 };
/// let (group_key, entropy) = ([7; 32], [1; 32]); // from a file, and from the operating system
/// let config = RelayConfig { side: RelaySide::Ground, role, group_key, entropy };
/// let now = Instant::from_millis(1_000);
/// let mut gateway = RelayNode::new(config, now)?;
/// assert!(!gateway.wants(now), "there is no relay yet");
/// let mut frame = Vec::new();
/// assert!(gateway.poll_transmit(now, RelayHop::Wire, &mut frame), "it says that it is there");
/// # Ok::<(), fulmar_proto::RelayError>(())
/// ```
pub struct RelayNode {
    boot: Boot,
    members: Members,
    role: Role,
    /// What the node itself has to say, by hop.
    replies: [VecDeque<Queued>; 2],
    present_at: [Instant; 2],
    frames_in: u64,
    frames_out: u64,
    now: Instant,
}

impl RelayNode {
    /// Starts a node.
    ///
    /// # Errors
    /// [`RelayError::Number`] when a relay's number is none.
    pub fn new(config: RelayConfig, now: Instant) -> Result<Self, RelayError> {
        let mut entropy = Entropy::new(config.entropy);
        let group = GroupKey::new(config.group_key);
        let (number, role) = match config.role {
            RelayRole::Gateway { form, k } => {
                let gateway = Gateway::new(config.side, form, k, &mut entropy);
                (0, Role::Gateway(Box::new(gateway)))
            }
            RelayRole::Relay { number, rate } => {
                if !(1..=LAST_NODE).contains(&number) {
                    return Err(RelayError::Number);
                }
                let repeater = Repeater::new(config.side, number, rate, entropy.u64());
                (number, Role::Repeater(Box::new(repeater)))
            }
        };
        let name = NodeName { side: config.side, number };
        Ok(Self {
            boot: Boot::new(name, &group, entropy.u64()),
            members: Members::new(group, entropy),
            role,
            replies: [VecDeque::new(), VecDeque::new()],
            present_at: [now; 2],
            frames_in: 0,
            frames_out: 0,
            now,
        })
    }

    /// Takes a frame that came by a hop.
    pub fn handle_frame(&mut self, now: Instant, hop: Hop, bytes: &[u8]) {
        self.now = now;
        self.frames_in += 1;
        let (taken, reply) = self.members.admit(now, hop, bytes, &self.boot);
        let queue = &mut self.replies[hop as usize];
        if let Some(body) = reply
            && queue.len() < limits::RELAY_QUEUE
        {
            queue.push_back(Queued { direction: self.boot.name.side, body });
        }
        let Some((header, body)) = taken else { return };
        let handled = match &mut self.role {
            Role::Gateway(gateway) => gateway.handle(now, &header, body),
            Role::Repeater(repeater) => repeater.handle(now, hop, &header, body),
        };
        if let Err(refusal) = handled {
            self.members.refuse(refusal);
        }
    }

    /// Writes the next frame for a hop into `buf`, which is cleared; false when there is none now.
    ///
    /// At a gateway datagrams are to be handed in before, while [`RelayNode::wants`] says so: what
    /// nobody hands in is taken for not there, and transmitters get something else to send.
    pub fn poll_transmit(&mut self, now: Instant, hop: Hop, buf: &mut Vec<u8>) -> bool {
        self.now = now;
        let queued = self.replies[hop as usize].pop_front();
        let queued = queued.or_else(|| self.presence(now, hop));
        let Some(Queued { direction, body }) = queued.or_else(|| self.next(now, hop)) else {
            return false;
        };
        if !self.boot.seal(hop, direction, &body, buf) {
            return false;
        }
        if let (Role::Repeater(repeater), Hop::Radio) = (&mut self.role, hop) {
            repeater.on_radio(now, buf.len());
        }
        self.frames_out += 1;
        true
    }

    /// Tells whether a gateway takes a datagram now: a transmitter has room for it. Those of 200
    /// bytes or less are taken besides, as [`RelayNode::wants_small`] says.
    pub fn wants(&self, now: Instant) -> bool {
        matches!(&self.role, Role::Gateway(gateway) if gateway.wants(now))
    }

    /// Tells whether a gateway takes a datagram of 200 bytes or less.
    pub fn wants_small(&self) -> bool {
        matches!(&self.role, Role::Gateway(gateway) if gateway.wants_small())
    }

    /// Hands in a datagram at a gateway; what becomes of it is told under `token`, unless it is
    /// small.
    ///
    /// # Errors
    /// [`RelayError::Blocked`] when [`RelayNode::wants`] says no, [`RelayError::TooLarge`], and
    /// [`RelayError::NoGateway`] at a relay.
    pub fn push(&mut self, now: Instant, token: u64, datagram: &[u8]) -> Result<(), RelayError> {
        match &mut self.role {
            Role::Gateway(gateway) => gateway.push(now, token, datagram),
            Role::Repeater(_) => Err(RelayError::NoGateway),
        }
    }

    /// Returns the next datagram that came to a gateway, each once, in no order.
    pub fn poll_delivery(&mut self) -> Option<Vec<u8>> {
        match &mut self.role {
            Role::Gateway(gateway) => gateway.poll_delivery(),
            Role::Repeater(_) => None,
        }
    }

    /// Returns what became of the next datagram that was handed in.
    pub fn poll_fate(&mut self) -> Option<Fate> {
        match &mut self.role {
            Role::Gateway(gateway) => gateway.poll_fate(),
            Role::Repeater(_) => None,
        }
    }

    /// Returns the next node that was found to share its number with another: who has it is to be
    /// changed.
    pub fn poll_doubled(&mut self) -> Option<NodeName> {
        self.members.poll_doubled()
    }

    /// Returns how long a datagram may be that a gateway takes; zero at a relay.
    pub fn max_datagram(&self) -> usize {
        match &self.role {
            Role::Gateway(gateway) => gateway.max_datagram(),
            Role::Repeater(_) => 0,
        }
    }

    /// Returns what a gateway takes now; a relay takes nothing.
    pub fn room(&self, now: Instant) -> RelayRoom {
        match &self.role {
            Role::Gateway(gateway) => gateway.room(now),
            Role::Repeater(_) => RelayRoom::default(),
        }
    }

    /// Returns when [`RelayNode::handle_timeout`] is to be called, and [`RelayNode::poll_transmit`]
    /// after it.
    pub fn timeout(&self) -> Option<Instant> {
        let role = match &self.role {
            Role::Gateway(gateway) => gateway.timeout(self.now),
            Role::Repeater(repeater) => repeater.timeout(self.now),
        };
        let hops = match self.role {
            Role::Gateway(_) => &self.present_at[..1],
            Role::Repeater(_) => &self.present_at[..],
        };
        role.into_iter().chain(hops.iter().copied()).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if let Role::Gateway(gateway) = &mut self.role {
            gateway.handle_timeout(now);
        }
    }

    /// Returns who this is.
    pub fn name(&self) -> NodeName {
        self.boot.name
    }

    fn carries(&self, name: NodeName) -> Option<[Rate; 2]> {
        match &self.role {
            Role::Gateway(gateway) if name.side == self.boot.name.side => {
                gateway.radio_of(name.number)
            }
            _ => None,
        }
    }

    /// Returns what the node says of itself.
    pub fn status(&self, now: Instant) -> RelayStatus {
        let since = |at: Option<Instant>| at.map(|at| now.since(at));
        let members = self.members.iter().map(|(name, [wire, radio], doubled)| RelayMember {
            name,
            wire: since(wire),
            radio: since(radio),
            doubled: since(doubled),
            carries: self.carries(name),
        });
        let (mut sent, mut received, mut relayed) = Default::default();
        let mut open = 0;
        match &self.role {
            Role::Gateway(gateway) => {
                (sent, received) = gateway.counters();
                open = gateway.open();
            }
            Role::Repeater(repeater) => relayed = repeater.counters(),
        }
        RelayStatus {
            name: self.boot.name,
            members: members.collect(),
            frames_in: self.frames_in,
            frames_out: self.frames_out,
            refused: *self.members.refusals(),
            open,
            sent,
            received,
            relayed,
        }
    }

    /// Returns what gateway or relay sends next.
    fn next(&mut self, now: Instant, hop: Hop) -> Option<Queued> {
        match &mut self.role {
            Role::Gateway(_) if hop == Hop::Radio => None,
            Role::Gateway(gateway) => {
                let (members, side) = (&self.members, self.boot.name.side);
                gateway.keep(|number| members.is_alive(now, NodeName { side, number }, Hop::Wire));
                gateway.poll(now)
            }
            Role::Repeater(repeater) => repeater.poll(now, hop),
        }
    }

    /// Returns what a node says of itself, when it is time.
    fn presence(&mut self, now: Instant, hop: Hop) -> Option<Queued> {
        let is_due = self.present_at[hop as usize] <= now;
        let state = match &mut self.role {
            Role::Gateway(_) if hop == Hop::Radio || !is_due => return None,
            Role::Gateway(_) => State::default(),
            Role::Repeater(repeater) => {
                let tells = hop == Hop::Wire && repeater.tells_room(now);
                if !is_due && !tells {
                    return None;
                }
                repeater.state(now)
            }
        };
        if is_due {
            self.present_at[hop as usize] = now + PRESENCE;
        }
        Some(Queued { direction: self.boot.name.side, body: Body::State(state) })
    }
}

impl fmt::Debug for RelayNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayNode").field("name", &self.boot.name).finish_non_exhaustive()
    }
}
