//! `[elastic]`: constants of message delivery's redundancy other than those that sessions have, to
//! be varied in the world. No daemon has keys for them.

use proto::ElasticRedundancy;
use serde_json::{Value, json};
use toml_keys::Section;

/// What mistakes call it.
pub(super) const ELASTIC: &str = "elastic";
/// Keys of [`ElasticRedundancy::levels`].
const LEVELS: [&str; 4] = ["level_1", "level_2", "level_3", "level_4"];
/// Repair symbols per source symbol: more than one takes more than a copy would.
const SHARE_MAX: f64 = 4.0;
/// The most of anything else.
const MOST: f64 = 1e6;

/// Reads the section, where there is one.
pub(super) fn read(root: &Section<'_>) -> Option<ElasticRedundancy> {
    let section = root.section(ELASTIC)?;
    let mut constants = ElasticRedundancy::default();
    let set = |key, most, value: &mut f64| {
        *value = section.fraction(key, 0.0..=most).unwrap_or(*value);
    };
    for (key, level) in LEVELS.into_iter().zip(&mut constants.levels) {
        set(key, SHARE_MAX, level);
    }
    set("slope", MOST, &mut constants.slope);
    set("unknown", SHARE_MAX, &mut constants.unknown);
    set("bursts", SHARE_MAX, &mut constants.bursts);
    set("burst_run", MOST, &mut constants.burst_run);
    set("bursts_known", MOST, &mut constants.bursts_known);
    set("saved", MOST, &mut constants.saved);
    set("spare", SHARE_MAX, &mut constants.spare);
    section.finish();
    Some(constants)
}

/// Returns all constants by their keys, for the report.
pub(super) fn parameters(constants: &ElasticRedundancy) -> Value {
    let ElasticRedundancy { levels, slope, unknown, bursts, .. } = *constants;
    let ElasticRedundancy { burst_run, bursts_known, saved, spare, .. } = *constants;
    json!({
        "level_1": levels[0], "level_2": levels[1], "level_3": levels[2], "level_4": levels[3],
        "slope": slope, "unknown": unknown, "bursts": bursts, "burst_run": burst_run,
        "bursts_known": bursts_known, "saved": saved, "spare": spare,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::super::read::{Plan, Source};
    use crate::experiment::streams::play::play_quietly;
    use crate::report::Mode;
    use crate::scheme::Scheme;
    use crate::testbed::Recording;

    /// Messages that must all arrive over a link that loses a tenth, with constants of their own.
    const TUNED: &str = "\
seconds = 4
schemes = [\"fulmar\"]
figures = [\"streams.orders.p99_ms\", \"wire_bytes\"]

[[stream]]
kind = \"messages\"
name = \"orders\"

[elastic]
unknown = 0.24

[[link]]
name = \"radio\"
between = [\"drone\", \"station\"]
delay_ms = 20
loss = 0.1
";

    fn source(text: &str) -> Source {
        let none = |path: &Path| Err(format!("read {}: there is no file", path.display()));
        Source::new(text.to_owned(), Path::new("own.toml"), Some(Mode::Sim), Arc::new(none))
    }

    fn plan_of(text: &str) -> Result<Plan, String> {
        source(text).plan()
    }

    #[test]
    fn constants_of_redundancy_vary_in_the_world_and_usual_ones_change_nothing() {
        let wire = |text: &str| {
            let (scene, recording) = (plan_of(text).unwrap().scene(), Recording::load().unwrap());
            let results = play_quietly(&scene, &[Scheme::FULMAR], &recording, (1, 1)).unwrap();
            results[0]["wire_bytes"].as_u64().unwrap()
        };
        let usual = wire(&TUNED.replace("[elastic]\nunknown = 0.24\n", ""));
        assert_eq!(wire(TUNED), usual, "what the section leaves out is as usual");
        let much = wire(&TUNED.replace("unknown = 0.24", "unknown = 2\nlevel_4 = 2\nbursts = 2"));
        assert!(much > usual * 5 / 4, "{much} bytes are not much more than {usual}");
        let swept = "[[sweep]]\nkey = \"elastic.level_4\"\nvalues = [0, 2]\n\n[elastic]";
        let swept = TUNED.replace("[elastic]", swept);
        let (source, plan) = (source(&swept), plan_of(&swept).unwrap());
        let levels = plan.points().into_iter().map(|point| source.at(&point).unwrap().elastic);
        let levels: Vec<f64> = levels.map(|elastic| elastic.unwrap().levels[3]).collect();
        assert_eq!(levels, [0.0, 2.0]);
        assert_eq!(plan.parameters()["elastic"]["unknown"], 0.24);
    }

    #[test]
    fn daemons_have_no_keys_for_constants_of_redundancy() {
        let refused = |text: &str| {
            let source = source(text);
            source.check_daemons_have(&source.plan().unwrap()).unwrap_err()
        };
        assert_eq!(
            refused(TUNED),
            "own.toml:9: elastic: needs --sim: daemons have the constants that they were built with"
        );
        let without = TUNED.replace("[elastic]\nunknown = 0.24\n", "");
        let sweep = "\n[[sweep]]\nkey = \"elastic.spare\"\nvalues = [0]\n";
        let swept = refused(&format!("{without}{sweep}"));
        assert!(swept.starts_with("own.toml:17: elastic: needs --sim"), "{swept}");
        let without = source(&without);
        assert_eq!(without.check_daemons_have(&without.plan().unwrap()), Ok(()));
        let wrong = plan_of(&TUNED.replace("unknown =", "unkown =")).unwrap_err();
        assert!(wrong.contains("own.toml:10: elastic.unkown: unknown key; "), "{wrong}");
        let much = plan_of(&TUNED.replace("0.24", "5")).unwrap_err();
        assert!(much.contains("own.toml:10: elastic.unknown: 5"), "{much}");
    }
}
