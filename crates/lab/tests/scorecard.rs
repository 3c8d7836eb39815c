//! The committed scorecard is that of this code.
//!
//! A part of it, which takes some seconds of virtual flights, with its first seed. A figure that is
//! another than the file's fails: a change of the engine shows what it does in the difference of
//! experiments/scorecard.toml. docs/scorecard.md says how it is read.
#![allow(clippy::unwrap_used, reason = "the panic of a test is its message")]

use std::process::Command;

/// Scenes that are cheap, and each of which something else would move.
const SCENES: &str = "thin,crowded,blackout,failover,lossy,live,jumps,reordering,backup,falls,falls-live,messages,messages-bursts,messages-turns,relays";

#[test]
fn committed_card_is_that_of_this_code() {
    let card = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/scorecard.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    command.args(["scorecard", "--exact", "--against", card, "--seeds", "1", "--scenes", SCENES]);
    let output = command.output().unwrap();
    let [moved, told] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(
        output.status.success(),
        "experiments/scorecard.toml is of other code. Where the figures below are as they should be, `make scorecard` makes it \
         anew, and it is committed with the change.\n{moved}\n{told}"
    );
}
