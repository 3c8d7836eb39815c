//! The logs of `trace record`, read line by line: hours of a flight are larger than one would hold
//! as text.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};

use super::frame::is_name;
use super::log::LOG_HEADER;

/// The most frames that are held, eight bytes each: of four transmitters and four receivers six
/// hours.
const FRAMES_MAX: usize = 1 << 25;
/// The most pairs of node and transmitter: those of 64 nodes.
const PAIRS_MAX: usize = 64 * 64;
/// The longest line: twice what a node writes.
const LINE_MAX: u64 = 256;
/// The longest slot, in ms, as of a slot matrix.
const SLOT_MS_MAX: f64 = 60_000.0;
/// Fields of a line.
const FIELDS: usize = 9;

/// What logs hold.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// How long slots are, in ns; 0 before the first line.
    pub(super) slot_ns: u64,
    pub(super) pairs: BTreeMap<Pair, Frames>,
    held: usize,
    /// What was left out.
    pub(super) notes: Vec<String>,
}

/// Who has written something down, and of whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) sender: String,
    pub(crate) node: String,
    /// Its own frames, as sent.
    pub(crate) sent: bool,
}

/// The frames of a pair.
#[derive(Debug)]
pub(crate) struct Frames {
    /// In the order of the file.
    pub(crate) slots: Vec<u64>,
    /// When the first and the last was written down, in seconds since 1970.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// How many have a position.
    pub(crate) placed: usize,
    /// The least time from a slot's beginning on its sender's clock until the frame was written
    /// down on ours.
    pub(crate) lag_s: f64,
}

/// Says whether a text is a log, by its first line that says something.
pub(crate) fn is_log(text: &str) -> bool {
    let telling = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
    text.lines().find(telling).is_some_and(|line| line.trim() == LOG_HEADER)
}

impl Heard {
    /// Adds a log. A last line that is cut short, as a node leaves it that lost its power, is left
    /// out.
    ///
    /// # Errors
    /// With file and line: what is wrong.
    pub(crate) fn read(&mut self, log: &mut dyn BufRead, file: &str) -> Result<(), String> {
        let mut bytes = Vec::new();
        for line in 1_u64.. {
            bytes.clear();
            let mut limited = (&mut *log).take(LINE_MAX + 1);
            limited.read_until(b'\n', &mut bytes).map_err(|error| format!("{file}: {error}"))?;
            if bytes.is_empty() {
                break;
            }
            // What was not on the disk when the power went is missing, or zeros.
            let is_cut = !bytes.ends_with(b"\n") && bytes.len() as u64 <= LINE_MAX;
            if is_cut || bytes.iter().all(|byte| matches!(byte, 0 | b'\n')) && bytes[0] == 0 {
                self.notes.push(format!("{file}:{line}: is cut short: left out"));
                break;
            }
            if bytes.len() as u64 > LINE_MAX {
                return Err(format!("{file}:{line}: is longer than {LINE_MAX} bytes"));
            }
            let wrong = |what: &str| format!("{file}:{line}: {what}");
            let text = std::str::from_utf8(&bytes).map_err(|_| wrong("is not text"))?.trim();
            if !text.is_empty() && !text.starts_with('#') && text != LOG_HEADER {
                self.line(text).map_err(|what| wrong(&what))?;
            }
        }
        Ok(())
    }

    /// Leaves out what a node has sent and heard.
    ///
    /// # Errors
    /// When there is no such node.
    pub(crate) fn leave_out(&mut self, name: &str) -> Result<(), String> {
        let before = self.pairs.len();
        self.pairs.retain(|pair, _| pair.sender != name && pair.node != name);
        if self.pairs.len() == before {
            return Err(format!("--without {name}: the logs know no such node"));
        }
        Ok(())
    }

    /// Returns how long slots are, in ms.
    pub(crate) fn slot_ms(&self) -> f64 {
        self.slot_ns as f64 / 1e6
    }

