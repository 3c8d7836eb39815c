//! Opens the embedded object, prepares it and hands it to the kernel.
//!
//! A loaded object is not registered yet: a registration is a link made from it, and the link's
//! owner decides how long it lives.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{
    ErrorKind, Link, MapCore, Object, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel,
};

use crate::{Error, Flavour, privileges};

/// The compiled `bpf/asran.bpf.c`; empty where it was built without clang.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/asran.bpf.o"));

/// Length of the kernel's field for a name (`TCP_CA_NAME_MAX`), with the zero at its end.
const NAME_BYTES: usize = 16;

/// How much of the loader's messages an error keeps, of the beginning and of the end each: a
/// verifier's log can be megabytes; its beginning names the program, its end says why.
const SAID_BYTES: usize = 2500;
const SAID_FIRST_BYTES: usize = 500;

/// What stands in the place of what is left out of a log.
const LEFT_OUT: &str = "\n[...]\n";

/// How the loader announces what the verifier has written, at its beginning and its end.
const VERIFIERS_LOG: &str = "PROG LOAD LOG --";

/// How the loader says that the kernel lacks a type, or a function such as those of CUBIC.
const LACKS: [&str; 2] = ["is not found in kernel BTF", "not found in kernel or module BTFs"];

/// What the loader has said since the last call of [`listen`]. It speaks through a function without
/// a context.
static SAID: Mutex<String> = Mutex::new(String::new());

/// What to load besides the algorithms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// Whether every event is written into the ring buffer.
    pub(crate) trace: bool,
    /// Whether the program for `replay` is loaded.
    pub(crate) replay: bool,
}

/// Finds out first what the loader would only say in riddles.
pub(crate) fn check_kernel() -> Result<(), Error> {
    if !is_built() {
        return Err(Error::NotBuilt);
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Error::NoTypeInformation);
    }
    listen();
    let kernel = Btf::from_vmlinux().map_err(|error| explain("read the kernel's types", &error))?;
    for wanted in ["bpf_struct_ops_tcp_congestion_ops", "bpf_struct_ops_link"] {
        if kernel.type_by_name::<types::Struct<'_>>(wanted).is_none() {
            return Err(Error::NoStructOps { reason: format!("it has no {wanted}") });
        }
    }
    Ok(())
}

/// Loads the object with these flavours, their names extended by `suffix`. Nothing is registered
/// yet.
pub(crate) fn load(flavours: &[Flavour], suffix: &str, extras: Extras) -> Result<Object, Error> {
    check_kernel()?;
    load_bytes(OBJECT, flavours, suffix, extras)
}

/// Registers one flavour of a loaded object; it stays for as long as the link, or a pin of it,
/// lives.
pub(crate) fn register(object: &mut Object, flavour: Flavour, name: &str) -> Result<Link, Error> {
    listen();
    let mut map = object.maps_mut().find(|map| map.name() == flavour.name()).ok_or_else(|| {
        Error::Refused {
            operation: format!("register {name}"),
            reason: "not in the object".to_owned(),
        }
    })?;
    map.attach_struct_ops().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::NameTaken { name: name.to_owned() },
        _ => explain(&format!("register {name}"), &error),
    })
}

/// Keeps a registration beyond this process, in a file of the BPF file system.
pub(crate) fn keep(mut link: Link, path: &Path) -> Result<(), Error> {
    listen();
    link.pin(path).map_err(|error| explain(&format!("keep {}", path.display()), &error))
}

/// Lists all algorithms that the kernel knows, by name.
pub(crate) fn registered() -> Vec<String> {
    let listed = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    listed.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Says whether the kernel knows an algorithm of this name.
pub(crate) fn is_registered(name: &str) -> bool {
    registered().iter().any(|listed| listed == name)
}

/// Says whether there is an object to load.
pub(crate) fn is_built() -> bool {
    !OBJECT.is_empty()
}

/// Keeps what the loader says from now on, instead of letting it write to standard error.
pub(crate) fn listen() {
    if let Ok(mut said) = SAID.lock() {
        said.clear();
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, hear)));
}

/// Returns a flavour's name with a suffix, if the kernel would take it.
pub(crate) fn full_name(flavour: Flavour, suffix: &str) -> Result<String, Error> {
    let name = format!("{}{suffix}", flavour.name());
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    if name.len() < NAME_BYTES && name.bytes().all(allowed) {
        Ok(name)
    } else {
        Err(Error::BadName { name })
    }
}

