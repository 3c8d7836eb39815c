//! Reads a flight file: where the aircraft flies, who sends, who receives, and what the air is
//! like.
//!
//! Not what becomes of it: the course is flown in `course.rs`, the channel is in `channel.rs`.
//! Directions are degrees of a compass: 0 is north, 90 east. Every mistake of a file is told, with
//! its line and key.

use std::collections::BTreeSet;

use toml_keys::{FileError, Scalar, Section, did_you_mean, read};

use super::antenna::{Antenna, Mount};
use super::course::{Course, Waypoint, Wind};

/// The most waypoints of a file.
const WAYPOINTS_MAX: usize = 1_000;
/// The most transmitters, and the most receivers.
const RADIOS_MAX: usize = 32;
/// The most gains of a pattern: one for each degree.
const GAINS_MAX: usize = 360;
/// The farthest that anything is from the origin, metres.
const FAR_M: f64 = 50_000.0;
/// What an aircraft makes at least against the wind, m/s; below it a lap has no end.
const HEADWAY_MPS: f64 = 1.0;
/// The longest name of a transmitter, receiver or antenna, as of a host.
const NAME_MAX: usize = 15;

/// A flight, and the radios that it passes.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    /// What the file calls it.
    pub(crate) name: String,
    /// Where the aircraft flies, and the wind.
    pub(crate) course: Course,
    /// What the air and the radios are like.
    pub(crate) air: Air,
    /// Who sends.
    pub(crate) transmitters: Vec<Transmitter>,
    /// Who receives, aboard.
    pub(crate) receivers: Vec<Receiver>,
}

/// What is the same for all pairs of transmitter and receiver.
#[derive(Clone, Debug)]
pub(crate) struct Air {
    /// Bytes of a packet's payload.
    pub(crate) packet_bytes: u64,
    /// The rate at which each transmitter sends, without a pause, Mbit/s.
    pub(crate) rate_mbps: f64,
    /// Path-loss exponent [ConClone eq. 11].
    pub(crate) exponent: f64,
    /// Path loss at 1 m, dB [ConClone eq. 11].
    pub(crate) reference_loss_db: f64,
    /// What is lost beside the path: cables, bodies, polarisation, dB.
    pub(crate) extra_loss_db: f64,
    /// Noise at a receiver, with its own noise figure, dBm.
    pub(crate) noise_dbm: f64,
    /// How far a frame must be above all others together to be captured, dB.
    pub(crate) capture_db: f64,
    /// Power of the steady part of the signal over that of the scattered one, dB.
    pub(crate) rice_k_db: f64,
    /// How far the aircraft flies until the scattered part has fallen to 1/e of its correlation,
    /// metres.
    pub(crate) coherence_m: f64,
}

/// A radio on the ground.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    /// What the matrix calls it.
    pub(crate) name: String,
    /// East, north, above the ground, metres.
    pub(crate) at: [f64; 3],
    /// Power, dBm.
    pub(crate) power_dbm: f64,
    /// Its antenna, turned against north.
    pub(crate) mount: Mount,
}

/// A radio aboard.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// What the matrix calls it.
    pub(crate) name: String,
    /// Power of what it sends to the ground, dBm.
    pub(crate) power_dbm: f64,
    /// Its antenna, turned against the nose.
    pub(crate) mount: Mount,
}

impl Air {
    /// Returns how long a packet takes, which is a slot, seconds.
    pub(crate) fn slot_s(&self) -> f64 {
        self.packet_bytes as f64 * 8.0 / (self.rate_mbps * 1e6)
    }
}

impl Flight {
    /// Reads a flight; `file` is its name for error messages.
    ///
    /// # Errors
    /// Every mistake, with line and key.
    pub(crate) fn parse(text: &str, file: &str) -> Result<Self, FileError> {
        read(text, file, flight)
    }
}

fn flight(root: &Section<'_>) -> Option<Flight> {
    let name = root.required_text("name");
    let course = course(root);
    let air = root.section("air").and_then(air);
    if !root.has("air") {
        root.wrong("air", "is missing: what the radios and the air are like, in a section [air]");
    }
    let antennas: Vec<(String, Antenna)> = named(root, "antenna", GAINS_MAX, antenna);
    let mut names = BTreeSet::new();
    let mut transmitters = Vec::new();
    for section in there(root, "transmitter") {
        let name = own_name(&section, &mut names);
        transmitters.extend(transmitter(section, name, &antennas));
    }
    let mut receivers = Vec::new();
    for section in there(root, "receiver") {
        let name = own_name(&section, &mut names);
        let power_dbm = or(&section, "power_dbm", 15.0, -60.0..=60.0);
        let mount = mount(&section, &antennas);
        section.finish();
        receivers.extend(
            name.zip(power_dbm).zip(mount).map(|((name, power_dbm), mount)| Receiver {
                name,
                power_dbm,
                mount,
            }),
        );
    }
    Some(Flight { name: name?.to_owned(), course: course?, air: air?, transmitters, receivers })
}

