//! The daemon.
#![allow(dead_code, reason = "being joined")]
mod config;
mod keys;
mod pending;
fn main() {}
