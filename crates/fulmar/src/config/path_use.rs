//! What a drone's file says of the use of its links: `cost`, `backup` and `carries` of a
//! `[[path]]`.

use std::str::FromStr;

use proto::select::Tier;
use proto::{Carries, Cost, PathUse};
use toml_keys::Section;

use super::peers::ReadPeer;

const CARRIES: &str =
    "one of \"control\", \"telemetry\", \"message\", \"bulk\" (video, ssh and the like are bulk)";

/// The word of a tier in `carries`.
struct Word(Tier);

impl FromStr for Word {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Carries::TIERS.into_iter().find(|tier| word(*tier) == text).map(Self).ok_or(())
    }
}

/// Returns the word of a tier.
pub(crate) fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Control => "control",
        Tier::Telemetry => "telemetry",
        Tier::Message => "message",
        Tier::Bulk => "bulk",
    }
}

/// Reads how a path is to be used.
pub(super) fn read(section: &Section<'_>) -> PathUse {
    let cost = section.fraction("cost", Cost::LEAST..=Cost::MOST).and_then(Cost::new);
    let backup = section.flag("backup").unwrap_or(false);
    let words: Vec<Word> = section.list("carries", CARRIES);
    if section.is_empty_list("carries") {
        let what = "names nothing, so nothing would go there: leave the key out, or the path";
        section.wrong("carries", what);
    }
    let carries = Carries::new(words.into_iter().map(|Word(tier)| tier));
    PathUse { cost: cost.unwrap_or_default(), backup, carries: carries.unwrap_or_default() }
}

/// Checks the paths of each peer together, given their sections with the places of their peers.
pub(super) fn check(
    paths: &[(Section<'_>, Option<usize>, PathUse)],
    peers: &[ReadPeer],
    warnings: &mut Vec<String>,
) {
    for (place, (peer, _)) in peers.iter().enumerate() {
        let own = paths.iter().filter(|(_, peer, _)| *peer == Some(place));
        let own: Vec<_> = own.map(|(section, _, usage)| (section, usage)).collect();
        let Some((last, _)) = own.last() else { continue };
        let name = &peer.name;
        if own.iter().all(|(_, usage)| usage.backup) {
            let what = format!(
                "every path to \"{name}\" is a backup: leave it out where traffic goes as a rule"
            );
            last.wrong("backup", what);
        }
        for tier in Carries::TIERS {
            let carry = |(_, usage): &(_, &PathUse)| usage.carries.has(tier);
            let word = word(tier);
            let carrying: Vec<_> = own.iter().filter(|path| carry(path)).collect();
            let backups_alone = carrying.iter().all(|(_, usage)| usage.backup);
            match !carrying.is_empty() {
                true if backups_alone && tier == Tier::Control => warnings.push(format!(
                    "a backup alone carries {word} to \"{name}\": all of it goes there always; put \"{word}\" \
                     into the list of another path as well"
                )),
                true => {}
                false if tier == Tier::Control => {
                    let what = format!(
                        "no path to \"{name}\" carries control: put \"{word}\" into the list of one"
                    );
                    last.wrong("carries", what);
                }
                false => warnings.push(format!(
                    "no path to \"{name}\" carries {word}: what is handed in of that waits for one, and is \
                     dropped"
                )),
            }
        }
    }
}
