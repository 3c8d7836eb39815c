//! Reliability targets: which are shown, and in words what keeps these links from more, and what
//! would help.

use proto::select::Class;
use proto::{PathId, ReliabilityLimit, ReliabilityState, ReliabilityStatus, Target};

use super::ReliabilityReport;
use super::schema::millis;
use super::words::reliability_word;
use crate::config::{Config, Content, EndpointConfig};

/// Cases below which a share is assumed more than it is seen.
const FEW: u64 = 10;

/// Shows the targets that the file has now for a peer, whatever was sent so far; `known` is what
/// the session tells, of targets that a reload has ended as well.
pub(crate) fn reliability_reports(
    config: &Config,
    peer: usize,
    known: &[ReliabilityStatus],
    name_of: impl Fn(PathId) -> String,
) -> Vec<ReliabilityReport> {
    let classes = &config.transport.session.reliability;
    let of_class = |class: Class| {
        let name = format!("{class:?}").to_lowercase();
        Some((name, (class, None, classes.of(class)?)))
    };
    let of_endpoint = |endpoint: &EndpointConfig| match endpoint.content {
        Content::Declared(policy) if endpoint.peer == peer => {
            Some((endpoint.name.clone(), (policy.class, Some(endpoint.channel), policy.target?)))
        }
        _ => None,
    };
    let own = config.endpoints.iter().filter_map(of_endpoint);
    let configured = Class::ALL.into_iter().filter_map(of_class).chain(own);
    let report = |(name, key): (String, (Class, Option<u8>, Target))| {
        let is_it = |kept: &&ReliabilityStatus| (kept.class, kept.channel, kept.target) == key;
        match known.iter().find(is_it) {
            Some(kept) => {
                let limit = limit_text(kept, &name_of);
                ReliabilityReport { name, limit, ..ReliabilityReport::from(kept) }
            }
            None => ReliabilityReport {
                name,
                channel: key.1,
                target: key.2.share(),
                deadline_ms: millis(key.2.deadline()),
                state: reliability_word(ReliabilityState::Learning).into(),
                limit: "no message yet".into(),
                ..ReliabilityReport::default()
            },
        }
    };
    configured.map(report).collect()
}

/// Says in one line what limits a target, and how many more links it would take; empty when nothing
/// is known to.
fn limit_text(status: &ReliabilityStatus, name: impl Fn(PathId) -> String) -> String {
    let deadline = status.target.deadline().as_millis();
    let text = match status.limit {
        ReliabilityLimit::Unknown => return String::new(),
        ReliabilityLimit::Clock { error } => {
            let error = error.as_millis();
            format!(
                "the clocks are known to ± {error} ms, which leaves open what is there within {deadline} ms, and \
                 what is open counts as missed: a longer deadline or a faster link would tell"
            )
        }
        ReliabilityLimit::Alone { path, samples: 0, .. } => {
            format!("{} alone carries control; what it misses is not known yet", name(path))
        }
        ReliabilityLimit::Alone { path, share, samples } => {
            let (path, share) = (name(path), one_in(share));
            format!(
                "{path} alone carries control, and {share} of it is missed ({samples} messages)"
            )
        }
        ReliabilityLimit::TooSlow { path, by } => {
            let by = by.as_millis().max(1);
            format!("{} is {by} ms too slow for {deadline} ms", name(path))
        }
        ReliabilityLimit::Together { paths: [one, other], share, samples } => {
            let (one, other, share) = (name(one), name(other), one_in(share));
            match samples {
                0..FEW => format!(
                    "{one} and {other} are assumed to fail together in {share} failures of {one} ({samples} seen)"
                ),
                _ => format!(
                    "{one} and {other} fail together in {share} failures of {one} ({samples} seen)"
                ),
            }
        }
        ReliabilityLimit::NoRetry { path, needs } => {
            let (path, needs) = (name(path), needs.as_millis());
            format!("a second try on {path} takes {needs} ms: {deadline} ms leave no time for one")
        }
    };
    let help = match (status.state, status.more_links) {
        (ReliabilityState::NotReachable, Some(1)) => {
            "; one more link like the best would do".into()
        }
        (ReliabilityState::NotReachable, Some(links @ 2..)) => {
            format!("; {links} more links like the best would do")
        }
        _ if status.is_hidden_by_clock() => String::new(),
        (ReliabilityState::NotReachable, None) => "; more links like these would not help".into(),
        _ => String::new(),
    };
    text + &help
}

