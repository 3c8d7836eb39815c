//! ASRAN over CUBIC: a loss before the window has outgrown that of the previous loss does not cost
//! it for long [ASRAN alg. 1].
//!
//! ```text
//! loss:       recalculated = max(CUBIC's threshold, last_max_cwnd);  last_max_cwnd = cwnd
//! restoring:  ssthresh = CUBIC's threshold in recovery, the recalculated one after it
//! jumping:    ssthresh = the recalculated one at once, so that PRR ends there
//! timeout, a tail mended by a probe: CUBIC's threshold
//! undone:     last_max_cwnd is again what it was
//! ```
//! It does what `crates/tcp-asran/bpf/asran.bpf.c` does in the kernel as `asran_cubic` and as
//! `asran_jump`; deviations from the paper are those of that file.

use units::{Duration, Instant};

use super::congestion::{CongestionControl, Moment, Window};
use super::cubic::Cubic;

/// When the recalculated threshold comes into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// After the recovery: the window falls, and slow-starts back.
    Restoring,
    /// During it: the window jumps back.
    Jumping,
}

/// What the last loss has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Steady,
    /// The threshold was asked for, and the recovery is not over.
    Pending,
    /// In the slow start that ASRAN asked for.
    Restored,
}

/// What ASRAN remembers of one connection, in segments.
#[derive(Debug)]
pub(super) struct Asran {
    form: Form,
    cubic: Cubic,
    phase: Phase,
    /// The window before the last loss, and before the one before it; zero before the first.
    last_max: u32,
    earlier_max: u32,
    /// The thresholds of the last loss: CUBIC's, and ASRAN's.
    original: u32,
    recalculated: u32,
}

impl Asran {
    /// Begins a connection.
    pub(super) fn new(now: Instant, form: Form) -> Self {
        Self {
            form,
            cubic: Cubic::new(now),
            phase: Phase::Steady,
            last_max: 0,
            earlier_max: 0,
            original: 0,
            recalculated: 0,
        }
    }

    /// Leaves a reduction that is not for a loss found in time to CUBIC.
    fn take_back(&mut self, window: &mut Window) {
        if self.form == Form::Jumping && self.phase == Phase::Pending {
            window.ssthresh = self.original;
        }
        self.phase = Phase::Steady;
    }
}

impl CongestionControl for Asran {
    fn on_acked(&mut self, now: Instant, window: &mut Window, acked: u32) {
        self.cubic.on_acked(now, window, acked);
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        self.original = self.cubic.ssthresh(window);
        self.recalculated = self.original.max(self.last_max);
        (self.earlier_max, self.last_max) = (self.last_max, window.cwnd);
        self.phase = Phase::Pending;
        match self.form {
            Form::Restoring => self.original,
            Form::Jumping => self.recalculated,
        }
    }

    /// HyStart looks for an unknown capacity: it does not end a slow start up to a window that the
    /// path has carried.
    fn on_round_trip(&mut self, moment: Moment, window: &mut Window, rtt: Duration) {
        let ssthresh = window.ssthresh;
        self.cubic.on_round_trip(moment, window, rtt);
        if self.phase == Phase::Restored && window.cwnd < self.recalculated {
            window.ssthresh = ssthresh;
        }
    }

    fn on_timeout(&mut self, moment: Moment, window: &mut Window) {
        self.cubic.on_timeout(moment, window);
        self.take_back(window);
    }

    fn on_mended(&mut self, window: &mut Window) {
        self.take_back(window);
    }

    fn on_recovered(&mut self, window: &mut Window) {
        let is_higher = self.recalculated > window.ssthresh;
        let restores = self.phase == Phase::Pending && self.form == Form::Restoring && is_higher;
        if restores {
            window.ssthresh = self.recalculated;
        }
        self.phase = if restores { Phase::Restored } else { Phase::Steady };
    }

