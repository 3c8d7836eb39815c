//! Reliability targets: `[reliability.control]`, `[reliability.liveness]`, `[reliability.live]`, and the same keys of a
//! declared endpoint.

use proto::select::Policy;
use proto::{Duration, Reliability, Target};
use toml_keys::Section;

/// The largest share that can be asked for: one message in a million is missed. What is rarer no session lives to see.
const MOST: f64 = 0.999_999;
/// The smallest: a link that loses half of everything gives it.
const LEAST: f64 = 0.5;
/// The shortest deadline, in milliseconds: below it no round trip of a radio fits.
const SHORTEST_MS: u64 = 5;

/// Reads `[reliability]`.
pub(super) fn read(root: &Section<'_>) -> Reliability {
    let class = |key: &str, policy: Policy| {
        let section = root.section(key)?;
        if !section.has("deadline_ms") {
            section.require("target");
        }
        let target = target(&section, policy.ttl);
        section.finish();
        target
    };
    Reliability {
        control: class("control", Policy::TRANSACTIONAL),
        liveness: class("liveness", Policy::LIVENESS),
        live: class("live", Policy::LIVE),
    }
}

/// Reads `target` and `deadline_ms` of what lives for `ttl`; none where there is neither.
pub(super) fn target(section: &Section<'_>, ttl: Duration) -> Option<Target> {
    let share = section.fraction("target", 0.0..=f64::INFINITY);
    let deadline = section.number("deadline_ms", 1..=60_000).map(Duration::from_millis);
    match (section.has("target"), section.has("deadline_ms")) {
        (true, false) => {
            let what = "needs deadline_ms beside it: within which time, such as deadline_ms = 100";
            section.wrong("target", what);
        }
        (false, true) => {
            let what =
                "needs target beside it: which share is to be in time, such as target = 0.999";
            section.wrong("deadline_ms", what);
        }
        _ => {}
    }
    let deadline = deadline?;
    if deadline < Duration::from_millis(SHORTEST_MS) {
        let what = format!(
            "is below {SHORTEST_MS}, in which nothing is answered; write the age that the vehicle bears"
        );
        section.wrong("deadline_ms", what);
        return None;
    }
    if deadline > ttl {
        let ms = ttl.as_millis();
        let what = format!(
            "is beyond the {ms} ms after which these messages are dropped; write {ms} or less"
        );
        section.wrong("deadline_ms", what);
        return None;
    }
    let share = share?;
    if share > MOST {
        let what = format!(
            "{share} is more than any link gives; write a share of at most {MOST}, such as 0.999"
        );
        section.wrong("target", what);
        return None;
    }
    if share < LEAST {
        let what = format!(
            "{share} is less than any link gives; write a share of at least {LEAST}, such as 0.999"
        );
        section.wrong("target", what);
        return None;
    }
    Target::new(share, deadline)
}
