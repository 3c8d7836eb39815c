//! `[record]`: where flights are recorded, and how much of them is kept.

use std::path::PathBuf;
use std::time::Duration;

use record::store::Limits;
use toml_keys::Section;

/// A record needs room for its own index, and for the last that was flown.
const LEAST_MIB: u64 = 16;
const MOST_MIB: u64 = 1 << 20;
/// What is kept unless the file says otherwise: a day of flights at 200 control messages a second.
const USUAL_MIB: u64 = 1_024;
const USUAL_DAYS: u64 = 30;

/// How flights are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordConfig {
    pub(crate) directory: PathBuf,
    pub(crate) limits: Limits,
    /// Whether MAVLink goes beside it.
    pub(crate) mavlink: bool,
}

/// Reads `[record]`; without the section nothing is recorded.
pub(super) fn read(root: &Section<'_>) -> Option<RecordConfig> {
    let section = root.section("record")?;
    let directory = section.required_text("directory").map(PathBuf::from);
    if directory.as_ref().is_some_and(|directory| !directory.is_absolute()) {
        section.wrong("directory", "must be an absolute path: /var/lib/fulmar/records");
    }
    let mib = section.number("max_mib", LEAST_MIB..=MOST_MIB).unwrap_or(USUAL_MIB);
    let days = section.number("max_days", 1..=36_500).unwrap_or(USUAL_DAYS);
    let mavlink = section.flag("mavlink").unwrap_or(true);
    section.finish();
    let limits = Limits { bytes: mib << 20, age: Duration::from_secs(days * 86_400) };
    Some(RecordConfig { directory: directory?, limits, mavlink })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;
    use crate::config::tests::drone;

    fn read(text: &str) -> Result<Option<RecordConfig>, String> {
        let read = parse(&drone(text), Path::new("drone.toml"));
        read.map(|config| config.record).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_recorded_unless_the_file_says_where() {
        assert_eq!(read("").unwrap(), None);
        let usual = read("[record]\ndirectory = \"/r\"\n").unwrap().unwrap();
        assert_eq!((usual.limits.bytes, usual.mavlink), (1 << 30, true));
        let said = "[record]\ndirectory = \"/r\"\nmax_mib = 64\nmax_days = 2\nmavlink = false\n";
        let said = read(said).unwrap().unwrap();
        assert_eq!((said.limits.bytes, said.limits.age.as_secs()), (64 << 20, 2 * 86_400));
        for (text, what) in [
            ("[record]\n", "directory"),
            ("[record]\ndirectory = \"here\"\n", "must be an absolute path"),
            ("[record]\ndirectory = \"/r\"\nmax_mib = 1\n", "max_mib"),
            ("[record]\ndirectory = \"/r\"\nmax_mb = 64\n", "max_mb"),
        ] {
            assert!(read(text).unwrap_err().contains(what), "{text}");
        }
    }
}
