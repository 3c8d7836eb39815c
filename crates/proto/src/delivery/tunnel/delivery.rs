//! TCP of the tunnel as a delivery: one of its forms takes what is handed in, each understands its
//! own frames.

use hdrhistogram::Histogram;
use units::{Duration, Instant};

use super::TunnelForm;
use super::flowcode::{FlowCode, FlowCodeParameters};
use super::form::Form;
use super::queue::Waiting as Packet;
use super::segment::{Part, Segment};
use super::ways::Ways;
use super::window::Window;
use crate::delivery::{
    Builder, Delivered, Delivery, Incoming, Loss, Offer, Outlook, Taken, Waiting,
};
use crate::limits;
use crate::memory::{Held, Room};
use crate::path::Path;
use crate::recovery::{Mark, Receipt};
use crate::select::{Class, Tier};
use crate::status::{DelayPercentiles, SessionStatus, TunnelStatus};
use crate::wire::{CONTROL_OVERHEAD, Frame};

/// What is idle for so long gives its memory back.
const IDLE: Duration = Duration::from_secs(60);
/// The longest wait that is told apart, in microseconds.
const LONGEST_WAIT_US: u64 = 4_000_000;

/// All forms in one session.
#[derive(Debug)]
pub(crate) struct Tunnel {
    form: TunnelForm,
    /// Names flows.
    key: (u64, u64),
    window: Window,
    flowcode: FlowCode,
    /// How long packets waited for earlier ones; made with the first.
    waits_us: Option<Box<Histogram<u32>>>,
    used_at: Instant,
}

impl Tunnel {
    /// Starts with nothing sent and nothing received; `seed` is secret, `nonce` the same at both
    /// ends.
    pub(crate) fn new(form: TunnelForm, seed: u64, nonce: u64) -> Self {
        let parameters = match form {
            TunnelForm::FlowCode(parameters) => parameters,
            TunnelForm::Window | TunnelForm::Plain => FlowCodeParameters::default(),
        };
        Self {
            form,
            key: (seed, !seed),
            window: Window::new(nonce),
            flowcode: FlowCode::new(parameters, seed),
            waits_us: None,
            used_at: Instant::ZERO,
        }
    }

    /// Tells whether TCP travels by it, and not as plain datagrams.
    pub(crate) fn carries_tcp(&self) -> bool {
        self.form != TunnelForm::Plain
    }

    /// Returns how many bytes more than a control frame a frame has around a packet, at most.
    pub(crate) fn beyond_control(&self) -> usize {
        match self.form {
            TunnelForm::FlowCode(parameters) => {
                parameters.overhead().saturating_sub(CONTROL_OVERHEAD)
            }
            TunnelForm::Window | TunnelForm::Plain => 0,
        }
    }

    /// Tells whether a packet is a part of TCP that must arrive.
    pub(crate) fn is_symbol(&self, packet: &[u8]) -> bool {
        Segment::read(packet, self.key).is_some_and(|segment| segment.part != Part::Ack)
    }

    /// Takes a packet in, if it is a part of TCP that must arrive. Gives back what is not.
    pub(crate) fn submit(&mut self, now: Instant, packet: Vec<u8>) -> Option<Vec<u8>> {
        let segment = Segment::read(&packet, self.key);
        let Some(Segment { flow, part, sequence }) =
            segment.filter(|segment| segment.part != Part::Ack)
        else {
            return Some(packet);
        };
        self.used_at = now;
        let packet = Packet { flow, part, sequence, since: now, payload: packet };
        match self.form {
            TunnelForm::FlowCode(_) => self.flowcode.submit(packet),
            TunnelForm::Window | TunnelForm::Plain => self.window.submit(packet),
        }
        None
    }

    fn forms(&self) -> [&dyn Form; 2] {
        [&self.window, &self.flowcode]
    }

    fn forms_mut(&mut self) -> [&mut dyn Form; 2] {
        [&mut self.window, &mut self.flowcode]
    }
}

impl Delivery for Tunnel {
    fn handle_frame(&mut self, incoming: &Incoming<'_>, frame: &Frame<'_>) -> Taken {
        let mut taken = Taken::NotMine;
        for form in self.forms_mut() {
            if taken == Taken::NotMine {
                taken = form.handle_frame(incoming, frame);
            }
        }
        if taken != Taken::NotMine {
            self.used_at = incoming.now;
        }
        taken
    }

