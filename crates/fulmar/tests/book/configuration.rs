//! Every configuration that a text shows is valid: whole files as they stand, parts of one in the
//! smallest file around them.

use crate::blocks::{Block, blocks, documents};
use crate::{PUBLIC_KEY, fulmar, with_keys};

/// Completes a part of a file: role and key before it, the other end and a way to it after it,
/// where it has none.
fn completed(block: &Block) -> String {
    if block.role().is_some() {
        return with_keys(&block.body);
    }
    let role = match block.mark.as_str() {
        "" => {
            panic!("{}: say whose part of a file it is: toml,drone or toml,station", block.place())
        }
        role => role,
    };
    let has = |section: &str| block.body.lines().any(|line| line.trim() == section);
    let mut file = format!("role = \"{role}\"\nprivate_key_file = \"private.key\"\n{}", block.body);
    if !has("[[peer]]") {
        file += &peers(block);
    }
    if role == "drone" && !has("[[path]]") {
        file += "\n[[path]]\ninterface = \"wlan0\"\nremote = \"203.0.113.5:14700\"\n";
    }
    if role == "station" && !has("[[listen]]") {
        file += "\n[[listen]]\naddress = \"0.0.0.0:14700\"\n";
    }
    with_keys(&file)
}

/// Returns a section for each peer that a part names, or for one; each has a key of its own.
fn peers(block: &Block) -> String {
    let named = block.body.lines().filter_map(|line| line.strip_prefix("peer = \""));
    let mut names: Vec<&str> = named.filter_map(|rest| rest.split('"').next()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        names.push("other");
    }
    let section = |(number, name): (usize, &&str)| {
        let letter = char::from(b'a' + number as u8);
        let key = PUBLIC_KEY.replacen('x', &letter.to_string(), 1);
        format!("\n[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\n")
    };
    names.iter().enumerate().map(section).collect()
}

#[test]
fn every_configuration_of_the_book_is_valid() {
    let directory = tempfile::tempdir().unwrap();
    for key in ["private.key", "preshared.key", "relay.key"] {
        let made = fulmar(&["keygen", "--out", key], directory.path());
        assert!(made.status.success(), "{made:?}");
    }
    let (mut whole, mut parts, mut wrong) = (0, 0, String::new());
    let blocks = documents().into_iter().flat_map(|document| blocks(&document));
    for block in blocks.filter(Block::is_configuration) {
        std::fs::write(directory.path().join("fulmar.toml"), completed(&block)).unwrap();
        let checked = fulmar(&["check", "fulmar.toml"], directory.path());
        let told = String::from_utf8_lossy(&checked.stderr);
        if !checked.status.success() {
            wrong += &format!("{}: {told}\n{}\n", block.place(), completed(&block));
        }
        *if block.role().is_some() { &mut whole } else { &mut parts } += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(whole >= 2 && parts >= 2, "{whole} files, {parts} parts");
    println!("{whole} files and {parts} parts of files are valid");
}
