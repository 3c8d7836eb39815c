//! Why a command ends without success, and the exit code that says so.

use core::fmt;
use std::process::ExitCode;

/// Says why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// It was asked for something that does not exist.
    Usage(String),
    /// It was tried and failed.
    Failed(String),
}

impl Failure {
    /// Returns the exit code: 1 it failed, 2 wrong usage.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}
