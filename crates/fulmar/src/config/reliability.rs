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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::tests::{drone, problems};
    use crate::config::{Content, parse};

    #[test]
    fn targets_are_read_for_classes_and_endpoints() {
        let text = drone(
            r#"
    [reliability.control]
    target = 0.999
    deadline_ms = 100
    [reliability.live]
    target = 0.99
    deadline_ms = 300
    [[control]]
    name = "sticks"
    channel = 10
    address = "127.0.0.1:14800"
    target = 0.9999
    deadline_ms = 80
    "#,
        );
        let config = parse(&text, Path::new("drone.toml")).unwrap();
        let target = |share, ms| Target::new(share, Duration::from_millis(ms));
        let reliability = config.transport.session.reliability;
        assert_eq!(reliability.control, target(0.999, 100));
        assert_eq!((reliability.liveness, reliability.live), (None, target(0.99, 300)));
        let Content::Declared(policy) = config.endpoints[0].content else { panic!("declared") };
        assert_eq!(policy.target, target(0.9999, 80));
    }

    #[test]
    fn targets_that_make_no_sense_are_named_with_what_to_write_instead() {
        let class = |keys: &str| drone(&format!("[reliability.live]\n{keys}\n"));
        let own = |keys: &str| {
            let endpoint =
                "[[control]]\nname = \"sticks\"\nchannel = 10\naddress = \"127.0.0.1:14800\"";
            drone(&format!("{endpoint}\n{keys}\n"))
        };
        let cases = [
            (class("target = 1\ndeadline_ms = 100"), "reliability.live.target", "such as 0.999"),
            (class("target = 1.5\ndeadline_ms = 100"), "reliability.live.target", "such as 0.999"),
            (class("target = 0\ndeadline_ms = 100"), "reliability.live.target", "such as 0.999"),
            (class("target = 0.999"), "reliability.live.target", "needs deadline_ms"),
            (class("deadline_ms = 100"), "reliability.live.deadline_ms", "needs target"),
            (
                class("target = 0.99\ndeadline_ms = 301"),
                "reliability.live.deadline_ms",
                "300 or less",
            ),
            (class("target = 0.99\ndeadline_ms = 2"), "reliability.live.deadline_ms", "below 5"),
            (own("target = 0.999"), "control[0].target", "needs deadline_ms"),
            (
                own("target = 0.99\ndeadline_ms = 100\nttl_ms = 50"),
                "control[0].deadline_ms",
                "50 or less",
            ),
            (
                own("target = 0.99\ndeadline_ms = 9\ncopies = \"all\""),
                "control[0].copies",
                "beside target",
            ),
        ];
        for (text, key, what) in cases {
            let problems = problems(&text);
            let [problem] = &problems[..] else { panic!("{key}: {problems:?}") };
            assert!(problem.contains(key) && problem.contains(what), "{key}: {problem}");
        }
    }
}
