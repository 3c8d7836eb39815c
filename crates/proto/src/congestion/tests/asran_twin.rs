//! ASRAN here and ASRAN in the kernel, compared after every event of random sequences.
//!
//! The kernel's side is the bytecode of `crates/tcp-asran`: ASRAN's part is the functions that its
//! hooks call; the base is modelled there in packets. Here a datagram is one byte, so that a window
//! is a number of packets too. NewReno is the product's own. A retransmission timeout, which a
//! session does not have, and CUBIC's factor in the kernel's arithmetic need a base like the
//! kernel's: `Model`. `asran_delay` gets the same delays and rates as its twin, in the twin's unit
//! of a rate.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tcp_asran::{Error, Event, Flavour, Snapshot, replay};
use units::{Duration, Instant, Rate};

use super::super::asran::{Asran, LossBased};
use super::super::asran_delay::AsranDelay;
use super::super::delay_judge::{RATE_SHIFT, Sample};
use super::super::reno::NewReno;
use super::super::{Acked, Controller, LinkView, Lost};

/// Random sequences per comparison.
const CASES: u32 = 64;

#[test]
fn asran_over_new_reno_is_the_kernels_step_by_step() {
    compare(
        "asran_over_new_reno_is_the_kernels_step_by_step",
        Flavour::Asran,
        events(false),
        || Asran::over(NewReno::new(1)),
    );
}

#[test]
fn asran_with_timeouts_is_the_kernels_step_by_step() {
    let name = "asran_with_timeouts_is_the_kernels_step_by_step";
    compare(name, Flavour::Asran, events(true), || Asran::over(Model::new(|cwnd| cwnd / 2)));
}

#[test]
fn asran_over_cubics_factor_is_the_kernels_step_by_step() {
    let name = "asran_over_cubics_factor_is_the_kernels_step_by_step";
    let model = || Asran::over(Model::new(|cwnd| cwnd * 717 / 1024));
    compare(name, Flavour::AsranCubic, events(true), model);
}

#[test]
fn asran_delay_is_the_kernels_step_by_step() {
    let name = "asran_delay_is_the_kernels_step_by_step";
    compare(name, Flavour::AsranDelay, timed_events(), || AsranDelay::new(1));
}

