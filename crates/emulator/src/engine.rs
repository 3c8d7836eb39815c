//! The real-time emulator: carries frames from host to host when the model says.
//!
//! Not the model, which is `netem`'s, and not the set-up, which is `network`'s. One thread serves
//! all links, so that frames meet the model in the order of their arrival:
//!
//! ```text
//! ring ─ frame, kernel's receive time ─► Net::handle_packet ─ due time ─► Pending ─► sender
//! sleep until shortly before the next due time, or until a frame arrives; then spin
//! ```
//!
//! A frame is due at its *receive time* plus the model's delay: even if the thread notices it late,
//! the delay is right.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;
use netem::{LinkEnd, LinkStats, Net};
use sys::clock::now;
use sys::interface_setup::has_carrier;
use sys::packet_ring::{Frame, PacketRing, PacketSender};
use sys::realtime::{self, MachineAccount, Scheduling, ThreadAccount};
use sys::wakeup::Wakeup;
use sys::wall_clock::WallClock;
use units::{Duration, Instant};

use crate::audit::{Lateness, Losses, Measurements, ProcessorUse, lateness_histogram, record};
use crate::frame::{ETHERNET_HEADER, is_modelled, protocol_of};
use crate::network::Port;
use crate::pending::Pending;
use crate::queue_delay::QueueDelays;
use crate::stalls::StallLog;
use crate::verdict_log::VerdictLog;

/// A real-time thread wakes this long before a frame is due and spins for the rest: about twice
/// what a timer's wake-up takes on a virtual machine (median 25–31 µs, 99th percentile 50–70).
const SPIN_REALTIME: Duration = Duration::from_micros(60);
/// The same for a thread of the fair scheduler, which wakes later.
const SPIN_FAIR: Duration = Duration::from_micros(100);
/// A thread of the fair scheduler spins only while the machine's CPU pressure is below this share.
///
/// Spinning uses the processor, and a thread that has used its share must wait: on a machine full
/// of compilers the 99th percentile of the error at 3,000 packets/s was 100 to 200 µs without
/// spinning and 3 to 4 ms with it. On a quiet machine it was about 100 µs without and 65 with it.
const SPIN_FAIR_PRESSURE: f64 = 0.25;
/// How often the pressure is read.
const PRESSURE_INTERVAL: Duration = Duration::from_secs(1);
/// Priority among real-time threads: low, because there should be no others.
const PRIORITY: i32 = 10;
/// Frames taken from the ring before due ones are sent.
const BATCH: usize = 32;
/// The offset between wall clock and monotonic clock is measured again after this long: at the
/// fastest slew (500 ppm) it has changed by half a microsecond.
const WALL_CLOCK_AGE: Duration = Duration::from_millis(1);
/// A change of that offset which no slew explains.
const WALL_CLOCK_STEP: Duration = Duration::from_millis(1);
/// How often the engine shows its state to other threads, and the longest that it sleeps.
const SHOW_INTERVAL: Duration = Duration::from_millis(100);

/// What other threads tell the engine.
#[derive(Debug)]
pub(crate) enum Order {
    /// The scenario starts anew now, with these idle links; the sender is told when that was.
    Begin(Box<Net>, SyncSender<Instant>),
    /// The run is over.
    Stop,
}

/// What the engine has done so far in this run.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Counts for each receiver of each end of each link.
    pub(crate) links: Vec<(LinkEnd, usize, LinkStats)>,
    /// Send time against due time.
    pub(crate) lateness: Lateness,
}

/// Where other threads leave orders for the engine, and where it shows them its state.
#[derive(Debug)]
pub(crate) struct Desk {
    wakeup: Wakeup,
    ordered: AtomicBool,
    orders: Mutex<Vec<Order>>,
    view: Mutex<View>,
}

