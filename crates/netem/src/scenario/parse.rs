//! Reads a scenario from TOML: what each key means and which values it may have.
//!
//! `docs/scenarios.md` is the same for people. How keys are found and errors get their line is in
//! `section.rs`.

use super::section::{ScenarioError, Section, Source};
use super::{Direction, HostModel, LinkPair, MAX_HOSTS, MAX_LINKS, Scenario};
use crate::clock::{CLOCK_ORIGIN, ClockModel, ClockStep};
use crate::link::{Delay, LinkModel, LinkRate, Outage, OutageMode, QueueLimit};
use toml::de::DeTable;
use units::Instant;

type Read<T> = Result<T, ScenarioError>;

/// The length of a run whose scenario does not say.
const DEFAULT_SECONDS: f64 = 60.0;

/// The longest name: Linux gives an interface 15 characters, and links name interfaces.
const NAME_MAX: usize = 15;

/// Faster or slower clocks than this are no clocks (quartz: 100 ppm).
const SKEW_PPM_MAX: f64 = 100_000.0;

pub(super) fn scenario(text: &str, file: &str) -> Read<Scenario> {
    let source = Source { text, file };
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        source.error(&span, "", error.message().to_owned())
    })?;
    let mut root = Section::root(source, &table);
    let mut scenario = Scenario::new("", 0.0);
    scenario.name = match root.string("name")? {
        Some(name) => name,
        None => stem(file).to_owned(),
    };
    scenario.seconds = root.amount("seconds")?.unwrap_or(DEFAULT_SECONDS);
    scenario.seed = root.count("seed")?.unwrap_or(1);
    for section in root.tables("host")? {
        let host = host(section, &scenario)?;
        scenario.hosts.push(host);
    }
    let declared = !scenario.hosts.is_empty();
    for section in root.tables("link")? {
        let pair = link(section, &mut scenario, declared)?;
        scenario.links.push(pair);
    }
    if scenario.links.len() > MAX_LINKS {
        return Err(root.error("link", format!("more than {MAX_LINKS} links")));
    }
    if scenario.hosts.len() > MAX_HOSTS {
        return Err(root.error("host", format!("more than {MAX_HOSTS} hosts")));
    }
    root.finish()?;
    Ok(scenario)
}

fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".toml").unwrap_or(name)
}

fn name(section: &mut Section<'_>) -> Read<String> {
    let name = section.required_string("name")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
        let what = format!("must be 1 to {NAME_MAX} letters, digits, - or _, is {name:?}");
        return Err(section.error("name", what));
    }
    section.call(&name);
    Ok(name)
}

