//! Reads a scenario from TOML: which tables there are, and what makes a scenario consistent.
//!
//! `docs/scenarios.md` says the same for people. The keys of one direction of a link are in
//! `keys.rs`; how keys are found and mistakes get their line is the crate `toml-keys`.

use super::fields::{self, MEDIUM};
use super::keys::{Keys, check_slots, gilbert_elliott};
use super::{
    Broadcast, Direction, GroupModel, HostModel, LinkPair, MAX_HOSTS, MAX_LINKS, NEIGHBOURS,
    RADIO_HOSTS_MAX, Radio, Receiver, Scenario, ScenarioError,
};
use crate::clock::{CLOCK_ORIGIN, ClockModel, ClockStep};
use crate::link::{LinkModel, Outage, OutageMode};
use crate::medium::MediumModel;
use toml_keys::{Change, Section};
use units::Instant;

/// The length of a run whose scenario does not say.
const DEFAULT_SECONDS: f64 = 60.0;

/// The longest run: a year. Beyond it, times would come near the end of `Instant`.
const SECONDS_MAX: f64 = 365.0 * 86_400.0;

/// The longest name: Linux gives an interface 15 characters, and links name interfaces.
const NAME_MAX: usize = 15;

/// The furthest that a clock may be ahead, in milliseconds: some thirty years.
const OFFSET_MS_MAX: f64 = 1e12;

/// Faster or slower clocks than this are no clocks (quartz: 100 ppm).
const SKEW_PPM_MAX: f64 = 100_000.0;

pub(super) fn scenario(
    text: &str,
    file: &str,
    changes: &[Change],
    read: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Scenario, ScenarioError> {
    toml_keys::read_changed(text, file, changes, |root| {
        let mut scenario = head(root, file);
        network(root, &mut scenario, read);
        Some(scenario)
    })
}

/// Reads hosts and links, and how the hosts' kernels find each other, into a scenario without any.
pub(super) fn network(
    root: &Section<'_>,
    scenario: &mut Scenario,
    read: &mut dyn FnMut(&str) -> Result<String, String>,
) {
    scenario.resolve_neighbours = root.choice("neighbours", &NEIGHBOURS).unwrap_or(false);
    for section in root.sections("host") {
        let host = host(section, scenario);
        scenario.hosts.push(host);
    }
    for section in root.sections("medium") {
        let medium = medium(section, scenario);
        scenario.media.push(medium);
    }
    let seconds = scenario.seconds;
    let (groups, media, matrices) = (Vec::new(), Vec::new(), Vec::new());
    let mut keys = Keys { read, groups, media, matrices, seconds };
    for section in root.sections("group") {
        let group = group(section, scenario, &mut keys);
        scenario.groups.push(group);
    }
    keys.groups = scenario.groups.iter().map(|group| group.name.clone()).collect();
    keys.media = scenario.media.iter().map(|medium| medium.name.clone()).collect();
    let mut links = Links { declared: !scenario.hosts.is_empty(), keys, all: &mut *scenario };
    for section in root.sections("link") {
        links.pair(section);
    }
    for section in root.sections("broadcast") {
        links.broadcast(section);
    }
    for section in root.sections("radio") {
        links.radio(section);
    }
    if scenario.link_count() > MAX_LINKS {
        root.wrong("link", format!("more than {MAX_LINKS} links"));
    }
    if scenario.hosts.len() > MAX_HOSTS {
        root.wrong("host", format!("more than {MAX_HOSTS} hosts"));
    }
}

fn head(root: &Section<'_>, file: &str) -> Scenario {
    let name = root.text("name").unwrap_or_else(|| stem(file));
    let seconds = root.fraction("seconds", 0.0..=SECONDS_MAX).unwrap_or(DEFAULT_SECONDS);
    let mut scenario = Scenario::new(name, seconds);
    scenario.seed = root.number("seed", 0..=u64::MAX).unwrap_or(1);
    scenario
}

fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".toml").unwrap_or(name)
}

/// Reads the name of a section, by which its mistakes are told from then on.
fn name<'n>(section: &mut Section<'_>, mut taken: impl Iterator<Item = &'n str>) -> String {
    let Some(name) = section.required_text("name") else { return String::new() };
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
        let what = format!("{name:?} is not 1 to {NAME_MAX} letters, digits, - or _");
        section.wrong("name", what);
    } else if taken.any(|other| other == name) {
        section.wrong("name", format!("there is another {name:?}"));
    } else {
        section.call(name);
    }
    name.to_owned()
}

