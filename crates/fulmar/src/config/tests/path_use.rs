//! What a file may say of a path's use, and what is said about mistakes in that.

use proto::select::Tier;

use super::*;

#[test]
fn what_a_path_is_for_is_understood() {
    let other = "[[path]]\ninterface = \"wwan0\"\nremote = \"192.0.2.1:14700\"\n\
                 cost = 12.5\nbackup = true\ncarries = [\"telemetry\", \"control\"]\n";
    let config = parse(&drone(other), Path::new("drone.toml")).unwrap();
    assert_eq!(config.paths[0].usage, PathUse::default());
    let usage = config.paths[1].usage;
    assert_eq!((usage.cost.get(), usage.backup), (12.5, true));
    assert!(usage.carries.tiers().eq([Tier::Control, Tier::Telemetry]));
    let unused = |config: &Config| {
        let warnings = config.warnings.iter().filter(|warning| warning.contains("no path to"));
        warnings.cloned().collect::<Vec<_>>()
    };
    assert_eq!(unused(&config), [] as [&str; 0]);
    let text = drone("carries = [\"control\", \"bulk\", \"message\"]\n");
    let config = parse(&text, Path::new("drone.toml")).unwrap();
    let warnings = unused(&config);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("\"ground\" carries telemetry"), "{warnings:?}");
}

#[test]
fn a_backup_that_alone_carries_control_is_warned_of() {
    let warned = |first: &str, second: &str| {
        let second = format!("[[path]]\ninterface = \"wwan0\"\nremote = \"192.0.2.2:1\"\n{second}");
        let config = parse(&drone(&format!("{first}{second}")), Path::new("drone.toml")).unwrap();
        config.warnings.iter().any(|warning| {
            warning
                .starts_with("a backup alone carries control to \"ground\": all of it goes there")
        })
    };
    assert!(warned("carries = [\"telemetry\", \"bulk\"]\n", "backup = true\n"));
    assert!(!warned("carries = [\"telemetry\", \"control\"]\n", "backup = true\n"));
    assert!(!warned("carries = [\"telemetry\", \"bulk\"]\n", "cost = 2.0\n"));
}

#[test]
fn mistakes_about_what_a_path_is_for_are_told_with_line_key_and_remedy() {
    let second = |more: &str| {
        drone(&format!("[[path]]\ninterface = \"wwan0\"\nremote = \"192.0.2.2:1\"\n{more}"))
    };
    for cost in ["-1", "0", "0.0", "inf", "-inf", "nan", "1e9", "\"dear\""] {
        let text = drone(&format!("cost = {cost}"));
        let found = problems(&text);
        assert_eq!(found.len(), 1, "{text}\n{found:#?}");
        assert!(found[0].starts_with("9: path[0].cost: "), "{found:?}");
        assert!(found[0].contains("a number from 0.001 to 1000000"), "{found:?}");
    }
    check(&[
        (drone("backup = \"yes\""), &["9: path[0].backup: "]),
        (
            drone("backup = true"),
            &["9: path[0].backup: every path to \"ground\" is a backup: leave it out where "],
        ),
        (
            second("backup = true\n").replace(
                "[[path]]\ninterface = \"wwan0\"",
                "backup = true\n[[path]]\ninterface = \"wwan0\"",
            ),
            &["13: path[1].backup: every path to \"ground\" is a backup"],
        ),
        (
            drone("carries = [\"video\"]"),
            &["9: path[0].carries: \"video\" is not one of \"control\", \"telemetry\", \
                 \"message\", \"bulk\" (video, ssh and the like are bulk)"],
        ),
        (
            drone("carries = []"),
            &["9: path[0].carries: names nothing, so nothing would go there: leave the key out"],
        ),
        (
            drone("carries = [\"bulk\"]"),
            &[
                "9: path[0].carries: no path to \"ground\" carries control: put \"control\" into the list",
            ],
        ),
        (second("carries = \"bulk\""), &[]),
        (
            drone("carries = \"control, telemetry\""),
            &[
                "9: path[0].carries: \"control, telemetry\" is not one of \"control\", \"telemetry\", \
                 \"message\", \"bulk\" (video, ssh and the like are bulk); several make a list: \
                 [\"control\", \"telemetry\"]",
            ],
        ),
    ]);
}