/// Reads the sections of radios, of which there must be one at least.
fn there<'d>(root: &Section<'d>, kind: &str) -> Vec<Section<'d>> {
    let sections = root.sections(kind);
    if sections.is_empty() && !root.has(kind) {
        root.wrong(kind, format!("is missing: a flight needs a [[{kind}]] at least"));
    }
    if sections.len() > RADIOS_MAX {
        root.wrong(kind, format!("there are {}, at most {RADIOS_MAX}", sections.len()));
    }
    sections
}

/// Reads sections that have names of their own among their kind.
fn named<T>(
    root: &Section<'_>,
    kind: &str,
    most: usize,
    read: fn(&Section<'_>) -> Option<T>,
) -> Vec<(String, T)> {
    let (mut names, mut all) = (BTreeSet::new(), Vec::new());
    let sections = root.sections(kind);
    if sections.len() > most {
        root.wrong(kind, format!("there are {}, at most {most}", sections.len()));
    }
    for section in sections {
        let name = own_name(&section, &mut names);
        let value = read(&section);
        section.finish();
        all.extend(name.zip(value));
    }
    all
}

/// Reads a name that nobody had before.
fn own_name(section: &Section<'_>, names: &mut BTreeSet<String>) -> Option<String> {
    let name = section.required_text("name")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
        section.wrong("name", format!("{name:?} is not 1 to {NAME_MAX} letters, digits, - or _"));
        return None;
    }
    if !names.insert(name.to_owned()) {
        section.wrong("name", format!("{name} is there twice"));
        return None;
    }
    Some(name.to_owned())
}

fn course(root: &Section<'_>) -> Option<Course> {
    let wind = root.section("wind").map_or(Some(Wind::default()), wind);
    let mut waypoints = Vec::new();
    let sections = root.sections("waypoint");
    match sections.len() {
        0 | 1 => {
            let what = "a flight needs two at least, each headed [[waypoint]]";
            root.wrong("waypoint", what);
        }
        count if count > WAYPOINTS_MAX => {
            root.wrong("waypoint", format!("there are {count}, at most {WAYPOINTS_MAX}"));
        }
        _ => {}
    }
    for section in sections {
        waypoints.extend(waypoint(&section, waypoints.last()));
        section.finish();
    }
    if let [first, .., last] = &waypoints[..]
        && first.is_near(last)
    {
        let what = "the last is the first again (within 1 m): a lap returns there by itself";
        root.wrong("waypoint", what);
    }
    let Some(section) = root.section("course") else {
        if !root.has("course") {
            root.wrong("course", "is missing: airspeed_mps in a section [course]");
        }
        return None;
    };
    section.require("airspeed_mps");
    let airspeed = section.fraction("airspeed_mps", 0.1..=500.0);
    let laps = or(&section, "laps", 1.0, 0.01..=1_000.0);
    let stray_m = or(&section, "stray_m", 0.0, 0.0..=1_000.0);
    if let (Some(airspeed), Some(wind)) = (airspeed, &wind)
        && airspeed < wind.speed_mps + HEADWAY_MPS
    {
        let what = format!(
            "{airspeed} m/s make no way against a wind of {} m/s (wind.speed_mps): {HEADWAY_MPS} m/s more at least",
            wind.speed_mps
        );
        section.wrong("airspeed_mps", what);
    }
    let line = section.line("laps");
    section.finish();
    let (airspeed_mps, laps, stray_m, wind) = (airspeed?, laps?, stray_m?, wind?);
    Some(Course { airspeed_mps, laps, stray_m, wind, waypoints, line })
}

fn wind(section: Section<'_>) -> Option<Wind> {
    section.require("from_deg");
    section.require("speed_mps");
    let from_deg = section.fraction("from_deg", 0.0..=360.0);
    let speed_mps = section.fraction("speed_mps", 0.0..=500.0);
    let gust_mps = or(&section, "gust_mps", 0.0, 0.0..=100.0);
    section.finish();
    Some(Wind { from_deg: from_deg?, speed_mps: speed_mps?, gust_mps: gust_mps? })
}

fn waypoint(section: &Section<'_>, before: Option<&Waypoint>) -> Option<Waypoint> {
    let at = place(section)?;
    let region = section.text("region").map(str::to_owned);
    if section.is_text("region", "") {
        section.wrong("region", "is empty: leave the key out where no region begins");
    }
    let waypoint = Waypoint { east_m: at[0], north_m: at[1], height_m: at[2], region };
    if before.is_some_and(|before| before.is_near(&waypoint)) {
        section.wrong("", "lies within 1 m of the waypoint before it");
        return None;
    }
    Some(waypoint)
}

