//! TCP of the tunnel: sent until it arrives, and passed on in the order of each flow.
//!
//! TCP takes every loss for congestion and every packet out of order for a loss. So what a path
//! loses is sent again here, on the path that brings it soonest, before TCP hears of it, and the
//! receiver restores the order of each flow. Nothing is terminated, split or acknowledged on TCP's
//! behalf [specs/tunnel.md].
//!
//! ```text
//! packet ─► segment: which part of TCP, which flow
//!            data, SYN, FIN, RST ─► queue: flows take turns ─► sender: numbered, kept until acknowledged
//!            ACK alone           ─► plain delivery: cumulative, so it need not arrive
//! symbol ─► release: duplicates removed, each flow in its order ─► tunnel
//! ```
//! That is the form `window`. In the form `flowcode` a source and a destination of coded
//! generations (`delivery/generation`) stand in the sender's place; queue and release are the same.
//!
//! A symbol is one packet, never split. It says how far back the previous one of its flow lies: so
//! the receiver needs no table of flows, and a flow waits for its own packets alone.

mod alone;
mod delivery;
#[cfg(any(test, fuzzing, feature = "doors"))]
mod driven;
#[cfg(any(test, fuzzing, feature = "doors"))]
mod driven_generations;
mod flowcode;
mod form;
mod queue;
mod release;
mod repair;
mod segment;
mod sender;
mod ways;
mod window;

pub use alone::TunnelQueue;
pub(crate) use delivery::Tunnel;
#[cfg(any(fuzzing, feature = "doors"))]
pub(crate) use driven::drive;
#[cfg(any(fuzzing, feature = "doors"))]
pub(crate) use driven_generations::drive as drive_generations;
pub use flowcode::FlowCodeParameters;

/// How TCP of the tunnel travels; the sender's choice, every receiver understands each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TunnelForm {
    /// Sent until it arrives, in the order of its flow.
    #[default]
    Window,
    /// Coded generations, in the order of its flow: as published.
    FlowCode(FlowCodeParameters),
    /// Sent once, and put in order within a bounded delay.
    Plain,
}
