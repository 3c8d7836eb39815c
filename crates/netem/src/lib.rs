//! Emulated links and worlds of Fulmar: pure functions of scenario, trace, seed and time.
//!
//! Nothing here opens a file or a socket, reads a clock or starts a thread. A [`Scenario`] says what
//! the hosts, their clocks and the links between them are like. A [`Net`] decides for each packet
//! that enters a link, at once, when and how often it comes out. Two drivers stand on it: the
//! [`World`] of this crate, which runs hosts in virtual time, and the real-time emulator between
//! network namespaces, which lives in the lab.
//!
//! ```text
//! Scenario::from_toml → Net::new ─┬─ World (virtual time, hosts with clocks of their own)
//!                                 └─ real-time emulator (kernel time stamps)
//! packet → queue → transmitter (rate, hold, medium) → air (outage, loss) → delay → receiver
//! ```

mod clock;
mod link;
mod net;
mod scenario;
mod world;

pub use clock::{CLOCK_ORIGIN, ClockModel, ClockStep, HostClock};
pub use link::{
    Delay, Delivery, DropCause, Link, LinkModel, LinkRate, LinkStats, LossModel, Outage,
    OutageMode, QueueLimit, Verdict,
};
pub use net::{Arrival, LinkEnd, Net};
pub use scenario::{
    Direction, HostModel, Interface, LinkPair, MAX_HOSTS, MAX_LINKS, Scenario, ScenarioError,
};
pub use units::{Duration, Instant, Rate, Rng};
pub use world::{
    Host, HostTransmit, Step, StepKind, TimerJitter, UDP_IP_OVERHEAD, World, WorldOptions,
    WorldStats,
};
