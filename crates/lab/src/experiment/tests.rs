//! Every experiment's results have the figures that it declares, and no others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

/// Two links, for a second.
const LINKS: &str = "seconds = 1\n\
    [[link]]\nname = \"a\"\nbetween = [\"drone\", \"station\"]\nrate_mbps = 5\ndelay_ms = 10\n\
    [[link]]\nname = \"b\"\nbetween = [\"drone\", \"station\"]\nrate_mbps = 5\ndelay_ms = 20\n";

/// The smallest run of each experiment in the world; those of the kernel's TCP and of real daemons
/// alone have none.
const SMALLEST: [&str; 16] = [
    "conclone-target --sim --links thin,dear --messages 6000 --targets 0.99 --deadlines-ms 100 --schemes fulmar_target,fulmar,udp",
    "conclone-interval --sim --messages 4 --schemes fulmar,udp",
    "mixed-blackout --sim --schemes redundant,udp --scenario LINKS",
    "recorded --sim --schemes udp --scenario LINKS",
    "thin-links --sim --schemes udp --rates-kbps 64 --seconds 1",
    "falls --sim --schemes fulmar,udp --only both_1M_50k_1s_16kB_live",
    "throughput --sim --schemes min_rtt --seconds 1",
    "bulk-lossy --sim --schemes min_rtt --points lossy,two,requests,veth --cc reno --seconds 2",
    "flowcode-flight --sim --cc reno --laps 0.1",
    "flowcode-recorded --sim --cc reno --windows worst:1 --seconds 20 --schemes tcp_lrr",
    "failover --sim --schemes min_rtt --deaths 1",
    "lifetime --sim --schemes min_rtt --messages 20",
    "asran-instability --sim --seconds 5 --repetitions 1 --schemes udp,cubic",
    "asran-traffic --sim --seconds 5 --repetitions 1 --schemes udp,asran_jump --heavy-flows 2",
    "lrt-tcp --sim --schemes lrt --messages 20 --loss 0.1",
    "lrt-block --sim --schemes block_rlnc --messages 20",
];

/// Collects the paths of everything in a result.
fn collect(result: &Value, above: &str, paths: &mut BTreeSet<String>) {
    let Value::Object(fields) = result else { return };
    for (key, value) in fields {
        let path = format!("{above}{key}");
        if value.is_object() {
            collect(value, &format!("{path}."), paths);
        } else {
            paths.insert(path);
        }
    }
}

#[test]
fn results_have_the_figures_that_are_declared_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let links = folder.path().join("links.toml");
    std::fs::write(&links, LINKS).unwrap();
    for line in SMALLEST {
        let words: Vec<String> = line
            .split(' ')
            .map(|word| if word == "LINKS" { links.display().to_string() } else { word.to_owned() })
            .collect();
        let experiment = Experiment::parse(&words).unwrap();
        let (report, known) = (experiment.run().unwrap(), experiment.description());
        let mut paths = BTreeSet::new();
        report.results.iter().for_each(|result| collect(result, "", &mut paths));
        for figure in known.figures {
            let (path, is_there) = (figure.path(), paths.contains(&figure.path()));
            assert_eq!(
                is_there, !figure.is_of_emu,
                "{line}: {path} is declared; there are {paths:?}"
            );
        }
        let declared: BTreeSet<&str> = known
            .figures
            .iter()
            .chain(known.beside.iter().copied().flatten())
            .map(|one| one.key)
            .collect();
        for path in &paths {
            let key = path.rsplit('.').next().unwrap_or_default();
            assert!(declared.contains(key), "{line}: {path} is not declared");
        }
    }
}

#[test]
fn every_experiment_of_the_world_is_looked_at() {
    for known in &Experiment::ALL {
        let is_looked_at =
            SMALLEST.iter().any(|line| line.starts_with(&format!("{} ", known.experiment)));
        assert_eq!(is_looked_at, known.sim.iter().next().is_some(), "{}", known.experiment);
    }
}
