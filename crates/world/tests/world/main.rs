//! Behaviour of whole sessions in the deterministic world: the names of the tests are the claims.
//!
//! Every test says its seed where it fails. Both hosts have clocks of their own.

mod backups;
mod failover;
mod live;
mod message_detour;
mod message_fairness;
mod message_figures;
mod messages;
mod movement;
mod path_use;
mod radio;
mod restart;
mod signed;
mod status;
mod target;
mod tcp;
mod thin;
mod transactional;
mod tunnel;
