//! Points in time as measurements write them: seconds, milliseconds, or ISO 8601.

/// More is milliseconds since 1970, not seconds: 10¹¹ s are in the year 5138.
const MILLIS_FROM: f64 = 1e11;

/// Reads a time as seconds: a number of seconds, or of milliseconds where it can be nothing else,
/// or a date and time of day. The second is true when it counts from 1970.
pub(super) fn seconds(text: &str) -> Option<(f64, bool)> {
    if let Ok(number) = text.parse::<f64>() {
        let is_absolute = number >= 1e9;
        let seconds = if number >= MILLIS_FROM { number / 1e3 } else { number };
        return (number.is_finite() && seconds.abs() < MILLIS_FROM)
            .then_some((seconds, is_absolute));
    }
    iso(text).map(|seconds| (seconds, true))
}

/// Reads `2023-05-13T14:22:42.693Z`: a blank may stand for the T, an offset such as +02:00 for the
/// Z, and without either it is UTC.
fn iso(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.split('-').map(whole);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let rest = rest.strip_prefix(['T', ' '])?.trim();
    let (time, offset) = match rest.find(['Z', '+', '-']) {
        Some(place) => (&rest[..place], offset_seconds(&rest[place..])?),
        None => (rest, 0),
    };
    let mut parts = time.splitn(3, ':');
    let (hour, minute) = (whole(parts.next()?)?, whole(parts.next()?)?);
    let second: f64 = parts.next().map_or(Some(0.0), |second| second.parse().ok())?;
    let is_sound = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && (0.0..61.0).contains(&second);
    let whole = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 - offset;
    is_sound.then_some(whole as f64 + second)
}

/// Reads `Z`, `+02:00`, `+0200` or `+02`.
fn offset_seconds(text: &str) -> Option<i64> {
    let sign = match text.chars().next()? {
        'Z' => return (text.len() == 1).then_some(0),
        '-' => -1,
        _ => 1,
    };
    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { 0 } else { whole(minutes)? };
    Some(sign * (whole(hours)? * 3_600 + minutes * 60))
}

/// Returns the days from 1 January 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
        - 719_468
}

fn whole(text: &str) -> Option<i64> {
    let is_plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_in_each_form() {
        assert_eq!(seconds("12.5"), Some((12.5, false)));
        assert_eq!(seconds("1683987762693"), Some((1_683_987_762.693, true)));
        assert_eq!(seconds("1683987762"), Some((1_683_987_762.0, true)));
        for text in [
            "2023-05-13T14:22:42Z",
            "2023-05-13 14:22:42",
            "2023-05-13T16:22:42+02:00",
            "2023-05-13T09:52:42-0430",
        ] {
            assert_eq!(seconds(text), Some((1_683_987_762.0, true)), "{text}");
        }
        assert_eq!(seconds("2000-02-29T00:00:00.25Z"), Some((951_782_400.25, true)));
        for text in
            ["", "noon", "2023-13-01T00:00:00Z", "2023-05-13", "NaN", "1e300", "ä023-05-13T1"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
