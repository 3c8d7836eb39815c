//! The table of docs/mavlink.md is what the selector does.

use proto::select::{
    Direction, Policy, Selector, SelectorConfig, Version, encode_frame, message_definition,
    message_id,
};

use crate::text;

/// Returns the policy that a message gets by default.
fn policy(id: u32) -> Option<Policy> {
    let mut selector = Selector::new(&SelectorConfig::default(), Direction::ToVehicle);
    let frame = encode_frame(Version::V2, 0, (1, 1), id, &[7; 40]).expect("a known message");
    selector.select_frames(1, &frame).next().map(|selected| selected.policy)
}

#[test]
fn table_of_messages_is_what_the_selector_does() {
    let document = text("docs/mavlink.md");
    let mut told = Vec::new();
    for row in document.lines().filter(|line| line.starts_with("| ")) {
        let mut cells = row.split(" | ");
        let (names, policy_name) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
        let Some(expected) = Policy::from_name(policy_name.trim_matches('`')) else { continue };
        let words =
            names.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
        for id in words.filter_map(message_id) {
            assert_eq!(policy(id), Some(expected), "{row}");
            told.push(id);
        }
    }
    assert!(told.len() > 60, "the table was found: {told:?}");
    for id in (0..1 << 16).filter(|id| message_definition(*id).is_some()) {
        let is_telemetry = policy(id).is_none_or(|policy| policy == Policy::TELEMETRY);
        assert!(is_telemetry || told.contains(&id), "{id} is not in the table");
    }
}