impl Desk {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            wakeup: Wakeup::new()?,
            ordered: AtomicBool::new(false),
            orders: Mutex::default(),
            view: Mutex::default(),
        })
    }

    pub(crate) fn order(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        self.ordered.store(true, Ordering::Release);
        self.wakeup.ring();
    }

    pub(crate) fn view(&self) -> View {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the engine needs to begin.
pub(crate) struct Parts {
    pub(crate) net: Box<Net>,
    pub(crate) origin: Instant,
    pub(crate) ports: Vec<Port>,
    pub(crate) ring: PacketRing,
    pub(crate) sender: PacketSender,
    pub(crate) log: Option<VerdictLog>,
    pub(crate) queue_delays: QueueDelays,
    pub(crate) stalls: StallLog,
    /// Tests make the engine late by this much to see whether the audit notices.
    pub(crate) sabotage: Duration,
}

/// The thread's state.
pub(crate) struct Engine {
    parts: Parts,
    desk: Arc<Desk>,
    pending: Pending,
    wall: (Instant, WallClock),
    scheduling: Scheduling,
    spin: Duration,
    /// When the pressure was last looked at, and its total then.
    pressure: (Instant, Option<Duration>),
    tally: Tally,
    shown: Instant,
}

/// What is measured in one run.
struct Tally {
    since: Instant,
    thread: Option<ThreadAccount>,
    machine: MachineAccount,
    ring_dropped: u64,
    lateness: Histogram<u64>,
    wakeups: Histogram<u64>,
    late_wakeups: u64,
    losses: Losses,
    passed: u64,
    clock_steps: u64,
}

impl Engine {
    /// Prepares the calling thread, which is in the emulator's namespace, and runs until it is told
    /// to stop; returns what it measured, without the witnesses' part.
    pub(crate) fn run(parts: Parts, desk: Arc<Desk>) -> Measurements {
        let scheduling = realtime::prefer_realtime(PRIORITY);
        // With the default slack a sleep is 86 µs late instead of 31; a real-time thread has no
        // slack anyway.
        let _ = realtime::set_timer_slack(Duration::from_nanos(1));
        let start = now();
        let mut engine = Self {
            parts,
            desk,
            pending: Pending::default(),
            wall: (start, WallClock::measure()),
            scheduling,
            spin: match scheduling {
                Scheduling::Fifo => SPIN_REALTIME,
                Scheduling::ShortSlice | Scheduling::Fair => Duration::ZERO,
            },
            pressure: (start, realtime::pressure()),
            tally: Tally::new(start, 0),
            shown: start,
        };
        loop {
            engine.take_frames();
            engine.send_due();
            if engine.desk.ordered.swap(false, Ordering::Acquire) && engine.follow_orders() {
                return engine.measurements();
            }
            engine.show();
            engine.rest();
        }
    }

    /// Moves what arrived from the ring to where it waits.
    fn take_frames(&mut self) {
        if !self.parts.ring.is_ready() {
            return;
        }
        self.check_wall_clock();
        let (origin, wall) = (self.parts.origin, self.wall.1);
        let Self { parts, pending, tally, .. } = self;
        let Parts { net, ports, ring, log, queue_delays, .. } = parts;
        for _ in 0..BATCH {
            let taken = ring.with_next(|frame| {
                let at = wall.to_monotonic(frame.received_at_wall_nanos).min(now());
                let log = log.as_mut();
                let mut intake = Intake { net, ports, pending, tally, log, queue_delays, origin };
                intake.handle_frame(at, frame);
            });
            if taken.is_none() {
                break;
            }
        }
    }

    /// Sends what is due.
    fn send_due(&mut self) {
        let Self { parts: Parts { sender, sabotage, stalls, .. }, pending, tally, .. } = self;
        let mut time = now();
        loop {
            let sent = pending.with_due(time - *sabotage, |waiting| {
                let result = sender.send(waiting.interface, &waiting.frame);
                (waiting.due, waiting.interface, result)
            });
            let Some((due, interface, result)) = sent else { return };
            // After the call: by then the receiver has the frame.
            time = now();
            match result {
                Ok(()) => {
                    record(&mut tally.lateness, time.since(due));
                    stalls.note(due, time);
                }
                // A host that has switched its interface off wants to receive nothing.
                Err(_) if has_carrier(interface).is_ok_and(|carrier| !carrier) => {
                    tally.losses.interface_down += 1;
                }
                Err(_) => tally.losses.refused += 1,
            }
        }
    }

    /// Sleeps or spins until there is something to do.
    fn rest(&mut self) {
        let time = now();
        let due = self.pending.next_due().map(|due| due + self.parts.sabotage);
        let wake = due.map_or(time + SHOW_INTERVAL, |due| due - self.spin);
        if wake > time {
            let timeout = wake.since(time).min(SHOW_INTERVAL);
            let ring = self.parts.ring.as_fd();
            // An error cannot last: both descriptors are open and ours.
            let woken = self.desk.wakeup.wait_with(ring, Some(timeout)).unwrap_or(true);
            if !woken {
                let late = now().since(time + timeout);
                record(&mut self.tally.wakeups, late);
                self.tally.late_wakeups += u64::from(due.is_some() && late > self.spin);
            }
        } else if let Some(due) = due {
            while now() < due && !self.parts.ring.is_ready() {
                std::hint::spin_loop();
            }
        }
    }

    fn check_wall_clock(&mut self) {
        let time = now();
        if time.since(self.wall.0) < WALL_CLOCK_AGE {
            return;
        }
        let wall = WallClock::measure();
        // Over a long pause a slew adds up; a step is what exceeds it.
        let slew = time.since(self.wall.0) / 1_000;
        if wall.step_since(self.wall.1) > WALL_CLOCK_STEP + slew {
            self.tally.clock_steps += 1;
        }
        self.wall = (time, wall);
    }

    /// Returns true when the run is over.
    fn follow_orders(&mut self) -> bool {
        let orders = {
            let mut orders = self.desk.orders.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *orders)
        };
        for order in orders {
            match order {
                Order::Stop => return true,
                Order::Begin(net, began) => self.begin(net, &began),
            }
        }
        false
    }

    fn begin(&mut self, net: Box<Net>, began: &SyncSender<Instant>) {
        let origin = now();
        // What still travels belongs to the time before.
        self.pending.clear();
        (self.parts.origin, self.parts.net) = (origin, net);
        self.parts.queue_delays.clear();
        self.parts.stalls.clear();
        let dropped = self.parts.ring.statistics().map_or(0, |counts| counts.dropped);
        self.tally = Tally::new(origin, dropped);
        // Fails when nobody is waiting, and then it does not matter.
        let _ = began.try_send(origin);
    }

    fn show(&mut self) {
        let time = now();
        if time.since(self.shown) < SHOW_INTERVAL {
            return;
        }
        self.shown = time;
        if self.scheduling != Scheduling::Fifo {
            self.adapt_spin(time);
        }
        if let Some(log) = &mut self.parts.log {
            log.flush();
        }
        // A thread that is reading it now gets the older one.
        if let Ok(mut view) = self.desk.view.try_lock() {
            *view = View { links: self.link_stats(), lateness: Lateness::of(&self.tally.lateness) };
        }
    }

    /// Lets a thread of the fair scheduler spin where that costs nobody anything.
    fn adapt_spin(&mut self, time: Instant) {
        let (before, total_before) = self.pressure;
        let elapsed = time.since(before);
        if elapsed < PRESSURE_INTERVAL {
            return;
        }
        let total = realtime::pressure();
        self.pressure = (time, total);
        // A machine whose kernel does not say might be busy.
        let quiet = total.zip(total_before).is_some_and(|(total, before)| {
            total.saturating_sub(before) < elapsed.mul_f64(SPIN_FAIR_PRESSURE)
        });
        self.spin = if quiet { SPIN_FAIR } else { Duration::ZERO };
    }

    fn link_stats(&self) -> Vec<(LinkEnd, usize, LinkStats)> {
        let entries = self.parts.ports.iter().map(Port::entry);
        let mut all = Vec::new();
        for entry in entries {
            let receivers = self.parts.net.receivers(entry);
            all.extend(receivers.map(|(host, stats)| (entry, host, stats.clone())));
        }
        all.sort_by_key(|(entry, host, _)| (*entry, *host));
        all
    }

    fn measurements(mut self) -> Measurements {
        if let Some(log) = &mut self.parts.log {
            log.flush();
        }
        let view = View { links: self.link_stats(), lateness: Lateness::of(&self.tally.lateness) };
        *self.desk.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        let elapsed = now().since(self.tally.since);
        let dropped = self.parts.ring.statistics().map_or(0, |counts| counts.dropped);
        let mut losses = self.tally.losses;
        losses.ring_full = dropped.saturating_sub(self.tally.ring_dropped);
        Measurements {
            elapsed,
            scheduling: match self.scheduling {
                Scheduling::Fifo => "fifo",
                Scheduling::ShortSlice => "short_slice",
                Scheduling::Fair => "fair",
            },
            processor: self.tally.processor_use(elapsed),
            lateness: self.tally.lateness,
            wakeups: self.tally.wakeups,
            late_wakeups: self.tally.late_wakeups,
            ordinary_wakeups: lateness_histogram(),
            losses,
            passed: self.tally.passed,
            clock_steps: self.tally.clock_steps,
            queue_delays: self.parts.queue_delays,
            stalls: vec![self.parts.stalls],
        }
    }
}