    /// Returns the frames of each pair.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&Pair, &Frames)> {
        self.pairs.iter()
    }

    /// Returns what was left out of the logs.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    fn line(&mut self, text: &str) -> Result<(), String> {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let Ok([time, event, node, sender, slot, length, place @ ..]) =
            <[&str; FIELDS]>::try_from(fields.as_slice())
        else {
            return Err(format!("has {} fields, not {FIELDS}: {LOG_HEADER}", fields.len()));
        };
        let time_s = number("time_s", time)?;
        let sent = match event {
            "sent" => true,
            "received" => false,
            other => return Err(wrong("event", other, "sent or received")),
        };
        let names = [("node", node), ("sender", sender)];
        if let Some((column, name)) = names.into_iter().find(|(_, name)| !is_name(name)) {
            return Err(wrong(column, name, "1 to 15 letters, digits, - or _"));
        }
        if sent != (node == sender) {
            return Err("a node sends in its own name, and hears others".to_owned());
        }
        let slot: u64 = slot.parse().map_err(|_| wrong("slot", slot, "a whole number"))?;
        self.check_length(length)?;
        let is_placed = place.iter().any(|field| !field.is_empty());
        if is_placed {
            for (column, field) in ["lat_deg", "lon_deg", "alt_m"].into_iter().zip(place) {
                number(column, field)?;
            }
        }
        self.add(
            Pair { sender: sender.to_owned(), node: node.to_owned(), sent },
            time_s,
            slot,
            is_placed,
        )
    }

    fn check_length(&mut self, field: &str) -> Result<(), String> {
        let ms = number("slot_ms", field)?;
        if !(ms > 0.0 && ms <= SLOT_MS_MAX) {
            return Err(wrong("slot_ms", field, "above 0 and at most 60000"));
        }
        let slot_ns = ((ms * 1e6).round() as u64).max(1);
        if self.slot_ns != 0 && self.slot_ns != slot_ns {
            let before = self.slot_ms();
            return Err(format!("slots last {ms} ms, and {before} ms in what was read before"));
        }
        self.slot_ns = slot_ns;
        Ok(())
    }

    fn add(&mut self, pair: Pair, time_s: f64, slot: u64, is_placed: bool) -> Result<(), String> {
        if self.held == FRAMES_MAX {
            return Err(format!("more than {FRAMES_MAX} frames: fewer logs, or shorter ones"));
        }
        if self.pairs.len() == PAIRS_MAX && !self.pairs.contains_key(&pair) {
            return Err(format!("more than {PAIRS_MAX} pairs of node and sender"));
        }
        self.held += 1;
        let lag_s = time_s - slot as f64 * (self.slot_ns as f64 / 1e9);
        let frames = self.pairs.entry(pair).or_insert(Frames {
            slots: Vec::new(),
            from_s: time_s,
            to_s: time_s,
            placed: 0,
            lag_s,
        });
        frames.slots.push(slot);
        frames.from_s = frames.from_s.min(time_s);
        frames.to_s = frames.to_s.max(time_s);
        frames.placed += usize::from(is_placed);
        frames.lag_s = frames.lag_s.min(lag_s);
        Ok(())
    }
}

fn wrong(column: &str, field: &str, must: &str) -> String {
    format!("column {column}: {field:?} is not {must}")
}

fn number(column: &str, field: &str) -> Result<f64, String> {
    let number = field.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| wrong(column, field, "a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Heard, String> {
        let mut heard = Heard::default();
        heard.read(&mut text.as_bytes(), "l").map(|()| heard)
    }

    fn slots(heard: &Heard) -> Vec<(&str, &str, &[u64])> {
        heard.pairs().map(|(pair, frames)| (&*pair.sender, &*pair.node, &*frames.slots)).collect()
    }

    #[test]
    fn a_log_reads_but_for_a_line_that_is_cut_or_zeros() {
        let lines = "1.5,sent,m1,m1,5,11.776,,,\n2.5,received,m1,m2,6,11.776,42.25,-71.5,31.50\n";
        let text = format!("# a note\n{LOG_HEADER}\n{lines}");
        assert!(is_log(&text) && !is_log(lines));
        let all: [(&str, &str, &[u64]); 2] = [("m1", "m1", &[5]), ("m2", "m1", &[6])];
        let heard = read(&text).unwrap();
        assert_eq!((slots(&heard), heard.slot_ns), (all.to_vec(), 11_776_000));
        assert_eq!(heard.pairs().map(|(_, frames)| frames.placed).sum::<usize>(), 1);
        let cut = read(&text[..text.len() - 3]).unwrap();
        assert_eq!(
            (slots(&cut), &cut.notes[..]),
            (all[..1].to_vec(), &["l:4: is cut short: left out".to_owned()][..])
        );
        let zeros = read(&(text + &"\0".repeat(4_096))).unwrap();
        assert_eq!((slots(&zeros), zeros.notes.len()), (all.to_vec(), 1));
    }

    #[test]
    fn mistakes_are_told_with_line_and_column() {
        let cases = [
            ("1,lost,r1,m1,5,11,,,", "l:2: column event: \"lost\" is not sent or received"),
            ("1,received,r1,m1,-5,11,,,", "l:2: column slot: \"-5\" is not a whole number"),
            (
                "1,received,r1,m1,5,0,,,",
                "l:2: column slot_ms: \"0\" is not above 0 and at most 60000",
            ),
            ("1,received,r/1,m1,5,11,,,", "l:2: column node: \"r/1\" is not 1 to 15 letters"),
            ("x,received,r1,m1,5,11,,,", "l:2: column time_s: \"x\" is not a number"),
            ("1,received,r1,m1,5,11,4,,", "l:2: column lon_deg: \"\" is not a number"),
            ("1,sent,r1,m1,5,11,,,", "l:2: a node sends in its own name, and hears others"),
            ("1,received,r1,m1,5,11", "l:2: has 6 fields, not 9: time_s,event"),
            (
                "1,received,r1,m1,5,11,,,\n1,sent,r1,r1,5,12,,,",
                "l:3: slots last 12 ms, and 11 ms in what",
            ),
        ];
        for (line, expected) in cases {
            let error = read(&format!("{LOG_HEADER}\n{line}\n")).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
        let long = format!("{LOG_HEADER}\n{}\n", "1".repeat(300));
        assert_eq!(read(&long).unwrap_err(), "l:2: is longer than 256 bytes");
    }
}