fn host(mut section: Section<'_>, scenario: &Scenario) -> Read<HostModel> {
    let name = name(&mut section)?;
    if scenario.host(&name).is_some() {
        return Err(section.error("name", "there is another host of this name"));
    }
    let offset_ms = section.number("clock_offset_ms")?.unwrap_or(0.0);
    let origin_ms = CLOCK_ORIGIN.as_secs_f64() * 1e3;
    if offset_ms < -origin_ms || offset_ms > 1e15 {
        let what = format!("must be more than -{origin_ms} and less than 1e15, is {offset_ms}");
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
    let at = required(&section.instant("at_s")?, &section, "at_s")?;
    let by_ms = required(&section.number("by_ms")?, &section, "by_ms")?;
    if by_ms.abs() > 1e12 {
        return Err(section.error("by_ms", "is longer than 30 years"));
    }
    section.finish()?;
    Ok(ClockStep { at, by_ns: (by_ms * 1e6).round() as i64 })
}

fn link(mut section: Section<'_>, scenario: &mut Scenario, declared: bool) -> Read<LinkPair> {
    let name = name(&mut section)?;
    if scenario.links.iter().any(|link| link.name == name) {
        return Err(section.error("name", "there is another link of this name"));
    }
    let (a, b) = ends(&mut section, scenario, declared)?;
    let mut common = LinkModel::default();
    model(&mut section, &mut common)?;
    let (mut up, mut down) = (common.clone(), common);
    for (outage, direction) in outages(&mut section, true)? {
        if direction != Some(Direction::Down) {
            up.outages.push(outage);
        }
        if direction != Some(Direction::Up) {
            down.outages.push(outage);
        }
    }
    for (key, one_way) in [("up", &mut up), ("down", &mut down)] {
        if let Some(mut section) = section.table(key)? {
            model(&mut section, one_way)?;
            let own = outages(&mut section, false)?;
            one_way.outages.extend(own.into_iter().map(|(outage, _)| outage));
            section.finish()?;
        }
    }
    section.finish()?;
    Ok(LinkPair { name, a, b, up, down })
}

fn ends(section: &mut Section<'_>, all: &mut Scenario, declared: bool) -> Read<(usize, usize)> {
    let between = section.strings("between")?;
    let Some([a, b]) = between.as_deref() else {
        return Err(section.error("between", "must name two hosts, as in [\"drone\", \"station\"]"));
    };
    if a == b {
        return Err(section.error("between", "names the same host twice"));
    }
    for host in [a, b] {
        if declared && all.host(host).is_none() {
            let known: Vec<_> = all.hosts.iter().map(|host| host.name.as_str()).collect();
            let what = format!("no host {host:?}; there are {}", known.join(", "));
            return Err(section.error("between", what));
        }
    }
    Ok((all.host_or_new(a), all.host_or_new(b)))
}

/// Reads the keys that a link and each of its directions have in common into `model`.
fn model(section: &mut Section<'_>, model: &mut LinkModel) -> Read<()> {
    if let Some(delay) = section.millis("delay_ms")? {
        model.delay = Delay::Fixed(delay);
    }
    if let Some(rate) = section.mbps("rate_mbps")? {
        model.rate = LinkRate::Constant(rate);
    }
    if let Some(limit) = queue(section, "queue_packets", "queue_bytes")? {
        model.queue = limit;
    }
    if let Some(loss) = section.probability("loss")? {
        model.loss.independent = loss;
    }
    Ok(())
}

/// Reads a queue limit; a limit that is given replaces the default one as a whole.
fn queue(
    section: &mut Section<'_>,
    packets: &'static str,
    bytes: &'static str,
) -> Read<Option<QueueLimit>> {
    let limit = QueueLimit { packets: section.count(packets)?, bytes: section.count(bytes)? };
    Ok((limit != QueueLimit::UNLIMITED).then_some(limit))
}

fn outages(section: &mut Section<'_>, common: bool) -> Read<Vec<(Outage, Option<Direction>)>> {
    let mut all = Vec::new();
    for mut section in section.tables("outage")? {
        let direction = if common { direction(&mut section)? } else { None };
        let start: Instant = required(&section.instant("start_s")?, &section, "start_s")?;
        let duration = required(&section.seconds("seconds")?, &section, "seconds")?;
        let mode = match section.required_string("mode")?.as_str() {
            "drop" => OutageMode::Drop,
            "hold" => {
                OutageMode::Hold { queue: queue(&mut section, "queue_packets", "queue_bytes")? }
            }
            other => {
                let what = format!("must be \"drop\" or \"hold\", is {other:?}");
                return Err(section.error("mode", what));
            }
        };
        section.finish()?;
        all.push((Outage { start, duration, mode }, direction));
    }
    Ok(all)
}

fn direction(section: &mut Section<'_>) -> Read<Option<Direction>> {
    match section.string("direction")?.as_deref() {
        None | Some("both") => Ok(None),
        Some("up") => Ok(Some(Direction::Up)),
        Some("down") => Ok(Some(Direction::Down)),
        Some(other) => {
            let what = format!("must be \"up\", \"down\" or \"both\", is {other:?}");
            Err(section.error("direction", what))
        }
    }
}

fn required<T: Clone>(value: &Option<T>, section: &Section<'_>, key: &str) -> Read<T> {
    value.clone().ok_or_else(|| section.error(key, "is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;
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