/// Runs both over random sequences; where the kernel's cannot run, says so and returns.
fn compare<T: Twin>(
    name: &str,
    flavour: Flavour,
    events: impl Strategy<Value = Vec<Event>>,
    new: impl Fn() -> T,
) {
    match replay(flavour, &[]) {
        Ok(_) => {}
        Err(error @ Error::Refused { .. }) => panic!("{error}"),
        Err(error) => {
            println!("SKIPPED: {name}: {error}");
            return;
        }
    }
    let config = Config { failure_persistence: None, ..Config::with_cases(CASES) };
    let result = TestRunner::new(config).run(&events, |events| {
        let kernel = replay(flavour, &events).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let mut ours = Connection::new(new());
        for (step, (event, theirs)) in events.iter().zip(kernel).enumerate() {
            ours.handle(*event);
            prop_assert_eq!(ours.snapshot(), theirs, "after event {}, {:?}", step, event);
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// ACKs mostly, losses and ends of recoveries, and timeouts where they are wanted.
fn events(timeouts: bool) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => (1_u32..=4).prop_map(|packets| Event::Ack { packets }),
        2 => (5_u32..=500).prop_map(|packets| Event::Ack { packets }),
        3 => Just(Event::Loss),
        4 => Just(Event::Recovered),
        u32::from(timeouts) => Just(Event::Timeout),
    ];
    proptest::collection::vec(event, 1..400)
}

/// ACKs at any distance, with any delay and rate or none; losses and ends of recoveries.
fn timed_events() -> impl Strategy<Value = Vec<Event>> {
    let gap_us =
        prop_oneof![20 => 1_u64..10_000, 2 => 10_000_u64..200_000, 1 => 200_000_u64..6_000_000];
    let rtt_us = prop_oneof![
        1 => Just(0_u32),
        8 => 40_000_u32..45_000,
        4 => 45_000_u32..80_000,
        1 => 1_000_u32..400_000,
    ];
    let rate = prop_oneof![1 => Just((0_u32, 0_u32)), 8 => (1_u32..60, 5_000_u32..60_000)];
    let what = prop_oneof![24 => Just(None), 2 => Just(Some(Event::Loss)), 3 => Just(Some(Event::Recovered))];
    let step = (gap_us, rtt_us, rate, 1_u32..=4, what);
    proptest::collection::vec(step, 1..600).prop_map(|steps| {
        let mut now_us = 1_000;
        let mut event =
            |(gap_us, rtt_us, rate, packets, what): (u64, u32, (u32, u32), u32, Option<Event>)| {
                now_us += gap_us;
                let (rate_delivered, rate_interval_us) = rate;
                let ack =
                    Event::TimedAck { packets, now_us, rtt_us, rate_delivered, rate_interval_us };
                what.unwrap_or(ack)
            };
        steps.into_iter().map(&mut event).collect()
    })
}

/// What is compared of a controller besides its window.
trait Twin: Controller {
    fn ssthresh(&self) -> u64;
    fn last_max_cwnd(&mut self) -> u64;

    /// Learns what an ACK says of delay and rate.
    fn learn(&mut self, _: &Sample) {}
}

impl<B: LossBased> Twin for Asran<B> {
    fn ssthresh(&self) -> u64 {
        Self::ssthresh(self)
    }

    fn last_max_cwnd(&mut self) -> u64 {
        Asran::last_max_cwnd(self)
    }
}

impl Twin for AsranDelay {
    fn ssthresh(&self) -> u64 {
        Self::ssthresh(self)
    }

    fn last_max_cwnd(&mut self) -> u64 {
        self.judge().last_max_cwnd()
    }

    fn learn(&mut self, sample: &Sample) {
        self.judge().on_sample(sample);
    }
}

/// A controller, and the moments that tell it what the events say.
struct Connection<T> {
    controller: T,
    now: Instant,
    /// When the present recovery began.
    recovery: Option<Instant>,
}

impl<T: Twin> Connection<T> {
    fn new(controller: T) -> Self {
        Self { controller, now: Instant::from_millis(1), recovery: None }
    }

    fn handle(&mut self, event: Event) {
        self.now = match event {
            Event::TimedAck { now_us, .. } => Instant::from_micros(now_us),
            _ => self.now + Duration::from_nanos(1),
        };
        let view = LinkView {
            now: self.now,
            srtt: Duration::from_millis(40),
            min_rtt: Duration::from_millis(40),
            mtu: 1,
        };
        // What was sent before the recovery belongs to its loss; what was sent since, does not.
        let since = self.now + Duration::from_nanos(1);
        let sent_at = self.recovery.unwrap_or(since);
        match event {
            Event::Ack { packets } => {
                self.controller.on_ack(&view, &acked(packets.into(), sent_at));
            }
            Event::TimedAck { packets, now_us, rtt_us, rate_delivered, rate_interval_us } => {
                let rate = (u64::from(rate_delivered) << RATE_SHIFT)
                    .checked_div(rate_interval_us.into())
                    .unwrap_or(0);
                let cwnd = self.controller.cwnd();
                self.controller.learn(&Sample { now_us, rtt_us: rtt_us.into(), rate, cwnd });
                self.controller.on_ack(&view, &acked(packets.into(), sent_at));
            }
            Event::Loss => {
                let lost = Lost { bytes: 1, newest_sent_at: sent_at };
                self.controller.on_loss(&view, &lost);
                self.recovery.get_or_insert(self.now);
            }
            Event::Recovered if self.recovery.take().is_some() => {
                self.controller.on_ack(&view, &acked(0, since));
            }
            Event::Timeout => {
                self.recovery = None;
                self.controller.on_revival(&view);
            }
            _ => {}
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let packets = |window: u64| window.min(Snapshot::INFINITE.into()) as u32;
        Snapshot {
            cwnd: packets(self.controller.cwnd()),
            ssthresh: packets(self.controller.ssthresh()),
            last_max_cwnd: packets(self.controller.last_max_cwnd()),
        }
    }
}

fn acked(bytes: u64, newest_sent_at: Instant) -> Acked {
    Acked { bytes, late_bytes: 0, newest_sent_at, rtt: None, rate: None, window_limited: true }
}

/// NewReno, except for what remains after a loss, and with a retransmission timeout as its revival.
#[derive(Debug)]
struct Model {
    new_reno: NewReno,
    remains: fn(u64) -> u64,
    /// The window while a recovery is on: a recovery never raises it, not even to two packets.
    in_recovery: Option<u64>,
}

impl Model {
    fn new(remains: fn(u64) -> u64) -> Self {
        Self { new_reno: NewReno::new(1), remains, in_recovery: None }
    }
}

impl LossBased for Model {
    fn ssthresh(&self) -> u64 {
        self.new_reno.ssthresh()
    }

    fn set_ssthresh(&mut self, ssthresh: u64) {
        self.new_reno.set_ssthresh(ssthresh);
    }

    fn recovery_began(&self) -> Option<Instant> {
        self.new_reno.recovery_began()
    }
}

impl Controller for Model {
    fn on_ack(&mut self, view: &LinkView, acked: &Acked) {
        if self.recovery_began().is_some_and(|began| acked.newest_sent_at > began) {
            self.in_recovery = None;
        }
        self.new_reno.on_ack(view, acked);
    }

    fn on_loss(&mut self, view: &LinkView, _: &Lost) {
        if self.in_recovery.is_none() {
            let cwnd = self.cwnd();
            self.new_reno.reduce(view, (self.remains)(cwnd));
            self.in_recovery = Some(cwnd.min(self.new_reno.cwnd()));
        }
    }

    fn on_revival(&mut self, view: &LinkView) {
        if self.in_recovery.take().is_none() {
            self.new_reno.reduce(view, (self.remains)(self.cwnd()));
        }
        self.new_reno.restart(1);
    }

    fn cwnd(&self) -> u64 {
        self.in_recovery.unwrap_or(self.new_reno.cwnd())
    }

    fn pacing_rate(&self, view: &LinkView) -> Option<Rate> {
        self.new_reno.pacing_rate(view)
    }
}
