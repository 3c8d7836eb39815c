//! Reads a scenario from TOML: which tables there are, and what makes a scenario consistent.
//!
//! `docs/scenarios.md` says the same for people. The keys of one direction of a link are in
//! `keys.rs`; how keys are found and errors get their line is in `section.rs`.

use super::keys::{Keys, Read, gilbert_elliott, required};
use super::section::{Section, Source};
use super::{
    Broadcast, Direction, GroupModel, HostModel, LinkPair, MAX_HOSTS, MAX_LINKS, Receiver, Scenario,
};
use crate::clock::{CLOCK_ORIGIN, ClockModel, ClockStep};
use crate::link::{LinkModel, LinkRate, Outage, OutageMode};
use crate::medium::MediumModel;
use toml::de::DeTable;

/// The length of a run whose scenario does not say.
const DEFAULT_SECONDS: f64 = 60.0;

/// The longest run: a year. Beyond it, times would come near the end of `Instant`.
const SECONDS_MAX: f64 = 365.0 * 86_400.0;

/// The longest name: Linux gives an interface 15 characters, and links name interfaces.
const NAME_MAX: usize = 15;

/// Faster or slower clocks than this are no clocks (quartz: 100 ppm).
const SKEW_PPM_MAX: f64 = 100_000.0;

pub(super) fn scenario(
    text: &str,
    file: &str,
    read: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Read<Scenario> {
    let source = Source { text, file };
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        source.error(&span, "", error.message().to_owned())
    })?;
    let mut root = Section::root(source, &table);
    let mut scenario = head(&mut root, file)?;
    for section in root.tables("host")? {
        let host = host(section, &scenario)?;
        scenario.hosts.push(host);
    }
    for section in root.tables("medium")? {
        let medium = medium(section, &scenario)?;
        scenario.media.push(medium);
    }
    let seconds = scenario.seconds;
    let mut keys = Keys { read, groups: Vec::new(), media: Vec::new(), seconds };
    for section in root.tables("group")? {
        let group = group(section, &scenario, &mut keys)?;
        scenario.groups.push(group);
    }
    keys.groups = scenario.groups.iter().map(|group| group.name.clone()).collect();
    keys.media = scenario.media.iter().map(|medium| medium.name.clone()).collect();
    let mut links = Links { declared: !scenario.hosts.is_empty(), keys, all: &mut scenario };
    for section in root.tables("link")? {
        links.pair(section)?;
    }
    for section in root.tables("broadcast")? {
        links.broadcast(section)?;
    }
    if scenario.links.len() + scenario.broadcasts.len() > MAX_LINKS {
        return Err(root.error("link", format!("more than {MAX_LINKS} links")));
    }
    if scenario.hosts.len() > MAX_HOSTS {
        return Err(root.error("host", format!("more than {MAX_HOSTS} hosts")));
    }
    root.finish()?;
    Ok(scenario)
}

fn head(root: &mut Section<'_>, file: &str) -> Read<Scenario> {
    let name = root.string("name")?.unwrap_or_else(|| stem(file).to_owned());
    let seconds = root.amount("seconds")?.unwrap_or(DEFAULT_SECONDS);
    if seconds > SECONDS_MAX {
        return Err(root.error("seconds", "is longer than a year"));
    }
    let mut scenario = Scenario::new(&name, seconds);
    scenario.seed = root.count("seed")?.unwrap_or(1);
    scenario.resolve_neighbours = match root.string("neighbours")?.as_deref() {
        None | Some("known") => false,
        Some("resolve") => true,
        Some(other) => {
            let what = format!("must be \"known\" or \"resolve\", is {other:?}");
            return Err(root.error("neighbours", what));
        }
    };
    Ok(scenario)
}

fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".toml").unwrap_or(name)
}

fn name<'n>(section: &mut Section<'_>, mut taken: impl Iterator<Item = &'n str>) -> Read<String> {
    let name = section.required_string("name")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
        let what = format!("must be 1 to {NAME_MAX} letters, digits, - or _, is {name:?}");
        return Err(section.error("name", what));
    }
    if taken.any(|other| other == name) {
        return Err(section.error("name", format!("there is another {name:?}")));
    }
    section.call(&name);
    Ok(name)
}

