//! The little of netlink that we need: requests that change something, lists, and announcements of
//! changes.
//!
//! Not a general netlink library: who asks knows the messages' fixed parts (`interfaces`,
//! `interface_setup`, `socket_diag`); headers, attributes, errors and sockets are here. Formats:
//! netlink(7), rtnetlink(7), linux/netlink.h.

mod answer;
mod request;
mod socket;

pub(crate) use answer::{attributes, ip, u32_at};
#[cfg(fuzzing)]
pub(crate) use answer::{error_of, messages};
pub(crate) use request::Request;
pub(crate) use socket::{Socket, change};

/// Length of `nlmsghdr`: length u32, type u16, flags u16, sequence u32, port u32.
const HEADER: usize = 16;
/// Messages and attributes begin at multiples of so many bytes.
const ALIGNMENT: usize = 4;