impl Tally {
    fn new(since: Instant, ring_dropped: u64) -> Self {
        Self {
            since,
            thread: ThreadAccount::read(),
            machine: MachineAccount::read(),
            ring_dropped,
            lateness: lateness_histogram(),
            wakeups: lateness_histogram(),
            late_wakeups: 0,
            losses: Losses::default(),
            passed: 0,
            clock_steps: 0,
        }
    }

    fn processor_use(&self, elapsed: Duration) -> ProcessorUse {
        let share = |before: Option<Duration>, after: Option<Duration>| {
            let spent = after?.saturating_sub(before?).as_secs_f64();
            Some((spent / elapsed.as_secs_f64().max(1e-9) * 1e4).round() / 1e4)
        };
        let (thread, machine) = (ThreadAccount::read(), MachineAccount::read());
        let ran = |account: Option<ThreadAccount>| account.map(|account| account.ran);
        let waited = |account: Option<ThreadAccount>| account.map(|account| account.waited);
        ProcessorUse {
            emulator: share(ran(self.thread), ran(thread)),
            emulator_waiting: share(waited(self.thread), waited(thread)),
            pressure: share(self.machine.pressure, machine.pressure),
            stolen: share(self.machine.stolen, machine.stolen),
        }
    }
}

/// What a frame meets on its way from the ring.
struct Intake<'a> {
    net: &'a mut Net,
    ports: &'a [Port],
    pending: &'a mut Pending,
    tally: &'a mut Tally,
    log: Option<&'a mut VerdictLog>,
    queue_delays: &'a mut QueueDelays,
    origin: Instant,
}

