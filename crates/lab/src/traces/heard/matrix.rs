//! A slot matrix of the logs of several nodes.
//!
//! A transmitter's own log says in which slots it has sent: what others claim to have heard of it
//! beside these is not believed. Without that log everything that was heard of it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netem::{Duration, MATRIX_SLOTS_MAX, SlotMatrix, SlotRow, SlotTrace};

use super::reading::{Frames, Heard, Pair};

/// The most digits of a matrix, so that its file can be read again.
const DIGITS_MAX: usize = 60_000_000;
/// What a transmitter that lost its power may have sent after the last line of its log.
const UNWRITTEN_NS: u64 = 2_000_000_000;

/// A transmitter.
#[derive(Default)]
struct Sender {
    /// The slots in which it has sent, by its own log.
    sent: BTreeSet<u64>,
    /// The first and last slot that anybody has heard of it.
    heard: Option<(u64, u64)>,
}

/// Makes a matrix of logs: a row for each transmitter and each other node that kept a log. Returns
/// notes of what was left out and taken for granted as well.
///
/// # Errors
/// Logs that lie too far apart, no frame at all, more than a matrix holds.
pub(crate) fn matrix(heard: &Heard) -> Result<(SlotMatrix, Vec<String>), String> {
    let mut senders = senders(heard);
    let (from, length) = span(&senders)?;
    let mut notes = heard.notes.clone();
    notes.extend(strangers(heard, &mut senders, from, length));
    notes.extend(clocks(heard, &senders));
    let nodes: BTreeSet<&str> = heard.pairs.keys().map(|pair| pair.node.as_str()).collect();
    let mut rows: BTreeMap<(&str, &str), Vec<bool>> = BTreeMap::new();
    for &sender in senders.keys() {
        for &node in nodes.iter().filter(|node| **node != sender) {
            if (rows.len() + 1).saturating_mul(length) > DIGITS_MAX {
                return Err(format!("more than {DIGITS_MAX} digits: fewer logs, or shorter ones"));
            }
            rows.insert((sender, node), vec![false; length]);
        }
    }
    for (pair, frames) in heard.pairs.iter().filter(|(pair, _)| !pair.sent) {
        let key = (pair.sender.as_str(), pair.node.as_str());
        let (Some(row), Some(sender)) = (rows.get_mut(&key), senders.get(key.0)) else { continue };
        let mut doubted = 0_usize;
        for &slot in &frames.slots {
            let place = slot.checked_sub(from).and_then(|place| usize::try_from(place).ok());
            match place.and_then(|place| row.get_mut(place)) {
                Some(place) if sender.has_sent(slot, heard.slot_ns) => *place = true,
                _ => doubted += 1,
            }
        }
        if doubted > 0 {
            let (node, sender) = (&pair.node, &pair.sender);
            notes.push(format!(
                "{node} heard {doubted} frames of {sender} from slots in which nothing was sent: left out"
            ));
        }
    }
    notes.extend(silences(&senders, length));
    let row = |((from, to), received): ((&str, &str), Vec<bool>)| SlotRow {
        from: from.to_owned(),
        to: to.to_owned(),
        trace: Arc::new(SlotTrace::new(received)),
    };
    let rows: Vec<SlotRow> = rows.into_iter().map(row).collect();
    if rows.is_empty() {
        return Err("no node has heard another: logs of those that listen are missing".to_owned());
    }
    let placed: usize = heard.pairs.values().map(|frames| frames.placed).sum();
    if placed > 0 {
        notes.push(format!("a slot matrix has no places: {placed} positions are left out"));
    }
    Ok((SlotMatrix::new(Duration::from_nanos(heard.slot_ns), rows)?, notes))
}

impl Sender {
    fn has_sent(&self, slot: u64, slot_ns: u64) -> bool {
        let Some(&last) = self.sent.last() else { return true };
        let after = slot.saturating_sub(last).saturating_mul(slot_ns);
        self.sent.contains(&slot) || slot > last && after <= UNWRITTEN_NS
    }

    /// The first and last slot that counts.
    fn ends(&self) -> Option<(u64, u64)> {
        self.sent.first().copied().zip(self.sent.last().copied()).or(self.heard)
    }
}

fn senders(heard: &Heard) -> BTreeMap<&str, Sender> {
    let mut senders: BTreeMap<&str, Sender> = BTreeMap::new();
    for (pair, frames) in &heard.pairs {
        let sender = senders.entry(&pair.sender).or_default();
        if pair.sent {
            sender.sent.extend(&frames.slots);
            continue;
        }
        for &slot in &frames.slots {
            let (first, last) = sender.heard.unwrap_or((slot, slot));
            sender.heard = Some((first.min(slot), last.max(slot)));
        }
    }
    senders
}

