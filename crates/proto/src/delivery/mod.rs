//! Deliveries: the ways in which what was handed in gets to the other end, a folder each.

pub(crate) mod control;
pub(crate) mod datagram;
pub(crate) mod message;
