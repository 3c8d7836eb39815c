//! What must hold of every trace, whatever the machine did meanwhile [ASRAN alg. 1].

use fulmar_tcp_asran::{Flavour, Phase, Record, Step};

const CWR: u32 = 2;
const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

/// How often each case was met.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Recoveries that ended as those of the base algorithm do.
    pub(crate) as_the_base: u32,
    /// Recoveries after which slow start was back at the recalculated threshold.
    pub(crate) restored: u32,
    /// Recoveries that left a window above the base algorithm's.
    pub(crate) jumped: u32,
    /// Timeouts, each handled as the base algorithm does.
    pub(crate) timeouts: u32,
    /// Reductions that the kernel took back.
    pub(crate) undone: u32,
}

/// Checks a connection's records from its beginning on. A connection that `is_busy` always has
/// something to send, so that the kernel never shrinks its window for idleness.
pub(crate) fn check(flavour: Flavour, records: &[Record], is_busy: bool) -> Seen {
    let mut seen = Seen::default();
    let mut last_max = 0;
    for (at, record) in records.iter().enumerate() {
        let Step::Reduction(original) = record.step else { continue };
        let loss = Loss { flavour, is_busy, original, cwnd: record.cwnd, last_max };
        let memory = record.memory;
        loss.check_base();
        assert_eq!(memory.last_max_cwnd, loss.cwnd, "{record:?}");
        assert_eq!(memory.recalculated_ssthresh, loss.recalculated(), "{record:?}");
        if last_max == 0 {
            assert_eq!(loss.recalculated(), original, "the first loss is the base algorithm's");
        }
        loss.follow(&records[at + 1..], &mut seen);
        // The kernel may find a recovery needless long after its end (D-SACK).
        let mut rest = records[at + 1..].iter().map(|record| record.step);
        let next = rest.find(|step| matches!(step, Step::Undo | Step::Reduction(_)));
        if next == Some(Step::Undo) {
            seen.undone += 1;
        } else {
            last_max = loss.cwnd;
        }
    }
    seen
}

/// A loss, and the window before the loss before it.
struct Loss {
    flavour: Flavour,
    is_busy: bool,
    original: u32,
    cwnd: u32,
    last_max: u32,
}

impl Loss {
    fn recalculated(&self) -> u32 {
        self.original.max(self.last_max)
    }

    fn check_base(&self) {
        let expected = match self.flavour {
            Flavour::Asran => self.cwnd / 2,
            _ => self.cwnd * 717 / 1_024,
        };
        assert_eq!(self.original, expected.max(2), "of {}", self.cwnd);
    }

    /// Follows what the loss led to.
    fn follow(&self, after: &[Record], seen: &mut Seen) {
        for (at, record) in after.iter().enumerate() {
            match record.step {
                Step::Undo => {
                    assert_eq!(record.memory.last_max_cwnd, self.last_max, "{record:?}");
                    return;
                }
                Step::Recovered => return self.follow_recovery(record, &after[at + 1..], seen),
                Step::State(LOSS) | Step::Timeout => {
                    seen.timeouts += u32::from(record.step == Step::Timeout);
                    return self.follow_timeout(&after[at..]);
                }
                // ECN, or a loss that a tail loss probe has mended: the base algorithm handles it
                // alone.
                Step::State(CWR) => {
                    assert_eq!(record.memory.phase, Phase::Steady, "{record:?}");
                    seen.as_the_base += 1;
                    return;
                }
                Step::State(RECOVERY) => assert_eq!(record.memory.phase, Phase::Pending),
                Step::Reduction(_) => panic!("a loss without an end before {record:?}"),
                _ => {}
            }
        }
    }

    /// The kernel has set cwnd = ssthresh just before it says that the recovery is over.
    fn follow_recovery(&self, end: &Record, after: &[Record], seen: &mut Seen) {
        if self.flavour == Flavour::AsranJump {
            // HyStart may take the recovery for a slow start, and lower what the hook has returned.
            assert!(end.cwnd <= self.recalculated() && end.cwnd == end.ssthresh, "{end:?}");
            seen.jumped += u32::from(end.cwnd > self.original);
            seen.as_the_base += u32::from(end.cwnd == self.original);
            return;
        }
        assert_eq!(end.ssthresh, self.recalculated(), "{end:?}");
        assert!(end.cwnd <= self.original, "reduced first: {end:?}");
        // Over CUBIC, HyStart may have lowered it further: the base algorithm does so too.
        assert!(end.cwnd == self.original || self.flavour != Flavour::Asran, "{end:?}");
        if self.recalculated() == self.original {
            seen.as_the_base += 1;
        }
        let mut before = end.cwnd;
        for record in after {
            let Step::Ack(packets) = record.step else {
                if matches!(record.step, Step::State(0 | 1)) {
                    continue;
                }
                return;
            };
            self.check_growth(before, packets, record);
            if before < self.recalculated() && record.cwnd >= self.recalculated() {
                seen.restored += 1;
            }
            before = record.cwnd;
        }
    }

    /// Slow start below the recalculated threshold, congestion avoidance of the base above it. A
    /// window that is not used up does not grow.
    fn check_growth(&self, before: u32, packets: u32, record: &Record) {
        let target = self.recalculated();
        let above = packets.saturating_sub(target.saturating_sub(before));
        // NewReno: a packet for each window of ACKs. CUBIC: at most one for two ACKs.
        let avoidance = match self.flavour {
            Flavour::Asran => above / before.max(target) + 1,
            _ => above / 2 + 1,
        };
        let most = if before < target { (before + packets).min(target) } else { before };
        let most = if above > 0 { most + avoidance } else { most };
        assert!(record.cwnd <= most, "from {before} beyond {most}: {record:?}");
        if before < target {
            assert_eq!(record.ssthresh, target, "slow start must last: {record:?}");
            let least = (before + packets).min(target);
            let grows = record.cwnd >= least || record.cwnd == before;
            assert!(grows || !self.is_busy, "not slow start: {record:?}");
        }
    }

    /// Until the next reduction the threshold is the base algorithm's, and nothing is restored.
    fn follow_timeout(&self, after: &[Record]) {
        for record in after {
            if matches!(record.step, Step::Reduction(_) | Step::Recovered | Step::Undo) {
                return;
            }
            assert_eq!(record.memory.phase, Phase::Steady, "{record:?}");
            // CUBIC's HyStart may lower it, once.
            assert!(record.ssthresh <= self.original, "{record:?}");
        }
    }
}