fn host(mut section: Section<'_>, scenario: &Scenario) -> HostModel {
    let name = name(&mut section, scenario.hosts.iter().map(|host| host.name.as_str()));
    let origin_ms = CLOCK_ORIGIN.as_secs_f64() * 1e3;
    let offset_ms = section.fraction("clock_offset_ms", -origin_ms..=OFFSET_MS_MAX).unwrap_or(0.0);
    let skew_ppm = section.fraction("clock_skew_ppm", -SKEW_PPM_MAX..=SKEW_PPM_MAX).unwrap_or(0.0);
    let steps = section.sections("clock_step").into_iter().map(clock_step).collect();
    section.finish();
    let offset_ns = (offset_ms * 1e6).round() as i64;
    let skew_ppb = (skew_ppm * 1e3).round() as i64;
    HostModel { name, clock: ClockModel { offset_ns, skew_ppb, steps } }
}

fn clock_step(section: Section<'_>) -> ClockStep {
    for key in ["at_s", "by_ms"] {
        section.require(key);
    }
    let at = section.instant("at_s").unwrap_or(Instant::ZERO);
    let by_ms = section.fraction("by_ms", -OFFSET_MS_MAX..=OFFSET_MS_MAX).unwrap_or(0.0);
    section.finish();
    ClockStep { at, by_ns: (by_ms * 1e6).round() as i64 }
}

fn medium(mut section: Section<'_>, scenario: &Scenario) -> MediumModel {
    let name = name(&mut section, scenario.media.iter().map(|medium| medium.name.as_str()));
    let mut medium = MediumModel { name, ..MediumModel::default() };
    fields::read(&section, &MEDIUM, &mut medium);
    section.finish();
    medium
}

fn group(mut section: Section<'_>, scenario: &Scenario, keys: &mut Keys<'_>) -> GroupModel {
    let name = name(&mut section, scenario.groups.iter().map(|group| group.name.as_str()));
    let burst = section.section("burst_loss").map(|burst| gilbert_elliott(burst, true));
    let outages = keys.outages(&section, None).into_iter().map(|(outage, _)| outage).collect();
    section.finish();
    GroupModel { name, burst, outages }
}

/// Reads the links into a scenario that already has its other parts.
struct Links<'a, 'r> {
    /// True when the file declares its hosts: links may then name no others.
    declared: bool,
    keys: Keys<'r>,
    all: &'a mut Scenario,
}

impl Links<'_, '_> {
    fn pair(&mut self, mut section: Section<'_>) {
        let name = self.link_name(&mut section);
        let ends = self.ends(&section);
        let mut common = LinkModel::default();
        self.keys.sender(&section, &mut common);
        self.keys.air(&section, &mut common);
        // Without its ends, the keys of its directions are not known.
        let Some((a, b)) = ends else { return };
        let ends = [a, b].map(|host| self.all.hosts[host].name.clone());
        let (mut up, mut down) = (common.clone(), common);
        for (outage, direction) in self.keys.outages(&section, Some(&ends)) {
            if direction != Some(Direction::Down) {
                up.outages.push(outage);
            }
            if direction != Some(Direction::Up) {
                down.outages.push(outage);
            }
        }
        let [from_a, from_b] = ends.each_ref().map(|host| format!("from_{host}"));
        for (key, old, model) in [(from_a, "up", &mut up), (from_b, "down", &mut down)] {
            section.exclusive(&[&key, old]);
            for key in [key.as_str(), old] {
                if let Some(section) = section.section(key) {
                    self.direction(section, model);
                }
            }
            check_medium(&section, model, self.all);
            check_slots(&section, model, model);
        }
        section.finish();
        self.all.links.push(LinkPair { name, a, b, up, down });
    }

    /// Reads what one direction of a link has of its own.
    fn direction(&mut self, section: Section<'_>, model: &mut LinkModel) {
        self.keys.sender(&section, model);
        self.keys.air(&section, model);
        let own = self.keys.outages(&section, None);
        model.outages.extend(own.into_iter().map(|(outage, _)| outage));
        section.finish();
    }

