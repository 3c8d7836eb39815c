//! Reliability targets: `[reliability.control]`, `[reliability.liveness]`, `[reliability.live]`,
//! and the same keys of a declared endpoint.

use proto::select::{Policy, Tier};
use proto::{Duration, Reliability, Target};
use toml_keys::Section;

use super::peers::ReadPeer;
use super::{Content, EndpointConfig, PathConfig};

/// The largest share that can be asked for: one message in a million is missed. What is rarer no
/// session lives to see.
const MOST: f64 = 0.999_999;
/// The smallest: a link that loses half of everything gives it.
const LEAST: f64 = 0.5;
/// The shortest deadline, in milliseconds: below it no round trip of a radio fits.
const SHORTEST_MS: u64 = 5;

/// Reads `[reliability]`.
pub(super) fn read(root: &Section<'_>) -> Reliability {
    let class = |key: &str, policy: Policy| {
        let section = root.section(key)?;
        if !section.has("target") && !section.has("deadline_ms") {
            let what = "asks for nothing: write target = 0.999 and deadline_ms = 100, or leave the section out";
            section.wrong("", what);
        }
        let target = target(&section, policy.ttl);
        section.finish();
        target
    };
    let reliability = Reliability {
        control: class("control", Policy::TRANSACTIONAL),
        liveness: class("liveness", Policy::LIVENESS),
        live: class("live", Policy::LIVE),
    };
    if ["control", "liveness", "live"].iter().all(|key| !root.has(key)) {
        let what = "names no class: head it [reliability.control], [reliability.liveness] or [reliability.live]";
        root.wrong("", what);
    }
    reliability
}

/// Reads `target` and `deadline_ms` of what lives for `ttl`; none where there is neither.
pub(super) fn target(section: &Section<'_>, ttl: Duration) -> Option<Target> {
    let expected = format!("a share from {LEAST} to {MOST}, such as 0.999 for 99.9 %");
    let share = section.within("target", LEAST..=MOST, &expected);
    let longest = ttl.as_millis();
    let expected = format!(
        "a time in whole ms from {SHORTEST_MS}, below which nothing is answered, to {longest}, after which these \
         messages are dropped"
    );
    let deadline = section.whole_within("deadline_ms", SHORTEST_MS..=longest, &expected);
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
    Target::new(share?, Duration::from_millis(deadline?))
}

