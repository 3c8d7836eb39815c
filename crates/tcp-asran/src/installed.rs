//! Installs, removes and lists algorithms that stay registered after the program has ended.

use std::fs;
use std::path::Path;

use sys::netns;

use crate::object::{self, Extras};
use crate::pins::{self, Generation, Pins};
use crate::{Error, Flavour};

/// The parameter that says which algorithm the sockets of a network namespace begin with.
const DEFAULT: &str = "net/ipv4/tcp_congestion_control";

/// Says what [`install`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Newly registered.
    pub added: Vec<Flavour>,
    /// Registered before, in this version.
    pub kept: Vec<Flavour>,
    /// Registered before in another version, now in this one. New sockets use the new version; open
    /// ones keep the old.
    pub replaced: Vec<Flavour>,
}

/// Says what [`remove`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// No longer registered. Sockets that use them keep them until they close.
    pub flavours: Vec<Flavour>,
    /// What new sockets of this network namespace begin with now, if that was a removed one.
    pub default: Option<String>,
}

/// Shows what is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Version of the object that this program would install; none when it was built without clang.
    pub version: Option<String>,
    /// Each flavour and how it stands.
    pub flavours: Vec<(Flavour, State)>,
    /// Every algorithm that the kernel knows.
    pub available: Vec<String>,
    /// The one that new sockets of this network namespace begin with.
    pub default: String,
}

/// Says how a flavour stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not registered.
    Absent,
    /// Installed in this program's version.
    Installed,
    /// Installed in another version: `install` replaces it.
    OtherVersion,
    /// Its file is there, but the kernel does not know it: `install` repairs it.
    Broken,
    /// Registered by somebody else.
    Foreign,
}

/// Registers flavours for good: until [`remove`], or until the machine starts again.
///
/// What is installed already stays. What another version has installed is replaced, even if it was
/// not asked for. What a killed install has left behind is repaired. The BPF file system is mounted
/// where it is missing.
///
/// # Errors
///
/// Every kind of [`Error`]. What this call has registered by then is removed again.
pub fn install(flavours: &[Flavour]) -> Result<Installed, Error> {
    object::check_kernel()?;
    let pins = Pins::create()?;
    let current = pins.current();
    let others = pins.others();
    let replaced: Vec<Flavour> = others.iter().flat_map(Generation::flavours).collect();
    let mut outcome = Installed::default();
    let mut missing = Vec::new();
    for flavour in Flavour::ALL {
        if !flavours.contains(&flavour) && !replaced.contains(&flavour) {
            continue;
        }
        match state_in(&current, flavour) {
            State::Installed => outcome.kept.push(flavour),
            state => missing.push((flavour, state)),
        }
    }
    if !missing.is_empty() {
        add(&current, &others, &missing)?;
    }
    for generation in &others {
        generation.remove()?;
    }
    let (again, added) =
        missing.iter().map(|(flavour, _)| *flavour).partition(|f| replaced.contains(f));
    outcome.replaced = again;
    outcome.added = added;
    Ok(outcome)
}

/// Removes every installed flavour, of whatever version, and leaves nothing behind.
///
/// Where one of them is this network namespace's default, the default goes back to what it was
/// before [`set_default`], or else to CUBIC. Other namespaces are left as they are: one whose
/// default is a removed algorithm keeps it alive.
///
/// # Errors
///
/// [`Error::NotPermitted`] and [`Error::Pins`].
pub fn remove() -> Result<Removed, Error> {
    let Some(pins) = Pins::open()? else { return Ok(Removed::default()) };
    let installed: Vec<Flavour> = pins::installed().iter().flat_map(Generation::flavours).collect();
    let default = default_algorithm();
    let mut removed = Removed::default();
    if installed.iter().any(|flavour| flavour.name() == default) {
        let earlier = pins.earlier_default().filter(|name| object::is_registered(name));
        let base = earlier.unwrap_or_else(|| "cubic".to_owned());
        write_default(&base)?;
        removed.default = Some(base);
    }
    removed.flavours = pins.remove()?;
    Ok(removed)
}

/// Looks at what is installed. Needs no privileges.
///
/// # Errors
///
/// None today: what cannot be seen is not there.
pub fn status() -> Result<Status, Error> {
    let generations = pins::installed();
    let state = |flavour: Flavour| {
        let here: Vec<&Generation> =
            generations.iter().filter(|found| found.flavours().contains(&flavour)).collect();
        match (here.iter().any(|found| found.is_current()), here.is_empty()) {
            _ if !object::is_registered(flavour.name()) => {
                if here.is_empty() {
                    State::Absent
                } else {
                    State::Broken
                }
            }
            (true, _) => State::Installed,
            (false, false) => State::OtherVersion,
            (false, true) => State::Foreign,
        }
    };
    Ok(Status {
        version: object::is_built().then(object::version),
        flavours: Flavour::ALL.map(|flavour| (flavour, state(flavour))).to_vec(),
        available: object::registered(),
        default: default_algorithm(),
    })
}

/// Makes new sockets of the calling thread's network namespace begin with an installed algorithm.
///
/// # Errors
///
/// [`Error::NotPermitted`], or [`Error::Pins`] when it is not installed.
pub fn set_default(flavour: Flavour) -> Result<(), Error> {
    let before = default_algorithm();
    let is_ours = Flavour::ALL.iter().any(|flavour| flavour.name() == before);
    if let (false, Some(pins)) = (is_ours, Pins::open()?) {
        pins.remember_default(&before)?;
    }
    write_default(flavour.name())
}

fn write_default(name: &str) -> Result<(), Error> {
    netns::set_parameter(DEFAULT, name)
        .map_err(|error| Error::pins("write", &Path::new("/proc/sys").join(DEFAULT), error))
}

fn default_algorithm() -> String {
    fs::read_to_string(Path::new("/proc/sys").join(DEFAULT))
        .map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

fn state_in(generation: &Generation, flavour: Flavour) -> State {
    match (generation.path(flavour).exists(), object::is_registered(flavour.name())) {
        (true, true) => State::Installed,
        (true, false) => State::Broken,
        (false, true) => State::Foreign,
        (false, false) => State::Absent,
    }
}

/// Registers what is missing and keeps it. The object is loaded before anything old is removed.
fn add(
    current: &Generation,
    others: &[Generation],
    missing: &[(Flavour, State)],
) -> Result<(), Error> {
    current.create()?;
    let wanted: Vec<Flavour> = missing.iter().map(|(flavour, _)| *flavour).collect();
    let mut object = object::load(&wanted, "", Extras::default())?;
    for generation in others {
        generation.remove()?;
    }
    for (flavour, state) in missing {
        if *state == State::Broken {
            current.unregister(*flavour)?;
        }
    }
    let mut done = Vec::new();
    for flavour in wanted {
        let kept = object::register(&mut object, flavour, flavour.name())
            .and_then(|link| object::keep(link, &current.path(flavour)));
        if let Err(error) = kept {
            for flavour in done {
                let _ = current.unregister(flavour);
            }
            if current.flavours().is_empty() {
                let _ = current.remove();
            }
            return Err(error);
        }
        done.push(flavour);
    }
    Ok(())
}