/// Identifies the embedded object: two programs with the same value would register the same
/// algorithms.
pub(crate) fn version() -> String {
    // FNV-1a, 64 bits: tells builds apart; it need not withstand an attacker.
    let hash = OBJECT.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Says in our own terms why the kernel or the loader refused.
pub(crate) fn explain(operation: &str, error: &libbpf_rs::Error) -> Error {
    let said = SAID.lock().map(|said| said.clone()).unwrap_or_default();
    let is_verifiers = said.contains(VERIFIERS_LOG);
    let forbidden = error.kind() == ErrorKind::PermissionDenied && !is_verifiers;
    if forbidden && !privileges::suffice() {
        return Error::NotPermitted { operation: operation.to_owned() };
    }
    let lacks = |line: &&str| LACKS.iter().any(|words| line.contains(words));
    if let Some(line) = said.lines().find(lacks) {
        return Error::NoStructOps { reason: line.to_owned() };
    }
    if error.kind() == ErrorKind::Unsupported {
        return Error::NoStructOps { reason: format!("{error:#}") };
    }
    let mut reason = format!("{error:#}");
    if forbidden {
        reason += " although this process has the capabilities; a security module or a seccomp filter may forbid it";
    }
    if !said.is_empty() {
        reason = format!("{reason}\n{said}");
    }
    Error::Refused { operation: operation.to_owned(), reason }
}

fn load_bytes(
    bytes: &[u8],
    flavours: &[Flavour],
    suffix: &str,
    extras: Extras,
) -> Result<Object, Error> {
    listen();
    let mut object = ObjectBuilder::default()
        .name("asran")
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(|error| explain("open the BPF object", &error))?;
    prepare(&mut object, flavours, suffix, extras)?;
    object.load().map_err(|error| explain("load the BPF object", &error))
}

fn prepare(
    object: &mut OpenObject,
    flavours: &[Flavour],
    suffix: &str,
    extras: Extras,
) -> Result<(), Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let done = match Flavour::ALL.into_iter().find(|flavour| flavour.name() == name) {
            Some(flavour) if flavours.contains(&flavour) => {
                rename(&mut map, &full_name(flavour, suffix)?);
                Ok(())
            }
            Some(_) => map.set_autocreate(false),
            None => prepare_map(&mut map, &name, extras),
        };
        done.map_err(|error| explain(&format!("prepare {name}"), &error))?;
    }
    for mut program in object.progs_mut() {
        if program.section() == "syscall" {
            program.set_autoload(extras.replay);
        }
    }
    Ok(())
}

/// The name is the first field of our tcp_congestion_ops (bpf/kernel.h).
fn rename(map: &mut OpenMapMut<'_>, name: &str) {
    if let Some(value) = map.initial_value_mut() {
        value[..NAME_BYTES].fill(0);
        value[..name.len()].copy_from_slice(name.as_bytes());
    }
}

fn prepare_map(map: &mut OpenMapMut<'_>, name: &str, extras: Extras) -> libbpf_rs::Result<()> {
    match name {
        "asran_trace" => map.set_autocreate(extras.trace)?,
        // The first constant is `traced`.
        _ if name.ends_with(".rodata") => {
            if let Some(value) = map.initial_value_mut() {
                value[0] = u8::from(extras.trace);
            }
        }
        _ => {}
    }
    Ok(())
}

fn hear(_level: PrintLevel, text: String) {
    if let Ok(mut said) = SAID.lock() {
        said.push_str(text.trim_start_matches("libbpf: "));
        shorten(&mut said);
    }
}

/// Leaves out the middle of what is too long.
fn shorten(said: &mut String) {
    if said.len() <= SAID_BYTES {
        return;
    }
    let boundary = |at: usize| (at..=said.len()).find(|&at| said.is_char_boundary(at));
    let rest = said.len() - (SAID_BYTES - SAID_FIRST_BYTES - LEFT_OUT.len());
    if let (Some(from), Some(to)) = (boundary(SAID_FIRST_BYTES), boundary(rest)) {
        said.replace_range(from..to, LEFT_OUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_kernel_takes() {
        assert_eq!(full_name(Flavour::AsranCubic, "_x9Z").ok().as_deref(), Some("asran_cubic_x9Z"));
        for suffix in ["_x9Zz", " ", "/", "é", "-"] {
            assert!(full_name(Flavour::AsranCubic, suffix).is_err(), "{suffix}");
        }
    }
    #[test]
    fn of_a_long_log_the_first_and_the_last_lines_are_kept() {
        let mut said = "prog 'asran_init': -- BEGIN PROG LOAD LOG --\n".to_owned();
        for line in 0..9_000 {
            said.push_str(&format!("{line}: (bf) r6 = r1 é\n"));
            shorten(&mut said);
        }
        said.push_str("R8 !read_ok\n-- END PROG LOAD LOG --\n");
        shorten(&mut said);
        assert!(said.len() <= SAID_BYTES + 4, "{}", said.len());
        assert!(said.starts_with("prog 'asran_init': -- BEGIN PROG LOAD LOG --"), "{said}");
        assert!(said.contains(LEFT_OUT) && said.contains("8999: "), "{said}");
        assert!(said.ends_with("R8 !read_ok\n-- END PROG LOAD LOG --\n"), "{said}");
    }

    #[test]
    fn what_the_verifier_refuses_is_not_called_a_lack_of_privileges() {
        if !is_built() || !privileges::suffice() {
            return println!("SKIPPED: what_the_verifier_refuses: no object, or no privileges");
        }
        // r6 = *(u64 *)(r1 + 0), with which a hook fetches its socket, becomes r6 = r8, which
        // nobody has set: EACCES.
        let (good, bad) = ([0x79, 0x16, 0, 0, 0, 0, 0, 0], [0xbf, 0x86, 0, 0, 0, 0, 0, 0]);
        let mut bytes = OBJECT.to_vec();
        for at in (0..bytes.len() - 8).step_by(8) {
            if bytes[at..at + 8] == good {
                bytes[at..at + 8].copy_from_slice(&bad);
            }
        }
        let refused = load_bytes(&bytes, &Flavour::ALL, "_bad", Extras::default());
        let Err(error) = refused else { panic!("the verifier takes what is not initialised") };
        let told = error.to_string();
        assert!(matches!(error, Error::Refused { .. }), "{told}");
        assert!(told.contains("R8 !read_ok"), "the verifier's words: {told}");
    }
}