/// Warns of targets where one path carries all control: nothing can be chosen there.
pub(super) fn warn_of_lone_paths(
    classes: &Reliability,
    endpoints: &[EndpointConfig],
    paths: &[PathConfig],
    peers: &[ReadPeer],
    warnings: &mut Vec<String>,
) {
    let of_class = [
        ("[reliability.control]", classes.control),
        ("[reliability.liveness]", classes.liveness),
        ("[reliability.live]", classes.live),
    ];
    let has_own = |endpoint: &&EndpointConfig| matches!(endpoint.content, Content::Declared(policy) if policy.target.is_some());
    for (place, (peer, _)) in peers.iter().enumerate() {
        let carries =
            |path: &&PathConfig| path.peer == place && path.usage.carries.has(Tier::Control);
        let mut carriers = paths.iter().filter(carries);
        let (Some(path), None) = (carriers.next(), carriers.next()) else { continue };
        let own = endpoints.iter().filter(has_own).filter(|endpoint| endpoint.peer == place);
        let own = own.map(|endpoint| format!("[[control]] \"{}\"", endpoint.name));
        let classes = of_class.iter().filter(|(_, target)| target.is_some());
        let targets: Vec<String> = classes.map(|(head, _)| (*head).to_owned()).chain(own).collect();
        if !targets.is_empty() {
            warnings.push(format!(
                "path \"{}\" alone carries control to \"{}\": there is nothing to choose for the target of {}, and \
                 no more can be reached than this link gives with second tries; add a [[path]] for another link",
                path.name,
                peer.name,
                targets.join(", ")
            ));
        }
    }
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

    /// Each file has one mistake, which begins with what is expected.
    fn one_mistake_each(cases: &[(String, &str)]) {
        for (text, expected) in cases {
            let problems = problems(text);
            let [problem] = &problems[..] else { panic!("{expected}: {problems:?}") };
            assert!(problem.starts_with(expected), "{expected}: {problem}");
            let is_share = !expected.contains("is not a share")
                || problem.ends_with("such as 0.999 for 99.9 %");
            assert!(is_share, "{problem}");
        }
    }

    #[test]
    fn targets_that_make_no_sense_are_named_with_what_to_write_instead() {
        let class = |keys: &str| drone(&format!("[reliability.live]\n{keys}\n"));
        one_mistake_each(&[
            (
                class("target = 1\ndeadline_ms = 100"),
                "10: reliability.live.target: 1 is not a share from 0.5 to ",
            ),
            (
                class("target = 1.5\ndeadline_ms = 100"),
                "10: reliability.live.target: 1.5 is not a share from 0.5 to ",
            ),
            (
                class("target = 0\ndeadline_ms = 100"),
                "10: reliability.live.target: 0 is not a share from 0.5 to ",
            ),
            (
                class("target = nan\ndeadline_ms = 100"),
                "10: reliability.live.target: nan is not a share from 0.5 to ",
            ),
            (
                class("target = inf\ndeadline_ms = 100"),
                "10: reliability.live.target: inf is not a share from 0.5 to ",
            ),
            (class("target = 0.999"), "10: reliability.live.target: needs deadline_ms"),
            (class("deadline_ms = 100"), "10: reliability.live.deadline_ms: needs target"),
            (
                class("target = 0.99\ndeadline_ms = 301"),
                "11: reliability.live.deadline_ms: 301 is not a time",
            ),
            (
                class("target = 0.99\ndeadline_ms = 2"),
                "11: reliability.live.deadline_ms: 2 is not a time",
            ),
            (
                class("target = 0.99\ndeadline_ms = 0"),
                "11: reliability.live.deadline_ms: 0 is not a time",
            ),
            (
                class("target = 0.99\ndeadline_ms = -1"),
                "11: reliability.live.deadline_ms: -1 is not a time",
            ),
            (
                class("target = 0.99\ndeadline_ms = nan"),
                "11: reliability.live.deadline_ms: nan is not a time",
            ),
            (
                class(""),
                "9: reliability.live: asks for nothing: write target = 0.999 and deadline_ms = 100",
            ),
            (
                drone("[reliability]\n"),
                "9: reliability: names no class: head it [reliability.control], ",
            ),
            (
                drone("[[reliability.live]]\ntarget = 0.99\ndeadline_ms = 100\n"),
                "9: reliability.live: there is one of these: head it [reliability.live]",
            ),
        ]);
    }

    #[test]
    fn targets_of_endpoints_that_make_no_sense_are_named_as_well() {
        let own = |keys: &str| {
            let endpoint =
                "[[control]]\nname = \"sticks\"\nchannel = 10\naddress = \"127.0.0.1:14800\"";
            drone(&format!("{endpoint}\n{keys}\n"))
        };
        one_mistake_each(&[
            (own("target = 0.999"), "13: control[0].target: needs deadline_ms"),
            (
                own("target = 0.99\ndeadline_ms = 100\nttl_ms = 50"),
                "14: control[0].deadline_ms: 100 is not a time in whole ms from 5, below which nothing is \
                 answered, to 50, after which these messages are dropped",
            ),
            (
                own("target = 0.99\ndeadline_ms = 9\ncopies = \"all\""),
                "15: control[0].copies: cannot stand beside target",
            ),
        ]);
    }

    #[test]
    fn every_mistake_of_a_target_is_told_at_once() {
        let text = drone("[reliability.live]\ntarget = nan\ndeadline_ms = 0\n");
        let found = problems(&text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("10: reliability.live.target: nan"), "{found:?}");
        assert!(found[1].starts_with("11: reliability.live.deadline_ms: 0"), "{found:?}");
        let found = problems(&drone("[reliability.live]\ntarget = 2\n"));
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_target_with_one_path_is_warned_of() {
        let target = "[reliability.live]\ntarget = 0.99\ndeadline_ms = 100\n\
                      [[control]]\nname = \"gimbal\"\nchannel = 10\naddress = \"127.0.0.1:14800\"\n\
                      target = 0.99\ndeadline_ms = 100\n";
        let warned = |text: &str| {
            let warnings = parse(text, Path::new("drone.toml")).unwrap().warnings;
            warnings.into_iter().find(|warning| warning.contains("nothing to choose"))
        };
        let told = warned(&drone(target)).unwrap();
        let start = "path \"wlan0\" alone carries control to \"ground\": there is nothing to choose for the \
                     target of [reliability.live], [[control]] \"gimbal\", and no more can be reached than ";
        assert!(told.starts_with(start), "{told}");
        let second = |carries: &str| {
            drone(&format!(
                "[[path]]\ninterface = \"wwan0\"\nremote = \"192.0.2.2:1\"\ncarries = {carries}\n{target}"
            ))
        };
        assert_eq!(warned(&second("[\"control\"]")), None);
        assert!(warned(&second("[\"bulk\"]")).is_some());
        assert_eq!(warned(&drone("")), None);
    }
}