fn host(mut section: Section<'_>, scenario: &Scenario) -> Read<HostModel> {
    let name = name(&mut section, scenario.hosts.iter().map(|host| host.name.as_str()))?;
    let offset_ms = section.number("clock_offset_ms")?.unwrap_or(0.0);
    let origin_ms = CLOCK_ORIGIN.as_secs_f64() * 1e3;
    if offset_ms < -origin_ms || offset_ms > 1e12 {
        let what = format!("must be from -{origin_ms} to 1e12, is {offset_ms}");
        return Err(section.error("clock_offset_ms", what));
    }
    let skew_ppm = section.number("clock_skew_ppm")?.unwrap_or(0.0);
    if skew_ppm.abs() > SKEW_PPM_MAX {
        let what = format!("must be from -{SKEW_PPM_MAX} to {SKEW_PPM_MAX}, is {skew_ppm}");
        return Err(section.error("clock_skew_ppm", what));
    }
    let mut steps = Vec::new();
    for step in section.tables("clock_step")? {
        steps.push(clock_step(step)?);
    }
    section.finish()?;
    let offset_ns = (offset_ms * 1e6).round() as i64;
    let skew_ppb = (skew_ppm * 1e3).round() as i64;
    Ok(HostModel { name, clock: ClockModel { offset_ns, skew_ppb, steps } })
}

fn clock_step(mut section: Section<'_>) -> Read<ClockStep> {
    let at = required(section.instant("at_s")?, &section, "at_s")?;
    let by_ms = required(section.number("by_ms")?, &section, "by_ms")?;
    if by_ms.abs() > 1e12 {
        return Err(section.error("by_ms", "is longer than 30 years"));
    }
    section.finish()?;
    Ok(ClockStep { at, by_ns: (by_ms * 1e6).round() as i64 })
}

fn medium(mut section: Section<'_>, scenario: &Scenario) -> Read<MediumModel> {
    let name = name(&mut section, scenario.media.iter().map(|medium| medium.name.as_str()))?;
    let gap = section.millis("gap_ms")?.unwrap_or_default();
    section.finish()?;
    Ok(MediumModel { name, gap })
}

fn group(mut section: Section<'_>, scenario: &Scenario, keys: &mut Keys<'_>) -> Read<GroupModel> {
    let name = name(&mut section, scenario.groups.iter().map(|group| group.name.as_str()))?;
    let burst = section.table("burst_loss")?.map(|burst| gilbert_elliott(burst, true));
    let outages = keys.outages(&mut section, None)?;
    section.finish()?;
    let outages = outages.into_iter().map(|(outage, _)| outage).collect();
    Ok(GroupModel { name, burst: burst.transpose()?, outages })
}

/// Reads the links into a scenario that already has its other parts.
struct Links<'a, 'r> {
    /// True when the file declares its hosts: links may then name no others.
    declared: bool,
    keys: Keys<'r>,
    all: &'a mut Scenario,
}

impl Links<'_, '_> {
    fn pair(&mut self, mut section: Section<'_>) -> Read<()> {
        let name = self.link_name(&mut section)?;
        let (a, b) = self.ends(&mut section)?;
        let ends = [a, b].map(|host| self.all.hosts[host].name.clone());
        let mut common = LinkModel::default();
        self.keys.sender(&mut section, &mut common)?;
        self.keys.air(&mut section, &mut common)?;
        let (mut up, mut down) = (common.clone(), common);
        for (outage, direction) in self.keys.outages(&mut section, Some(&ends))? {
            if direction != Some(Direction::Down) {
                up.outages.push(outage);
            }
            if direction != Some(Direction::Up) {
                down.outages.push(outage);
            }
        }
        let [from_a, from_b] = ends.each_ref().map(|host| format!("from_{host}"));
        for (key, old, model) in [(from_a, "up", &mut up), (from_b, "down", &mut down)] {
            section.exclusive(&[&key, old])?;
            for key in [key.as_str(), old] {
                if let Some(mut section) = section.table(key)? {
                    self.keys.sender(&mut section, model)?;
                    self.keys.air(&mut section, model)?;
                    let own = self.keys.outages(&mut section, None)?;
                    model.outages.extend(own.into_iter().map(|(outage, _)| outage));
                    section.finish()?;
                }
            }
            check_medium(&section, model)?;
        }
        section.finish()?;
        self.all.links.push(LinkPair { name, a, b, up, down });
        Ok(())
    }