    fn broadcast(&mut self, mut section: Section<'_>) {
        let name = self.link_name(&mut section);
        let from = section.required_text("from");
        let from = from.and_then(|from| self.host(&section, "from", from));
        section.require("to");
        let to: Vec<String> = section.list("to", "the name of a host");
        let mut common = LinkModel::default();
        self.keys.sender(&section, &mut common);
        self.keys.air(&section, &mut common);
        let outages = self.keys.outages(&section, None);
        common.outages.extend(outages.into_iter().map(|(outage, _)| outage));
        check_medium(&section, &common, self.all);
        no_retries(&section, &mut common);
        let mut receivers: Vec<Receiver> = Vec::new();
        for receiver in &to {
            let Some(host) = self.host(&section, "to", receiver) else { continue };
            if Some(host) == from || receivers.iter().any(|other| other.host == host) {
                section.wrong("to", format!("{receiver:?} is there twice"));
            }
            receivers.push(Receiver { host, model: common.clone() });
        }
        if section.is_empty_list("to") {
            section.wrong("to", "must name at least one host");
        }
        for own in section.sections("receiver") {
            self.receiver(own, &mut receivers);
        }
        for receiver in &receivers {
            check_slots(&section, &common, &receiver.model);
        }
        section.finish();
        if let Some(from) = from {
            self.all.broadcasts.push(Broadcast { name, from, sender: common, receivers });
        }
    }

    /// Reads what one receiver of a broadcast has of its own.
    fn receiver(&mut self, section: Section<'_>, receivers: &mut [Receiver]) {
        let Some(name) = section.required_text("host") else { return };
        let host = self.all.host(name);
        let Some(receiver) = receivers.iter_mut().find(|one| Some(one.host) == host) else {
            section.wrong("host", format!("{name:?} is not in \"to\""));
            return;
        };
        self.keys.air(&section, &mut receiver.model);
        let outages: Vec<Outage> =
            self.keys.outages(&section, None).into_iter().map(|(outage, _)| outage).collect();
        if outages.iter().any(|outage| outage.mode != OutageMode::Drop) {
            section.wrong("outage", "only the whole broadcast can have mode \"hold\"");
        }
        receiver.model.outages.extend(outages);
        section.finish();
    }

    fn radio(&mut self, mut section: Section<'_>) {
        let name = self.link_name(&mut section);
        section.require("hosts");
        let given: Vec<String> = section.list("hosts", "the name of a host");
        let mut hosts: Vec<usize> = Vec::new();
        for host in &given {
            let Some(place) = self.host(&section, "hosts", host) else { continue };
            if hosts.contains(&place) {
                section.wrong("hosts", format!("{host:?} is there twice"));
            }
            hosts.push(place);
        }
        if section.has("hosts") && !(2..=RADIO_HOSTS_MAX).contains(&given.len()) {
            section.wrong("hosts", format!("must name 2 to {RADIO_HOSTS_MAX} hosts"));
        }
        for other in ["rate_mbps", "rate_csv", "rate_steps", "delivery_file", "slots"]
            .into_iter()
            .chain(["slot_loss", "medium"])
        {
            section.exclusive(&["matrix", other]);
        }
        let mut model = LinkModel::default();
        self.keys.sender(&section, &mut model);
        self.keys.air(&section, &mut model);
        let outages = self.keys.outages(&section, None);
        model.outages.extend(outages.into_iter().map(|(outage, _)| outage));
        check_medium(&section, &model, self.all);
        no_retries(&section, &mut model);
        check_slots(&section, &model, &model);
        let matrix =
            section.section("matrix").and_then(|matrix| self.keys.radio_matrix(matrix, &given));
        section.finish();
        if hosts.len() == given.len() && hosts.len() > 1 {
            self.all.radios.push(Radio { name, hosts, model, matrix });
        }
    }

    fn link_name(&self, section: &mut Section<'_>) -> String {
        let known = (0..self.all.link_count()).filter_map(|link| self.all.link_name(link));
        name(section, known)
    }

    fn ends(&mut self, section: &Section<'_>) -> Option<(usize, usize)> {
        let between: Vec<String> = section.list("between", "the name of a host");
        let [a, b] = &between[..] else {
            let what = "must name two hosts, as in [\"drone\", \"station\"]";
            section.wrong("between", what);
            return None;
        };
        if a == b {
            section.wrong("between", "names the same host twice");
            return None;
        }
        let (a, b) = (self.host(section, "between", a), self.host(section, "between", b));
        Some((a?, b?))
    }

    fn host(&mut self, section: &Section<'_>, key: &str, name: &str) -> Option<usize> {
        if self.declared && self.all.host(name).is_none() {
            let known: Vec<_> = self.all.hosts.iter().map(|host| host.name.as_str()).collect();
            let what = format!("no host {name:?}; there are {}", known.join(", "));
            section.wrong(key, what);
            return None;
        }
        Some(self.all.host_or_new(name))
    }
}