/// Leaves out transmitters that anybody can have made up: by their own logs they sent nothing, or
/// they have none and nobody has heard them in the slots that count.
fn strangers(
    heard: &Heard,
    senders: &mut BTreeMap<&str, Sender>,
    from: u64,
    length: usize,
) -> Option<String> {
    let listeners: BTreeSet<&str> = heard.pairs.keys().map(|pair| &*pair.node).collect();
    let is_within = |slot: &u64| slot.checked_sub(from).is_some_and(|place| place < length as u64);
    let mut counts: BTreeSet<&str> = BTreeSet::new();
    for (pair, frames) in &heard.pairs {
        let is_likely = || !listeners.contains(&*pair.sender) && frames.slots.iter().any(is_within);
        if pair.sent || is_likely() {
            counts.insert(&pair.sender);
        }
    }
    let before = senders.len();
    senders.retain(|name, _| counts.contains(name));
    let out = before - senders.len();
    (out > 0).then(|| {
        format!(
            "{out} transmitters left out: they were heard only while no other one sent, or sent nothing by their own logs"
        )
    })
}

/// Returns the first slot and how many there are: from the first to the last that was sent, or
/// where nobody has noted that, heard.
fn span(senders: &BTreeMap<&str, Sender>) -> Result<(u64, usize), String> {
    let is_noted = senders.values().any(|sender| !sender.sent.is_empty());
    let counts = |sender: &&Sender| !is_noted || !sender.sent.is_empty();
    let ends = || senders.values().filter(counts).filter_map(Sender::ends);
    let first = ends().map(|(first, _)| first).min();
    let Some((first, last)) = first.zip(ends().map(|(_, last)| last).max()) else {
        return Err("the logs hold no frame".to_owned());
    };
    let length = usize::try_from(last - first).ok().filter(|length| *length < MATRIX_SLOTS_MAX);
    length.map(|length| (first, length + 1)).ok_or_else(|| {
        let of = |(name, sender): (&&str, &Sender)| {
            let (first, last) = sender.ends()?;
            Some(format!("{name} sent from slot {first} to {last}"))
        };
        let all: Vec<String> = senders.iter().filter_map(of).collect();
        format!(
            "a matrix has {MATRIX_SLOTS_MAX} slots at most, and {}: was a clock not set? --without NAME leaves a \
             node out",
            all.join(", ")
        )
    })
}

fn silences(senders: &BTreeMap<&str, Sender>, length: usize) -> Vec<String> {
    let silence = |(name, sender): (&&str, &Sender)| match sender.sent.len() {
        0 => Some(format!("{name} has no log: what it did not send is a 0 too")),
        sent if sent < length => {
            let idle = length - sent;
            Some(format!("{name} did not send in {idle} of {length} slots: a 0 each"))
        }
        _ => None,
    };
    senders.iter().filter_map(silence).collect()
}

