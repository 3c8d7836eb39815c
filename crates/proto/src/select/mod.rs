//! The packet selector: which packet gets which delivery policy.

mod policy;

pub use policy::{Class, Copies, Order, Policy};