    fn broadcast(&mut self, mut section: Section<'_>) -> Read<()> {
        let name = self.link_name(&mut section)?;
        let from_name = section.required_string("from")?;
        let from = self.host(&section, "from", &from_name)?;
        let to = required(section.strings("to")?, &section, "to")?;
        let mut common = LinkModel::default();
        self.keys.sender(&mut section, &mut common)?;
        self.keys.air(&mut section, &mut common)?;
        let outages = self.keys.outages(&mut section, None)?;
        common.outages.extend(outages.into_iter().map(|(outage, _)| outage));
        check_medium(&section, &common)?;
        let mut receivers: Vec<Receiver> = Vec::new();
        for receiver in &to {
            let host = self.host(&section, "to", receiver)?;
            if host == from || receivers.iter().any(|other| other.host == host) {
                return Err(section.error("to", format!("{receiver:?} is there twice")));
            }
            receivers.push(Receiver { host, model: common.clone() });
        }
        if receivers.is_empty() {
            return Err(section.error("to", "must name at least one host"));
        }
        for own in section.tables("receiver")? {
            self.receiver(own, &mut receivers)?;
        }
        section.finish()?;
        self.all.broadcasts.push(Broadcast { name, from, sender: common, receivers });
        Ok(())
    }

    /// Reads what one receiver of a broadcast has of its own.
    fn receiver(&mut self, mut section: Section<'_>, receivers: &mut [Receiver]) -> Read<()> {
        let name = section.required_string("host")?;
        let host = self.all.host(&name);
        let Some(receiver) = receivers.iter_mut().find(|one| Some(one.host) == host) else {
            return Err(section.error("host", format!("{name:?} is not in \"to\"")));
        };
        self.keys.air(&mut section, &mut receiver.model)?;
        let outages: Vec<Outage> =
            self.keys.outages(&mut section, None)?.into_iter().map(|(outage, _)| outage).collect();
        if outages.iter().any(|outage| outage.mode != OutageMode::Drop) {
            return Err(section.error("outage", "only the whole broadcast can have mode \"hold\""));
        }
        receiver.model.outages.extend(outages);
        section.finish()
    }

    fn link_name(&self, section: &mut Section<'_>) -> Read<String> {
        let pairs = self.all.links.iter().map(|link| link.name.as_str());
        name(section, pairs.chain(self.all.broadcasts.iter().map(|link| link.name.as_str())))
    }

    fn ends(&mut self, section: &mut Section<'_>) -> Read<(usize, usize)> {
        let between = section.strings("between")?;
        let Some([a, b]) = between.as_deref() else {
            let what = "must name two hosts, as in [\"drone\", \"station\"]";
            return Err(section.error("between", what));
        };
        if a == b {
            return Err(section.error("between", "names the same host twice"));
        }
        Ok((self.host(section, "between", a)?, self.host(section, "between", b)?))
    }

    fn host(&mut self, section: &Section<'_>, key: &str, name: &str) -> Read<usize> {
        if self.declared && self.all.host(name).is_none() {
            let known: Vec<_> = self.all.hosts.iter().map(|host| host.name.as_str()).collect();
            let what = format!("no host {name:?}; there are {}", known.join(", "));
            return Err(section.error(key, what));
        }
        Ok(self.all.host_or_new(name))
    }
}

fn check_medium(section: &Section<'_>, model: &LinkModel) -> Read<()> {
    if model.medium.is_some() && !matches!(model.rate, LinkRate::Constant(_)) {
        return Err(section.error("medium", "a link on a medium needs rate_mbps"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Delay, QueueLimit};
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
        assert!(error(&typo).starts_with("s.toml:17: link.wifi.rate_mpbs: unknown key; known"));
        let probability = BLACKOUT.replace("loss = 0.05", "loss = 5");
        assert_eq!(
            error(&probability),
            "s.toml:24: link.wifi.down.loss: must be a probability from 0 to 1, is 5"
        );
        let host =
            BLACKOUT.replace("between = [\"drone\", \"station\"]", "between = [\"d\", \"s\"]");
        assert_eq!(
            error(&host),
            "s.toml:15: link.wifi.between: no host \"d\"; there are drone, station"
        );
        assert!(error("seconds = \"long\"").ends_with("seconds: must be a number, is \"long\""));
        assert!(error("a = = 1").starts_with("s.toml:1: "));
        let missing = BLACKOUT.replace("start_s = 20", "");
        assert_eq!(error(&missing), "s.toml:19: link.wifi.outage.start_s: is missing");
    }
}
