//! The daemon.
#![allow(dead_code, reason = "being joined")]
mod config;
mod endpoints;
mod keys;
mod pending;
fn main() {}
