//! What can go wrong between the object and the kernel, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::privileges;

/// Says why an algorithm could not be registered, found or removed.
#[derive(Debug)]
pub enum Error {
    /// This program was built on a machine without clang, so that it has no object to load.
    NotBuilt,
    /// The kernel refuses BPF to this process.
    NotPermitted {
        /// What was tried.
        operation: String,
    },
    /// The kernel does not describe its types (`/sys/kernel/btf/vmlinux` is missing).
    NoTypeInformation,
    /// The kernel takes no congestion control from BPF.
    NoStructOps {
        /// What is missing, in the kernel's or the loader's words.
        reason: String,
    },
    /// Somebody else has registered an algorithm of this name.
    NameTaken {
        /// The name.
        name: String,
    },
    /// The kernel's names have at most 15 bytes: letters, digits, `_` and `.`.
    BadName {
        /// The name.
        name: String,
    },
    /// The file system that keeps the algorithms registered could not be used.
    Pins {
        /// What was tried.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The kernel refused for another reason.
    Refused {
        /// What was tried.
        operation: String,
        /// What the kernel and the loader say.
        reason: String,
    },
}

impl Error {
    pub(crate) fn pins(operation: &'static str, path: &Path, source: io::Error) -> Error {
        if source.kind() == io::ErrorKind::PermissionDenied && !privileges::suffice() {
            return Error::NotPermitted { operation: format!("{operation} {}", path.display()) };
        }
        Error::Pins { operation, path: path.to_owned(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotBuilt => write!(
                f,
                "this program was built without clang and has no BPF object; install clang and llvm, and build it again"
            ),
            Error::NotPermitted { operation } => write!(
                f,
                "{operation}: not permitted; run it as root (it takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and not inside a user namespace)"
            ),
            Error::NoTypeInformation => write!(
                f,
                "this kernel does not describe its types: /sys/kernel/btf/vmlinux is missing; it takes CONFIG_DEBUG_INFO_BTF=y"
            ),
            Error::NoStructOps { reason } => write!(
                f,
                "this kernel takes no congestion control from BPF ({reason}); it takes Linux 6.4 or newer with CONFIG_BPF_JIT=y and CONFIG_TCP_CONG_CUBIC=y"
            ),
            Error::NameTaken { name } => write!(
                f,
                "{name}: another congestion control of this name is registered, and not by `fulmar cc install`; `bpftool struct_ops show` lists BPF ones, `lsmod` modules"
            ),
            Error::BadName { name } => write!(
                f,
                "{name}: not a name for a congestion control: at most 15 letters, digits, '_' and '.'"
            ),
            Error::Pins { operation, path, source } => {
                write!(f, "{operation} {}: {source}", path.display())
            }
            Error::Refused { operation, reason } => write!(f, "{operation}: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Pins { source, .. } => Some(source),
            _ => None,
        }
    }
}
