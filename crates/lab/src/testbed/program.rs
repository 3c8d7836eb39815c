//! Programs of others that run in a host of the testbed, and where they are found.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::links::{Copy, Side};

/// A program that runs; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Program(Child);

impl Program {
    /// Starts a program inside a side's host; what it says is nobody's.
    ///
    /// # Errors
    /// When it is not installed, or does not start.
    pub(crate) fn start(
        copy: &Copy<'_>,
        side: Side,
        name: &str,
        arguments: &[&str],
    ) -> Result<Self, String> {
        let path = find(name).ok_or_else(|| format!("{name} is not installed"))?;
        let mut command = Command::new(path);
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = copy.emulation().spawn(&copy.host(side), command);
        child.map(Self).map_err(|error| error.to_string())
    }

    /// Returns the processor time that it has used so far; none where it has ended.
    pub(crate) fn processor_time(&self) -> Option<units::Duration> {
        sys::realtime::processor_time(self.0.id())
    }

    /// Says so when it has ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.0.try_wait() {
            Ok(Some(status)) => Err(format!("it ended with {status}")),
            _ => Ok(()),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Finds a program in PATH, and in the folders of the system's that are not in every user's.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}
