//! How the value of a key is read: texts, numbers, choices, times and rates.

use core::ops::RangeInclusive;
use core::str::FromStr;

use toml::Spanned;
use toml::de::DeValue;
use units::{Duration, Instant, Rate};

use crate::section::{Found, shown};
use crate::{Scalar, Section, did_you_mean};

/// The longest time in a file, in seconds: about a century. Beyond it, times would come near the
/// end of what an instant can be.
const LONGEST_S: f64 = 3.2e9;

impl<'d> Section<'d> {
    /// Reads a text.
    pub fn text(&self, key: &str) -> Option<&'d str> {
        let found = self.find(key)?;
        let text = found.value.as_str();
        if text.is_none() {
            self.report_type(key, found, "a text in quotes");
        }
        text
    }

    /// Reads a text that must be there.
    pub fn required_text(&self, key: &str) -> Option<&'d str> {
        self.require(key).then(|| self.text(key)).flatten()
    }

    /// Reads a text that means a `T`; `expected` names it with an example.
    pub fn parsed<T: FromStr>(&self, key: &str, expected: &str) -> Option<T> {
        let found = self.find(key)?;
        let Some(text) = found.value.as_str() else {
            self.report_type(key, found, &format!("{expected}, in quotes"));
            return None;
        };
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.wrong(key, format!("{text:?} is not {expected}"));
        }
        parsed
    }

    /// Reads a text that means a `T` and must be there.
    pub fn required<T: FromStr>(&self, key: &str, expected: &str) -> Option<T> {
        self.require(key).then(|| self.parsed(key, expected)).flatten()
    }

    /// Reads a list of texts, each of which means a `T`; one text alone is a list of one.
    pub fn list<T: FromStr>(&self, key: &str, expected: &str) -> Vec<T> {
        let Some(found) = self.find(key) else { return Vec::new() };
        let texts: Vec<Option<&str>> = match found.value {
            DeValue::Array(items) => items.iter().map(|item| item.get_ref().as_str()).collect(),
            other => vec![other.as_str()],
        };
        let mut values = Vec::new();
        for text in texts {
            match text.map(|text| (text, text.parse())) {
                Some((_, Ok(value))) => values.push(value),
                Some((text, Err(_))) => {
                    let hint = list_hint(text);
                    self.wrong(key, format!("{text:?} is not {expected}{hint}"));
                }
                None => self.report_type(key, found, &format!("a list of texts: {expected}")),
            }
        }
        values
    }

    /// Returns whether a key holds this very text.
    pub fn is_text(&self, key: &str, text: &str) -> bool {
        self.find(key).is_some_and(|found| found.value.as_str() == Some(text))
    }

    /// Returns whether a key holds a list without anything in it.
    pub fn is_empty_list(&self, key: &str) -> bool {
        self.find(key).and_then(|found| found.value.as_array()).is_some_and(|list| list.is_empty())
    }

    /// Reads one of a few words.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let expected = if let [word] = &words[..] {
                word.clone()
            } else {
                format!("one of {}", words.join(", "))
            };
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let meant = did_you_mean(text, &words);
            self.wrong(key, format!("{text:?} is not {expected}{meant}"));
        }
        chosen.map(|&(_, value)| value)
    }

    /// Reads `true` or `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        let found = self.find(key)?;
        let flag = found.value.as_bool();
        if flag.is_none() {
            let is_quoted = matches!(found.value.as_str(), Some("true" | "false"));
            let hint = if is_quoted { ": write it alone, without quotes" } else { "" };
            self.report_type(key, found, &format!("true or false{hint}"));
        }
        flag
    }

    /// Reads a whole number.
    pub fn number(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number {}", whole_range(&range));
        self.whole_within(key, range, &expected)
    }

    /// Reads a whole number; `expected` names it, its range and why that is so.
    pub fn whole_within(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
        expected: &str,
    ) -> Option<u64> {
        let found = self.find(key)?;
        let number = whole_number(found.value).filter(|number| range.contains(number));
        if number.is_none() {
            self.report_number(key, found, expected);
        }
        number
    }

    /// Reads a list of whole numbers.
    pub fn numbers(&self, key: &str, range: RangeInclusive<u64>) -> Option<Vec<u64>> {
        let found = self.find(key)?;
        let numbers: Option<Vec<u64>> = found.value.as_array().and_then(|items| {
            let number = |item: &Spanned<DeValue<'_>>| {
                whole_number(item.get_ref()).filter(|number| range.contains(number))
            };
            items.iter().map(number).collect()
        });
        if numbers.is_none() {
            let expected = format!("a list of whole numbers {}", whole_range(&range));
            self.report_type(key, found, &expected);
        }
        numbers
    }

    /// Reads a list of 1 to `most` numbers, texts or flags.
    pub fn scalars(&self, key: &str, most: usize) -> Option<Vec<Scalar>> {
        let found = self.find(key)?;
        let Some(items) = found.value.as_array() else {
            self.report_type(key, found, "a list of values: [1, 2]");
            return None;
        };
        if !(1..=most).contains(&items.len()) {
            self.wrong(key, format!("has {} values, not 1 to {most}", items.len()));
            return None;
        }
        let mut scalars = Vec::new();
        for (place, item) in items.iter().map(Spanned::get_ref).enumerate() {
            match scalar(item) {
                Some(scalar) => scalars.push(scalar),
                None => {
                    let (number, value) = (place + 1, shown(item));
                    let what = format!("value {number}: {value} is no number, text or flag");
                    self.wrong(key, what);
                    return None;
                }
            }
        }
        Some(scalars)
    }

    /// Reads a finite number that may have a fraction; a range without an end ends at infinity.
    pub fn fraction(&self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let expected = match (*range.start(), *range.end()) {
            (f64::NEG_INFINITY, f64::INFINITY) => "a number".to_owned(),
            (from, f64::INFINITY) => format!("a number, {from} or more"),
            (from, to) => format!("a number from {from} to {to}"),
        };
        self.within(key, range, &expected)
    }

    /// Reads a finite number that may have a fraction; `expected` names it, its range and an
    /// example.
    pub fn within(&self, key: &str, range: RangeInclusive<f64>, expected: &str) -> Option<f64> {
        let found = self.find(key)?;
        let number = fraction(found.value).filter(|number| range.contains(number));
        if number.is_none() {
            self.report_number(key, found, expected);
        }
        number
    }

    /// Reads a probability.
    pub fn probability(&self, key: &str) -> Option<f64> {
        self.within(key, 0.0..=1.0, "a probability from 0 to 1")
    }

    /// Reads a list of at most `most` pairs of finite numbers that are not negative.
    pub fn pairs(&self, key: &str, most: usize) -> Option<Vec<(f64, f64)>> {
        let found = self.find(key)?;
        let pair = |item: &Spanned<DeValue<'_>>| {
            let mut numbers = item.get_ref().as_array()?.iter().map(|one| fraction(one.get_ref()));
            let (first, second) = (numbers.next()??, numbers.next()??);
            (numbers.next().is_none() && first >= 0.0 && second >= 0.0).then_some((first, second))
        };
        let items = found.value.as_array();
        if items.is_some_and(|items| items.len() > most) {
            self.wrong(key, format!("has more than {most} pairs"));
            return None;
        }
        let pairs = items.and_then(|items| items.iter().map(pair).collect());
        if pairs.is_none() {
            let expected = "a list of pairs such as [[0, 12], [8, 0.5]], none negative";
            self.report_type(key, found, expected);
        }
        pairs
    }

    /// Reads a time in milliseconds.
    pub fn millis(&self, key: &str) -> Option<Duration> {
        self.time(key, 1e6)
    }

    /// Reads a time in seconds.
    pub fn seconds(&self, key: &str) -> Option<Duration> {
        self.time(key, 1e9)
    }

    /// Reads a point in time, in seconds since the start.
    pub fn instant(&self, key: &str) -> Option<Instant> {
        Some(Instant::ZERO + self.seconds(key)?)
    }

    /// Reads a rate in Mbit/s that is not zero; `otherwise` says what to do in place of zero.
    pub fn mbps(&self, key: &str, otherwise: &str) -> Option<Rate> {
        let number = self.fraction(key, 0.0..=f64::INFINITY)?;
        let rate = Rate::from_bps((number * 1e6).round() as u64);
        if rate == Rate::ZERO {
            self.wrong(key, format!("must be more than 0; {otherwise}"));
            return None;
        }
        Some(rate)
    }

    fn time(&self, key: &str, nanos: f64) -> Option<Duration> {
        let nanos = self.fraction(key, 0.0..=f64::INFINITY)? * nanos;
        if nanos > LONGEST_S * 1e9 {
            self.wrong(key, "is longer than a century");
            return None;
        }
        Some(Duration::from_nanos(nanos.round() as u64))
    }

    /// Reports what is not the number that was `expected`.
    fn report_number(&self, key: &str, found: Found<'d>, expected: &str) {
        let is_quoted = found.value.as_str().is_some_and(begins_with_number);
        let hint = if is_quoted { ": write a number alone, without quotes or unit" } else { "" };
        self.report_type(key, found, &format!("{expected}{hint}"));
    }
}

/// Says how to write several texts that stand in one.
fn list_hint(text: &str) -> String {
    if !text.contains(',') {
        return String::new();
    }
    let quoted: Vec<String> = text.split(',').map(|one| format!("{:?}", one.trim())).collect();
    format!("; several make a list: [{}]", quoted.join(", "))
}

fn begins_with_number(text: &str) -> bool {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c));
    text[..end.unwrap_or(text.len())].parse::<f64>().is_ok()
}

fn scalar(value: &DeValue<'_>) -> Option<Scalar> {
    match value {
        DeValue::String(text) => Some(Scalar::Text(text.clone().into_owned())),
        DeValue::Boolean(flag) => Some(Scalar::Flag(*flag)),
        other => fraction(other).map(Scalar::Number),
    }
}

fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn whole_range(range: &RangeInclusive<u64>) -> String {
    match (range.start(), range.end()) {
        (from, &u64::MAX) => format!("from {from}"),
        (from, to) => format!("from {from} to {to}"),
    }
}

fn fraction(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}
