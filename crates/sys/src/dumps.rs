//! Switches core dumps off, which could write keys to a disk.

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Lets no crash of this process be written to disk, and no other process of its user read its
/// memory.
///
/// # Errors
/// Those of `prctl`.
pub fn forbid() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn a_process_can_be_kept_from_being_dumped() {
        let before = dumpable_behavior().unwrap();
        forbid().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        set_dumpable_behavior(before).unwrap();
    }
}