impl Intake<'_> {
    fn handle_frame(&mut self, at: Instant, frame: Frame<'_>) {
        let Some(port) = self.ports.iter().find(|port| port.interface == frame.interface) else {
            return;
        };
        if frame.bytes.len() != frame.length {
            self.tally.losses.too_long += 1;
        } else if is_modelled(frame.bytes) {
            self.apply_model(at, port, frame.bytes);
        } else {
            self.pass(at, port, frame.bytes);
        }
    }

    fn apply_model(&mut self, at: Instant, port: &Port, frame: &[u8]) {
        let entry = port.entry();
        let scenario_time = Instant::ZERO + at.since(self.origin);
        let length = frame.len() - ETHERNET_HEADER;
        let protocol = protocol_of(frame);
        for arrival in self.net.handle_packet_of(protocol, scenario_time, entry, length) {
            if let Some(log) = &mut self.log {
                log.record(&self.net.record(scenario_time, entry, length, &arrival));
            }
            self.queue_delays.record(scenario_time, entry, length, &arrival);
            let Some(receiver) = receiver(self.ports, port.link, arrival.host) else { continue };
            for delivery in &arrival.verdict.deliveries {
                let due = self.origin + delivery.at.since(Instant::ZERO);
                let kept = match delivery.corrupt {
                    None => self.pending.insert(due, receiver, frame),
                    Some(_) => {
                        let mut frame = frame.to_vec();
                        delivery.damage(&mut frame[ETHERNET_HEADER..]);
                        self.pending.insert(due, receiver, &frame)
                    }
                };
                self.tally.losses.no_memory += u64::from(!kept);
            }
        }
    }

    /// Hands a frame around the model to everybody else on the link.
    fn pass(&mut self, at: Instant, port: &Port, frame: &[u8]) {
        self.tally.passed += 1;
        let others = self.ports.iter().filter(|other| other.link == port.link && *other != port);
        for other in others {
            let kept = self.pending.insert(at, other.interface, frame);
            self.tally.losses.no_memory += u64::from(!kept);
        }
    }
}

fn receiver(ports: &[Port], link: usize, host: usize) -> Option<u32> {
    ports.iter().find(|port| port.link == link && port.host == host).map(|port| port.interface)
}
