//! Texts of others that somebody is shown: what could move a terminal's cursor, colour it or turn
//! its text around is replaced.

use serde_json::Value;

/// Tells control characters, those of 8 bits too, ends of lines, and marks of the direction of
/// text.
pub fn steers_a_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces what could steer a terminal.
pub fn harmless(text: &str) -> String {
    text.replace(steers_a_terminal, "\u{fffd}")
}

/// Replaces it in every text of a value.
pub fn make_harmless(value: &mut Value) {
    match value {
        Value::String(text) => *text = harmless(text),
        Value::Array(items) => items.iter_mut().for_each(make_harmless),
        Value::Object(fields) => fields.values_mut().for_each(make_harmless),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
