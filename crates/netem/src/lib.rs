//! Emulated links and worlds of Fulmar: pure functions of scenario, trace, seed and time.
//!
//! Nothing here opens a file or a socket, reads a clock or starts a thread. A [`Scenario`] says
//! what the hosts, their clocks and the links between them are like. A [`Net`] decides for each
//! packet that enters a link, at once, when and how often it comes out. Two drivers stand on it:
//! the [`World`] of this crate, which runs hosts in virtual time, and the real-time emulator
//! between network namespaces, a crate of its own.
//!
//! ```text
//! Scenario::from_toml → Net::new ─┬─ World (virtual time, hosts with clocks of their own)
//!                                 └─ real-time emulator (kernel time stamps)
//! packet → queue → transmitter (rate, hold, medium) → air (outage, loss) → delay → receiver
//! ```

mod clock;
mod link;
mod medium;
mod net;
mod scenario;
mod trace;
mod verdict_log;
mod world;

pub use clock::{CLOCK_ORIGIN, ClockModel, ClockStep, HostClock};
pub use link::{
    CsvLoss, Delay, Delivery, DropCause, Duplication, GilbertElliott, Jitter, JitterShape, Link,
    LinkModel, LinkRate, LinkStats, LossModel, MatrixRow, Outage, OutageMode, Protocol, QueueLimit,
    Reordering, SMALL_BYTES, SlotClock, SlotLoss, StateChange, Verdict,
};
pub use medium::MediumModel;
pub use net::{Arrival, LinkEnd, Net};
pub use scenario::{
    Broadcast, Direction, GroupModel, HostModel, Interface, LinkPair, MAX_HOSTS, MAX_LINKS,
    RADIO_HOSTS_MAX, Radio, RadioMatrix, Receiver, Scenario, ScenarioError,
};
pub use trace::{
    DeliveryTrace, MATRIX_PAIRS_MAX, MATRIX_SLOTS_MAX, OPPORTUNITY_BYTES, Series, SlotMatrix,
    SlotRow, SlotTrace, Table, TraceError,
};
pub use units::{Duration, Instant, Rate, Rng};
pub use verdict_log::{VERDICT_LOG_HEADER, VerdictRecord};
pub use world::{
    Host, HostTransmit, Nat, Step, StepKind, TimerJitter, UDP_IP_OVERHEAD, World, WorldOptions,
    WorldStats,
};