/// Refuses repetition where nobody says what has arrived.
fn no_retries(section: &Section<'_>, model: &mut LinkModel) {
    if model.retries > 0 {
        section.wrong("retries", "nobody acknowledges a broadcast; only a [[link]] repeats");
        model.retries = 0;
    }
}

fn check_medium(section: &Section<'_>, model: &LinkModel, all: &Scenario) {
    let Some(name) = &model.medium else { return };
    if !model.takes_turns() {
        return section.wrong("medium", "a link on a medium needs rate_mbps, or slots");
    }
    let links = all.links.iter().flat_map(|pair| [&pair.up, &pair.down]);
    let mut others = links.filter(|other| other.medium.as_ref() == Some(name));
    if others.any(|other| other.has_slot_clock() != model.has_slot_clock()) {
        let what = "has links with rate_mbps and links with slots, which cannot hear each other";
        section.wrong("medium", what);
    }
    let medium = all.media.iter().find(|medium| medium.name == *name);
    let has_ack = medium.is_some_and(|medium| !medium.acknowledgement.is_zero());
    if has_ack && !model.has_slot_clock() {
        section.wrong("medium", "has ack_ms, which is for links with slots; use gap_ms");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Delay, LinkRate, QueueLimit};
    use units::{Duration, Rate};

    const BLACKOUT: &str = r#"
name = "blackout"
seconds = 60

[[host]]
name = "drone"
clock_offset_ms = -12.5
clock_skew_ppm = 20

[[host]]
name = "station"

[[link]]
name = "wifi"
between = ["drone", "station"]
delay_ms = 10
rate_mbps = 20
loss = 0.02
[[link.outage]]
start_s = 20
seconds = 10
mode = "drop"
[link.down]
loss = 0.05

[[link]]
name = "lte"
between = ["drone", "station"]
delay_ms = 35
queue_bytes = 125_000
[[link.outage]]
start_s = 42
seconds = 2
mode = "hold"
direction = "up"
"#;

    fn error(text: &str) -> String {
        Scenario::from_toml(text, "s.toml").unwrap_err().to_string()
    }

    #[test]
    fn common_keys_apply_to_both_directions_and_own_ones_override() {
        let scenario = Scenario::from_toml(BLACKOUT, "x/blackout.toml").unwrap();
        assert_eq!(scenario.hosts[0].clock.offset_ns, -12_500_000);
        assert_eq!(scenario.hosts[0].clock.skew_ppb, 20_000);
        let wifi = &scenario.links[0];
        assert_eq!(wifi.up.rate, LinkRate::Constant(Rate::from_mbps(20.0)));
        assert_eq!((wifi.up.loss.independent, wifi.down.loss.independent), (0.02, 0.05));
        assert_eq!(wifi.up.outages, wifi.down.outages);
        let lte = &scenario.links[1];
        assert_eq!(lte.down.delay, Delay::Fixed(Duration::from_millis(35)));
        assert_eq!(lte.down.queue, QueueLimit { packets: None, bytes: Some(125_000) });
        assert_eq!((lte.up.outages.len(), lte.down.outages.len()), (1, 0));
    }

    #[test]
    fn errors_name_file_line_and_key() {
        let typo = BLACKOUT.replace("rate_mbps", "rate_mpbs");
        assert!(error(&typo).starts_with("s.toml:17: link.wifi.rate_mpbs: unknown key; the keys"));
        let probability = BLACKOUT.replace("loss = 0.05", "loss = 5");
        assert_eq!(
            error(&probability),
            "s.toml:24: link.wifi.down.loss: 5 is not a probability from 0 to 1"
        );
        let host =
            BLACKOUT.replace("between = [\"drone\", \"station\"]", "between = [\"d\", \"s\"]");
        assert!(error(&host).starts_with(
            "s.toml:15: link.wifi.between: no host \"d\"; there are drone, station\n"
        ));
        assert!(error("seconds = \"long\"").contains("seconds: \"long\" is not a number from 0"));
        assert!(error("a = = 1").starts_with("s.toml:1: "));
        let missing = BLACKOUT.replace("start_s = 20", "");
        assert_eq!(error(&missing), "s.toml:19: link.wifi.outage[0].start_s: is missing");
    }
}