    fn on_undone(&mut self) {
        self.last_max = self.earlier_max;
        self.phase = Phase::Steady;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asran(form: Form) -> (Asran, Window) {
        (Asran::new(Instant::ZERO, form), Window { cwnd: 100, ..Window::default() })
    }

    /// Loses a segment at a window; returns the threshold of the recovery and the one after it.
    fn lose(asran: &mut Asran, window: &mut Window, cwnd: u32) -> (u32, u32) {
        window.cwnd = cwnd;
        window.ssthresh = asran.ssthresh(window);
        let in_recovery = window.ssthresh;
        window.cwnd = in_recovery;
        asran.on_recovered(window);
        (in_recovery, window.ssthresh)
    }

    fn moment() -> Moment {
        Moment { now: Instant::from_millis(500), una: 1_000, next: 1_100 }
    }

    #[test]
    fn the_window_before_the_previous_loss_is_the_threshold_after_the_recovery() {
        let (mut asran, mut window) = asran(Form::Restoring);
        assert_eq!(lose(&mut asran, &mut window, 100), (70, 70), "the first finds nothing");
        assert_eq!(lose(&mut asran, &mut window, 80), (56, 100));
        assert_eq!(lose(&mut asran, &mut window, 60), (42, 80));
        assert_eq!(lose(&mut asran, &mut window, 200), (140, 140), "it has outgrown 60");
    }

    #[test]
    fn the_jumping_form_has_it_in_the_recovery() {
        let (mut asran, mut window) = asran(Form::Jumping);
        assert_eq!(lose(&mut asran, &mut window, 100), (70, 70));
        assert_eq!(lose(&mut asran, &mut window, 80), (100, 100));
        assert_eq!(lose(&mut asran, &mut window, 200), (140, 140));
    }

    #[test]
    fn timeouts_and_tails_mended_by_a_probe_have_cubics_threshold_and_count_as_losses() {
        for form in [Form::Restoring, Form::Jumping] {
            for by_timeout in [true, false] {
                let (mut asran, mut window) = asran(form);
                lose(&mut asran, &mut window, 100);
                window.cwnd = 80;
                window.ssthresh = asran.ssthresh(&window);
                if by_timeout {
                    asran.on_timeout(moment(), &mut window);
                } else {
                    asran.on_mended(&mut window);
                }
                assert_eq!(window.ssthresh, 56, "{form:?}");
                asran.on_recovered(&mut window);
                assert_eq!(window.ssthresh, 56, "{form:?}");
                assert_eq!(lose(&mut asran, &mut window, 50).1, 80, "{form:?}");
            }
        }
    }

    #[test]
    fn what_is_undone_is_no_loss() {
        for form in [Form::Restoring, Form::Jumping] {
            let (mut asran, mut window) = asran(form);
            lose(&mut asran, &mut window, 100);
            window.cwnd = 80;
            window.ssthresh = asran.ssthresh(&window);
            asran.on_undone();
            asran.on_recovered(&mut window);
            assert_eq!(lose(&mut asran, &mut window, 90).1, 100, "{form:?}");
        }
    }

    #[test]
    fn hystart_ends_a_first_slow_start_and_not_a_restoration() {
        let rise = |asran: &mut Asran, window: &mut Window| {
            let moment = |at: u64| Moment { now: Instant::from_millis(at), una: at, next: at + 50 };
            for (at, rtt) in (10..30).map(|at| (at, 100)).chain((5_000..5_020).map(|at| (at, 150)))
            {
                asran.on_round_trip(moment(at), window, Duration::from_millis(rtt));
            }
        };
        let (mut fresh, mut window) = asran(Form::Restoring);
        rise(&mut fresh, &mut window);
        assert_eq!(window.ssthresh, 100);
        let (mut restored, mut window) = asran(Form::Restoring);
        lose(&mut restored, &mut window, 200);
        lose(&mut restored, &mut window, 100);
        assert_eq!((window.cwnd, window.ssthresh), (70, 200));
        rise(&mut restored, &mut window);
        assert_eq!(window.ssthresh, 200);
        let (mut jumped, mut window) = asran(Form::Jumping);
        lose(&mut jumped, &mut window, 200);
        lose(&mut jumped, &mut window, 100);
        window.cwnd = 150;
        rise(&mut jumped, &mut window);
        assert_eq!(window.ssthresh, 150, "the jumping form leaves HyStart alone");
    }
}
