//! Reliability targets in words: what keeps these links from more, and what would help.

use proto::{PathId, ReliabilityLimit, ReliabilityState, ReliabilityStatus};

/// Says in one line what limits a target, and how many more links it would take; empty when nothing is known to.
pub(crate) fn limit_text(status: &ReliabilityStatus, name: impl Fn(PathId) -> String) -> String {
    let deadline = status.target.deadline().as_millis();
    let text = match status.limit {
        ReliabilityLimit::Unknown => return String::new(),
        ReliabilityLimit::Alone { path, share } => {
            format!("{} alone carries control, and {} of it is missed", name(path), one_in(share))
        }
        ReliabilityLimit::TooSlow { path, by } => {
            let by = by.as_millis().max(1);
            format!("{} is {by} ms too slow for {deadline} ms", name(path))
        }
        ReliabilityLimit::Together { paths: [one, other], share } => {
            let (one, other) = (name(one), name(other));
            format!("{one} and {other} fail together in {} failures of {one}", one_in(share))
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
    use proto::select::Class;
    use proto::{Duration, Target};

    use super::*;

    fn status(limit: ReliabilityLimit, more_links: Option<u32>) -> ReliabilityStatus {
        ReliabilityStatus {
            class: Class::Live,
            channel: None,
            target: Target::new(0.999, Duration::from_millis(40)).unwrap(),
            state: ReliabilityState::NotReachable,
            predicted_miss: None,
            miss_share: None,
            bound_95: None,
            messages: 0,
            misses: 0,
            episodes: 0,
            copies_per_message: None,
            saved_share: None,
            saved_bytes: 0,
            limit,
            more_links,
        }
    }

    #[test]
    fn limits_are_sentences() {
        let (wifi, lte) = (PathId(0), PathId(1));
        let name = |path: PathId| ["wifi", "lte"][usize::from(path.0)].to_owned();
        let by = Duration::from_millis(12);
        let together = ReliabilityLimit::Together { paths: [wifi, lte], share: 0.166 };
        let alone = ReliabilityLimit::Alone { path: lte, share: 0.02 };
        let retry = ReliabilityLimit::NoRetry { path: wifi, needs: Duration::from_millis(55) };
        let cases = [
            (
                ReliabilityLimit::TooSlow { path: lte, by },
                Some(1),
                "lte is 12 ms too slow for 40 ms; one more link like the best would do",
            ),
            (
                together,
                Some(3),
                "wifi and lte fail together in 1 in 6 failures of wifi; 3 more links like the best would do",
            ),
            (
                alone,
                None,
                "lte alone carries control, and 1 in 50 of it is missed; more links like these would not help",
            ),
            (retry, Some(0), "a second try on wifi takes 55 ms: 40 ms leave no time for one"),
            (ReliabilityLimit::Unknown, None, ""),
        ];
        for (limit, links, text) in cases {
            assert_eq!(limit_text(&status(limit, links), name), text);
        }
    }
}
