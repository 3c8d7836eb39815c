//! Real daemons in network namespaces of their own.
//!
//! Not measurements: those are the lab's. Each test runs inside `sys::sandbox`, or says that it was
//! skipped.

mod flight;
mod host;
mod rig;
