//! The commands: any program between emulated hosts, and how exact the emulator is.

pub(crate) mod accuracy;
pub(crate) mod emulate;
pub(crate) mod failure;