/// Writes a share as one in so many.
fn one_in(share: f64) -> String {
    match share {
        share if share >= 0.75 => "nearly all".to_owned(),
        share if share > 0.0 => format!("1 in {:.0}", 1.0 / share),
        _ => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proto::Duration;

    use super::*;
    use crate::config::{parse, tests::drone};

    fn status(limit: ReliabilityLimit, more_links: Option<u32>) -> ReliabilityStatus {
        ReliabilityStatus {
            class: Class::Live,
            channel: None,
            target: Target::new(0.999, Duration::from_millis(40)).unwrap(),
            state: ReliabilityState::NotReachable,
            predicted_miss: None,
            miss_share: None,
            bound_95: None,
            open_share: None,
            clock_error: None,
            messages: 0,
            misses: 0,
            episodes: 0,
            copies_per_message: None,
            saved_share: None,
            saved_bytes: 0,
            limit,
            more_links,
            flight: [None; 4],
        }
    }

    const GIMBAL: &str = "[[control]]\nname = \"gimbal\"\nchannel = 11\n\
                          address = \"127.0.0.1:14801\"\ndeadline_ms = 150\ntarget = ";

    fn shown(file: &str, known: &[ReliabilityStatus]) -> Vec<(String, f64, String)> {
        let config = parse(&drone(file), Path::new("drone.toml")).unwrap();
        let reports = reliability_reports(&config, 0, known, |_| "wifi".to_owned());
        reports.into_iter().map(|kept| (kept.name, kept.target, kept.limit)).collect()
    }

    fn of_gimbal(share: f64) -> ReliabilityStatus {
        let limit = ReliabilityLimit::TooSlow { path: PathId(0), by: Duration::from_millis(3) };
        let target = Target::new(share, Duration::from_millis(150)).unwrap();
        let (class, channel) = (Class::Control, Some(11));
        ReliabilityStatus { class, channel, target, ..status(limit, None) }
    }

    #[test]
    fn a_target_is_shown_before_its_first_message() {
        let file = format!("[reliability.live]\ntarget = 0.999\ndeadline_ms = 40\n{GIMBAL}0.99");
        let none = "no message yet".to_owned();
        let rows =
            [("live".to_owned(), 0.999, none.clone()), ("gimbal".to_owned(), 0.99, none.clone())];
        assert_eq!(shown(&file, &[]), rows);
        let rows = shown(&file, &[status(ReliabilityLimit::Unknown, None)]);
        assert_eq!((rows[0].2.as_str(), rows[1].2.as_str()), ("", "no message yet"));
    }

    #[test]
    fn what_a_reload_removed_is_not_shown_and_what_came_back_is_shown_once() {
        let (old, new) = (of_gimbal(0.99), of_gimbal(0.9));
        assert_eq!(shown("", &[old]), []);
        let rows = shown(&format!("{GIMBAL}0.9"), &[old, new]);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert!(rows[0].0 == "gimbal" && rows[0].1 == 0.9 && rows[0].2.starts_with("wifi is 3 ms"));
    }

    #[test]
    fn shares_that_the_clocks_do_not_tell_are_not_shown() {
        let seen = |limit| ReliabilityStatus {
            miss_share: Some(1.0),
            bound_95: Some(1.0),
            open_share: Some(0.98),
            clock_error: Some(Duration::from_millis(35)),
            ..status(limit, None)
        };
        let hidden = ReliabilityLimit::Clock { error: Duration::from_millis(35) };
        let hidden = ReliabilityReport::from(&seen(hidden));
        assert_eq!((hidden.achieved, hidden.proven), (None, None));
        assert_eq!((hidden.open, hidden.clock_error_ms), (Some(0.98), Some(35.0)));
        let told = ReliabilityReport::from(&seen(ReliabilityLimit::Unknown));
        assert_eq!((told.achieved, told.proven), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn limits_are_sentences() {
        let (wifi, lte) = (PathId(0), PathId(1));
        let name = |path: PathId| ["wifi", "lte"][usize::from(path.0)].to_owned();
        let by = Duration::from_millis(12);
        let together =
            |samples| ReliabilityLimit::Together { paths: [wifi, lte], share: 0.166, samples };
        let alone = |samples| ReliabilityLimit::Alone { path: lte, share: 0.02, samples };
        let clock = ReliabilityLimit::Clock { error: Duration::from_millis(35) };
        let retry = ReliabilityLimit::NoRetry { path: wifi, needs: Duration::from_millis(55) };
        let cases = [
            (
                ReliabilityLimit::TooSlow { path: lte, by },
                Some(1),
                "lte is 12 ms too slow for 40 ms; one more link like the best would do",
            ),
            (
                together(57),
                Some(3),
                "wifi and lte fail together in 1 in 6 failures of wifi (57 seen); 3 more links like the best would do",
            ),
            (
                together(9),
                Some(0),
                "wifi and lte are assumed to fail together in 1 in 6 failures of wifi (9 seen)",
            ),
            (
                alone(5_000),
                None,
                "lte alone carries control, and 1 in 50 of it is missed (5000 messages); more links like these would \
                 not help",
            ),
            (alone(0), Some(0), "lte alone carries control; what it misses is not known yet"),
            (
                clock,
                Some(0),
                "the clocks are known to ± 35 ms, which leaves open what is there within 40 ms, and what is open \
                 counts as missed: a longer deadline or a faster link would tell",
            ),
            (retry, Some(0), "a second try on wifi takes 55 ms: 40 ms leave no time for one"),
            (ReliabilityLimit::Unknown, None, ""),
        ];
        for (limit, links, text) in cases {
            assert_eq!(limit_text(&status(limit, links), name), text);
        }
    }
}