/// Compares the clocks of transmitters as each node has heard them: of two that agree, frames of
/// one slot come within a slot.
fn clocks(heard: &Heard, senders: &BTreeMap<&str, Sender>) -> Option<String> {
    let slot_s = heard.slot_ns as f64 / 1e9;
    let mut nodes: BTreeMap<&str, Vec<(&Pair, &Frames)>> = BTreeMap::new();
    let counts = |pair: &Pair| !pair.sent && senders.contains_key(&*pair.sender);
    for (pair, frames) in heard.pairs.iter().filter(|(pair, _)| counts(pair)) {
        nodes.entry(&pair.node).or_default().push((pair, frames));
    }
    let spread = |(node, of): (&&str, &Vec<(&Pair, &Frames)>)| {
        let by_lag = |a: &&(&Pair, &Frames), b: &&(&Pair, &Frames)| a.1.lag_s.total_cmp(&b.1.lag_s);
        let (ahead, behind) = (of.iter().min_by(by_lag)?, of.iter().max_by(by_lag)?);
        let apart = behind.1.lag_s - ahead.1.lag_s;
        Some((apart, node.to_string(), ahead.0.sender.clone(), behind.0.sender.clone()))
    };
    let worst = nodes.iter().filter_map(spread).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (apart, node, ahead, behind) = worst;
    (apart > slot_s).then(|| {
        format!(
            "clocks disagree: by {node}'s ears {behind} lies {:.1} slots behind {ahead}, and what both sent at one \
             time is that far apart here",
            apart / slot_s
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::log::LOG_HEADER;
    use super::*;

    /// Sent, node, sender, slot.
    type Line = (bool, &'static str, &'static str, u64);

    fn heard(lines: &[Line]) -> Heard {
        let mut text = format!("{LOG_HEADER}\n");
        for (sent, node, sender, slot) in lines {
            let event = if *sent { "sent" } else { "received" };
            let time = *slot as f64 * 0.01 + 0.01;
            text += &format!("{time},{event},{node},{sender},{slot},10,,,\n");
        }
        let mut heard = Heard::default();
        heard.read(&mut text.as_bytes(), "l").unwrap();
        heard
    }

    fn sent(node: &'static str, slots: std::ops::Range<u64>) -> Vec<Line> {
        slots.map(|slot| (true, node, node, slot)).collect()
    }

    #[test]
    fn a_matrix_has_a_row_for_each_sender_and_each_other_node_with_a_log() {
        let mut lines = sent("m1", 10..14);
        lines.extend([(false, "r1", "m1", 11), (false, "r1", "m1", 13)]);
        lines.extend([(false, "r2", "m2", 12), (false, "r2", "m2", 12), (false, "r2", "m2", 9)]);
        let (matrix, notes) = matrix(&heard(&lines)).unwrap();
        let rows = ["m1 r1 0101", "m1 r2 0000", "m2 m1 0000", "m2 r1 0000", "m2 r2 0010"];
        assert_eq!(matrix.to_text(), format!("slot_ms 10\n{}\n", rows.join("\n")));
        let expected = [
            "r2 heard 1 frames of m2 from slots in which nothing was sent: left out",
            "m2 has no log: what it did not send is a 0 too",
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn what_nobody_has_sent_is_not_believed() {
        let mut lines = sent("m1", 10..14);
        lines.remove(2);
        // Forged: before all, in the gap, far behind. Not forged: what lay in the memory of a node
        // that lost its power.
        lines.extend([
            (false, "r1", "m1", 3),
            (false, "r1", "m1", 12),
            (false, "r1", "m1", 1 << 60),
        ]);
        lines.extend([(false, "r1", "m1", 13)]);
        let (matrix, notes) = matrix(&heard(&lines)).unwrap();
        assert_eq!(matrix.to_text(), "slot_ms 10\nm1 r1 0001\n");
        let expected = [
            "r1 heard 3 frames of m1 from slots in which nothing was sent: left out",
            "m1 did not send in 1 of 4 slots: a 0 each",
        ];
        assert_eq!(notes, expected);
        let mut lines = sent("m2", 10..20);
        lines.extend(sent("m1", 10..14));
        lines.extend([(false, "r1", "m1", 16)]);
        let (matrix, _) = super::matrix(&heard(&lines)).unwrap();
        let row = matrix.row("m1", "r1").unwrap().slots().to_vec();
        assert_eq!(row.iter().position(|slot| *slot), Some(6));
    }

    #[test]
    fn transmitters_that_were_made_up_are_counted_and_have_no_rows() {
        let mut lines = sent("m1", 10..14);
        lines.extend([(false, "r1", "m1", 11), (false, "r1", "m2", 12)]);
        lines.extend([(false, "r1", "x1", 1 << 60), (false, "r1", "x2", 2)]);
        // A node that only listened.
        lines.extend([(false, "m1", "r1", 12)]);
        let (matrix, notes) = matrix(&heard(&lines)).unwrap();
        assert_eq!(matrix.names(), ["m1", "r1", "m2"]);
        let expected = [
            "3 transmitters left out: they were heard only while no other one sent, or sent nothing by their own logs",
            "m2 has no log: what it did not send is a 0 too",
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn logs_that_do_not_fit_together_make_no_matrix() {
        let mut far = heard(&[(false, "r1", "m1", 0), (false, "r1", "m2", 1 << 40)]);
        let error = matrix(&far).unwrap_err();
        assert!(
            error.contains("m1 sent from slot 0 to 0, m2 sent from slot 1099511627776"),
            "{error}"
        );
        far.leave_out("m2").unwrap();
        assert_eq!(matrix(&far).unwrap().0.to_text(), "slot_ms 10\nm1 r1 1\n");
        assert_eq!(far.leave_out("m9").unwrap_err(), "--without m9: the logs know no such node");
        assert_eq!(matrix(&Heard::default()).unwrap_err(), "the logs hold no frame");
        let alone = matrix(&heard(&sent("m1", 1..3))).unwrap_err();
        assert!(alone.starts_with("no node has heard another"), "{alone}");
    }

    #[test]
    fn clocks_that_disagree_are_told_by_the_ears_that_hear_both() {
        let header = format!("{LOG_HEADER}\n");
        let line = |time: f64, sender, slot| format!("{time},received,r1,{sender},{slot},10,,,\n");
        let mut log = Heard::default();
        let text =
            header + &line(1.02, "m1", 100) + &line(1.03, "m2", 104) + &line(1.04, "m1", 102);
        log.read(&mut text.as_bytes(), "l").unwrap();
        let (_, notes) = matrix(&log).unwrap();
        assert!(
            notes[0].starts_with("clocks disagree: by r1's ears m1 lies 3.0 slots behind m2"),
            "{notes:?}"
        );
    }
}
