//! What to write instead of a line that is no TOML: a parser says what it expected, not what
//! somebody meant.

/// Returns the key of a line that cannot be read, and how it was meant, as the end of a mistake;
/// both empty where nothing is known.
pub(crate) fn of_line(text: &str, line: usize) -> (String, String) {
    let at = line.checked_sub(1).and_then(|at| text.lines().nth(at)).unwrap_or_default().trim();
    if let Some(hint) = of_heading(text, at) {
        return (String::new(), hint);
    }
    let Some((key, value)) = at.split_once(['=', ':']).filter(|(key, _)| is_key(key.trim())) else {
        return Default::default();
    };
    let is_colon = at[key.len()..].starts_with(':');
    let (key, value) = (key.trim(), value.trim());
    let earlier = |other: &str| other.split_once('=').is_some_and(|(other, _)| other.trim() == key);
    let in_section = text.lines().take(line.saturating_sub(1)).enumerate();
    let section = in_section.clone().filter(|(_, other)| other.trim().starts_with('[')).last();
    let from = section.map_or(0, |(at, _)| at);
    let twice = in_section.filter(|(at, other)| *at >= from && earlier(other)).last();
    let hint = match twice {
        Some((first, _)) => format!("; it stands in line {} already: leave one out", first + 1),
        None if is_colon && is_quoted(value) => format!("; write {key} = {value}"),
        None => meant(value).map_or(String::new(), |value| format!("; write {key} = {value}")),
    };
    (key.to_owned(), hint)
}

/// Returns a value as it was meant; none where it is written right.
fn meant(value: &str) -> Option<String> {
    let value = value.split(" #").next().unwrap_or_default().trim();
    match value.to_ascii_lowercase().as_str() {
        "" => return Some("and a value".into()),
        "yes" | "on" | "true" => return Some("true".into()),
        "no" | "off" | "false" => return Some("false".into()),
        twice if twice.starts_with('=') => return None,
        _ => {}
    }
    let digits =
        value.trim_end_matches(|letter: char| letter.is_alphabetic() || "%/ ".contains(letter));
    if value.starts_with(|letter: char| letter.is_ascii_digit()) && digits.parse::<f64>().is_ok() {
        return Some(format!("{digits}, without a unit"));
    }
    let is_quote = |letter: char| "\"'`“”„«»‘’".contains(letter);
    let bare = value.trim_matches(is_quote);
    let is_list = value.starts_with('[') || value.starts_with('{');
    (!is_list && !bare.contains(is_quote)).then(|| format!("\"{bare}\", in straight quotes"))
}

fn is_quoted(value: &str) -> bool {
    value.len() > 1 && value.starts_with('"') && value.ends_with('"')
}

fn is_key(key: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    !key.is_empty() && key.chars().all(is_plain)
}

/// Says how to head a section where the file does so both ways, `[stream]` and `[[stream]]`.
fn of_heading(text: &str, at: &str) -> Option<String> {
    let head = |line: &str| {
        let line = line.split('#').next().unwrap_or_default().trim();
        Some(line.strip_prefix('[')?.strip_suffix(']')?.to_owned())
    };
    let at = head(at)?;
    let bare = at.trim_matches(['[', ']']).to_owned();
    let other = if at == bare { format!("[{bare}]") } else { bare.clone() };
    let is_other = |line: &str| head(line).as_ref() == Some(&other);
    let both = text.lines().any(is_other);
    both.then(|| {
        format!("; [{bare}] and [[{bare}]] exclude each other: [[{bare}]] heads each of several")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_said_with_its_key() {
        let hint = |line: &str| of_line(line, 1);
        let said = |key: &str, hint: &str| (key.to_owned(), hint.to_owned());
        assert_eq!(hint("a = yes"), said("a", "; write a = true"));
        assert_eq!(hint("role: \"drone\""), said("role", "; write role = \"drone\""));
        assert_eq!(
            hint("a = “wlan0” # why"),
            said("a", "; write a = \"wlan0\", in straight quotes")
        );
        assert_eq!(hint("baud = 57600bd"), said("baud", "; write baud = 57600, without a unit"));
        assert_eq!(hint("t = 99.9 %"), said("t", "; write t = 99.9, without a unit"));
        assert_eq!(hint("a ="), said("a", "; write a = and a value"));
        assert_eq!(hint("a = [1, 2"), said("a", ""));
        assert_eq!(hint("what is this"), said("", ""));
        let twice = "[s]\na = 1\n[t]\na = 1\nb = 2\na = 3\n";
        assert_eq!(of_line(twice, 6).1, "; it stands in line 4 already: leave one out");
    }
}