    fn waiting(&self) -> Waiting {
        let bulk = self.forms().iter().any(|form| form.wants());
        Waiting { bulk, ..Waiting::default() }
    }

    /// What tells of arrivals leaves alone, by every path that was heard lately.
    fn waiting_for(&self, now: Instant, path: &Path) -> Waiting {
        let heard =
            || path.last_received_at().is_some_and(|at| now.since(at) < limits::LONGEST_BURST);
        let heard = || path.serves(Tier::Bulk) && heard();
        let along = self.forms().iter().any(|form| form.tells(path.id())) && heard();
        Waiting { along, ..Waiting::default() }
    }

    fn backlog(&self) -> usize {
        self.forms().iter().map(|form| form.backlog()).sum()
    }

    fn turns(&self) -> usize {
        self.forms().iter().map(|form| form.turns()).sum()
    }

    fn poll_tier(&mut self, tier: Tier, offer: &mut Offer<'_>, datagram: &mut Builder<'_>) {
        if tier != Tier::Bulk {
            return;
        }
        let path = offer.turn.path.id();
        for form in self.forms_mut() {
            while form.wants() && form.poll_frame(offer, datagram) {
                offer.scheduler.on_sent(path);
            }
        }
    }

    fn poll_along(&mut self, path: &Path, datagram: &mut Builder<'_>) {
        if path.serves(Tier::Bulk) {
            self.forms_mut().into_iter().for_each(|form| form.poll_along(path.id(), datagram));
        }
    }

    fn on_acked(&mut self, mark: Mark, _receipt: &Receipt) {
        self.forms_mut().into_iter().for_each(|form| form.on_acked(mark));
    }

    fn on_lost(&mut self, mark: Mark, loss: &Loss<'_>) {
        self.forms_mut().into_iter().for_each(|form| form.on_lost(mark, loss));
    }

    fn set_paths(&mut self, outlook: &Outlook<'_>) {
        if !outlook.changed {
            return;
        }
        let ways = Ways::new(outlook.now, outlook.paths);
        self.forms_mut().into_iter().for_each(|form| form.set_ways(outlook.now, &ways));
    }

    fn held(&self) -> Held {
        self.forms().iter().fold(Held::default(), |held, form| held.and(form.held()))
    }

    fn set_room(&mut self, room: &Room) {
        self.forms_mut().into_iter().for_each(|form| form.set_room(room));
    }

    fn timeout(&self) -> Option<Instant> {
        self.forms().iter().filter_map(|form| form.timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant, _probe: Duration) {
        let is_idle = now.since(self.used_at) > IDLE;
        for form in self.forms_mut() {
            form.handle_timeout(now);
            if is_idle && form.is_idle() {
                form.give_back();
            }
        }
    }

    fn poll_delivery(&mut self) -> Option<Delivered> {
        let ready = self.forms_mut().into_iter().find_map(|form| form.poll_released())?;
        let waits = self.waits_us.get_or_insert_with(|| Box::new(waits()));
        waits.saturating_record(ready.waited.as_micros());
        let (class, stream) = (Class::Bulk, None);
        let (age, life, payload) = (ready.age, None, ready.payload);
        Some(Delivered { channel: 0, class, stream, age, life, payload })
    }

    fn show(&self, _now: Instant, status: &mut SessionStatus) {
        let waits = self.waits_us.as_ref();
        let at = |quantile| {
            Duration::from_micros(waits.map_or(0, |waits| waits.value_at_quantile(quantile)))
        };
        let max = Duration::from_micros(waits.map_or(0, |waits| waits.max()));
        let wait = DelayPercentiles { p50: at(0.5), p95: at(0.95), p99: at(0.99), max };
        status.tunnel = TunnelStatus { form: self.form, wait, ..TunnelStatus::default() };
        self.forms().iter().for_each(|form| form.show(&mut status.tunnel));
        if let Some(row) = status.classes.iter_mut().find(|row| row.class == Class::Bulk) {
            row.dropped += status.tunnel.dropped + status.tunnel.given_up;
            row.duplicates += self.forms().iter().map(|form| form.duplicates()).sum::<u64>();
        }
    }
}

fn waits() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST_WAIT_US, 2)
        .expect("1 µs to 4 s at two digits is a valid histogram")
}
