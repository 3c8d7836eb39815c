//! Nodes that have the group's key and no sense, for the fuzz targets: they answer challenges, and
//! say anything.

use std::collections::BTreeMap;

use super::frame::{self, Asked, Body, Hop, NodeName, Numbers, Side};
use super::keys::{self, Boot, GroupKey};

/// All nodes of a group at once.
pub(crate) struct MadNode {
    group: GroupKey,
    boots: BTreeMap<NodeName, Boot>,
}

impl MadNode {
    pub(crate) fn new(group: [u8; 32]) -> Self {
        Self { group: GroupKey::new(group), boots: BTreeMap::new() }
    }

    /// Says something as a node: a frame of any kind and body, with the right code.
    pub(crate) fn say(
        &mut self,
        sender: NodeName,
        hop: Hop,
        direction: Side,
        kind: u8,
        body: &[u8],
        give: impl FnOnce(&[u8]),
    ) {
        let boot = Self::boot(&mut self.boots, &self.group, sender);
        let mut bytes = Vec::new();
        if let Some(header) = boot.next_header(hop, direction) {
            frame::write_header(&header, kind % 8, &mut bytes);
            bytes.extend_from_slice(body);
            keys::sign(&self.group.of(sender, boot.boot), header.counter, &mut bytes);
            give(&bytes);
        }
    }

    /// Answers what asks one of them.
    pub(crate) fn hear(&mut self, hop: Hop, bytes: &[u8], give: impl FnOnce(&[u8])) {
        let (Ok(said), Ok(Body::Challenge(asked))) =
            (frame::read_header(bytes), frame::read_body(bytes))
        else {
            return;
        };
        let Numbers::Whole { boot: asks, .. } = said.numbers else { return };
        let boot = Self::boot(&mut self.boots, &self.group, asked.name);
        let answer = Asked { name: said.sender, boot: asks, token: asked.token };
        let mut bytes = Vec::new();
        if boot.boot == asked.boot
            && boot.seal(hop, asked.name.side, &Body::Answer(answer), &mut bytes)
        {
            give(&bytes);
        }
    }

    fn boot<'a>(
        boots: &'a mut BTreeMap<NodeName, Boot>,
        group: &GroupKey,
        name: NodeName,
    ) -> &'a mut Boot {
        boots.entry(name).or_insert_with(|| Boot::new(name, group, 77))
    }
}
