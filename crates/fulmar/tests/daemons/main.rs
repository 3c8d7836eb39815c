//! Real daemons in network namespaces of their own.
//!
//! Not measurements: those are the lab's. Each test runs inside `sys::sandbox`, or says that it was
//! skipped.

#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

mod age;
mod attacker;
mod autopilot;
mod behind;
mod carriers;
mod compromised;
mod double;
mod fleet;
mod flight;
mod flows;
mod host;
mod hostile;
mod lossy;
mod mavlink;
mod messages;
mod middle;
mod moves;
mod names;
mod narrow;
mod neighbours;
mod outage;
mod pairing;
mod pilot;
mod places;
mod ports;
mod record;
mod relays;
mod reload;
mod reload_storm;
mod remedies;
mod restart;
mod rig;
mod rights;
mod strangers;
mod stream;
mod told;
mod ways;