fn place(section: &Section<'_>) -> Option<[f64; 3]> {
    for key in ["east_m", "north_m", "height_m"] {
        section.require(key);
    }
    let east = section.fraction("east_m", -FAR_M..=FAR_M);
    let north = section.fraction("north_m", -FAR_M..=FAR_M);
    let height = section.fraction("height_m", 0.0..=FAR_M);
    Some([east?, north?, height?])
}

fn air(section: Section<'_>) -> Option<Air> {
    for key in ["extra_loss_db", "capture_db", "rice_k_db", "coherence_m"] {
        section.require(key);
    }
    let packet_bytes = section.number("packet_bytes", 64..=65_000);
    let packet_bytes = if section.has("packet_bytes") { packet_bytes } else { Some(1_472) };
    let rate_mbps = or(&section, "rate_mbps", 1.0, 0.01..=11.0);
    // Between vehicle and ground [ConClone §4.3].
    let exponent = or(&section, "exponent", 2.03, 1.0..=8.0);
    // Free space at 1 m and 2.44 GHz.
    let reference_loss_db = or(&section, "reference_loss_db", 40.2, 0.0..=120.0);
    let extra_loss_db = section.fraction("extra_loss_db", -50.0..=150.0);
    // Thermal noise of 22 MHz, and a noise figure of 6 dB.
    let noise_dbm = or(&section, "noise_dbm", -94.5, -174.0..=0.0);
    let capture_db = section.fraction("capture_db", -20.0..=60.0);
    let rice_k_db = section.fraction("rice_k_db", -40.0..=60.0);
    let coherence_m = section.fraction("coherence_m", 0.001..=FAR_M);
    // A key that is none is told beside the one that it was meant to be.
    section.finish();
    Some(Air {
        packet_bytes: packet_bytes?,
        rate_mbps: rate_mbps?,
        exponent: exponent?,
        reference_loss_db: reference_loss_db?,
        extra_loss_db: extra_loss_db?,
        noise_dbm: noise_dbm?,
        capture_db: capture_db?,
        rice_k_db: rice_k_db?,
        coherence_m: coherence_m?,
    })
}

fn antenna(section: &Section<'_>) -> Option<Antenna> {
    let gain_db = or(section, "gain_db", 0.0, -60.0..=60.0);
    let along_db = gains(section, "along_db");
    let around_db = gains(section, "around_db");
    let is_dipole = section.text("pattern").is_some_and(|pattern| pattern == "dipole");
    if section.has("pattern") && !is_dipole && section.text("pattern") != Some("isotropic") {
        section.wrong("pattern", "must be \"dipole\" or \"isotropic\"");
        return None;
    }
    Some(Antenna { gain_db: gain_db?, is_dipole, along_db: along_db?, around_db: around_db? })
}

/// Reads gains at equal steps; none is no gain anywhere.
fn gains(section: &Section<'_>, key: &str) -> Option<Vec<f64>> {
    if !section.has(key) {
        return Some(Vec::new());
    }
    let mut gains = Vec::new();
    for gain in section.scalars(key, GAINS_MAX)? {
        match gain {
            Scalar::Number(gain) if (-100.0..=60.0).contains(&gain) => gains.push(gain),
            other => {
                let what = format!("{other} is not a gain from -100 to 60 dB");
                section.wrong(key, what);
                return None;
            }
        }
    }
    Some(gains)
}

fn transmitter(
    section: Section<'_>,
    name: Option<String>,
    antennas: &[(String, Antenna)],
) -> Option<Transmitter> {
    let at = place(&section);
    let power_dbm = or(&section, "power_dbm", 15.0, -60.0..=60.0);
    let mount = mount(&section, antennas);
    section.finish();
    Some(Transmitter { name: name?, at: at?, power_dbm: power_dbm?, mount: mount? })
}

/// Reads which antenna a radio has, and how it is turned.
fn mount(section: &Section<'_>, antennas: &[(String, Antenna)]) -> Option<Mount> {
    let tilt = or(section, "tilt_deg", 0.0, 0.0..=180.0);
    let toward = or(section, "toward_deg", 0.0, -360.0..=360.0);
    let turn = or(section, "turn_deg", 0.0, -360.0..=360.0);
    let asked = section.required_text("antenna")?;
    let Some((_, antenna)) = antennas.iter().find(|(name, _)| name == asked) else {
        let names: Vec<&str> = antennas.iter().map(|(name, _)| name.as_str()).collect();
        let there = if names.is_empty() {
            "none: describe it in a section [[antenna]]".to_owned()
        } else {
            format!("{}{}", names.join(", "), did_you_mean(asked, &names))
        };
        section.wrong("antenna", format!("there is no antenna {asked:?}; there is {there}"));
        return None;
    };
    Some(Mount::new(antenna.clone(), tilt?, toward?, turn?))
}

/// Reads a number that need not be there.
fn or(
    section: &Section<'_>,
    key: &str,
    otherwise: f64,
    range: core::ops::RangeInclusive<f64>,
) -> Option<f64> {
    if section.has(key) { section.fraction(key, range) } else { Some(otherwise) }
}
