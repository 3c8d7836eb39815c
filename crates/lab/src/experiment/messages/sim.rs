//! Messages at a constant interval from station to drone, and when the drone fetches them.
//!
//! The interval and the clock of the diary are the world's: what the hosts know of time is on
//! clocks of their own. Datagrams are counted where they enter the links.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use netem::{Scenario, StepKind, World};
use proto::SessionConfig;
use units::{Duration, Instant};

use super::point::{LrtParameters, MessageLog, REDUNDANCY};
use super::{bound, ideal_arq};
use crate::scheme::{Scheme, SessionScheme};
use crate::testbed::block_end::BlockPlan;
use crate::testbed::end::End;
use crate::testbed::world::{Places, calm, connect};
use crate::testbed::{Stamp, Stream};

/// How long the two ends may take to connect.
const CONNECT: Duration = Duration::from_secs(60);
/// How long the ends idle before the first message, so that paths are known.
const SETTLE: Duration = Duration::from_secs(2);
/// How long deliveries are awaited after the last message was submitted; a transport that has not
/// delivered by then has lost the message.
const DRAIN: Duration = Duration::from_secs(30);
/// The same for datagrams that nobody sends again.
const DRAIN_UDP: Duration = Duration::from_secs(1);
/// How often a message that the transport did not take is offered again.
const OFFER_AGAIN: Duration = Duration::from_millis(1);
/// The mark that says "offer what waits".
const OFFER: u64 = u64::MAX;

/// Runs one scheme at one loss with one seed.
///
/// # Errors
/// When the scheme needs a real kernel, or the scenario lacks the hosts.
pub(crate) fn run_messages(
    parameters: &LrtParameters,
    scheme: Scheme,
    loss: f64,
    seed: u64,
) -> Result<MessageLog, String> {
    let scenario = parameters.scenario(loss);
    match scheme {
        Scheme::IDEAL_ARQ => return Ok(ideal_arq::run_messages(&scenario, parameters, seed)),
        Scheme::BOUND => return Ok(bound::run_messages(&scenario, parameters, seed)),
        _ => {}
    }
    let ends = ends(scheme, &scenario, parameters, seed)?;
    let mut world = World::new(&scenario, ends, &calm(seed));
    connect(&mut world, Instant::ZERO + CONNECT);
    let start = world.now() + SETTLE;
    world.begin(start);
    world.run_until(start);
    let traffic = count_traffic(&mut world, parameters.bytes);
    let mut run = Run {
        places: Places::of(&scenario)?,
        log: MessageLog::new(parameters.messages),
        bytes: parameters.bytes,
        start,
        waiting: VecDeque::new(),
    };
    for number in 0..parameters.messages {
        world.schedule(start + parameters.interval * number, u64::from(number));
    }
    let drain = if scheme == Scheme::UDP { DRAIN_UDP } else { DRAIN };
    let end = start + parameters.submitting() + drain;
    while let Some(step) = world.step_until(end) {
        run.on_step(&mut world, step.kind);
        if run.log.is_complete() {
            break;
        }
    }
    let traffic = *traffic.borrow();
    let mut log = run.log;
    log.sent = traffic.sent;
    log.sent_bytes = traffic.sent_bytes;
    log.returned = traffic.returned;
    Ok(log)
}

/// Makes both ends of a scheme that carries messages, in the order of the scenario's hosts.
fn ends(
    scheme: Scheme,
    scenario: &Scenario,
    parameters: &LrtParameters,
    seed: u64,
) -> Result<Vec<End>, String> {
    match scheme {
        Scheme::FULMAR | Scheme::UDP => End::pair(scheme, scenario, seed),
        Scheme::LRT => {
            let scheme = SessionScheme::Lrt;
            let config = SessionConfig { message: parameters.faithful_form(), ..scheme.config() };
            End::session_pair(scheme, &config, scenario, seed)
        }
        Scheme::BLOCK_RLNC => {
            let redundancy = parameters.redundancy.unwrap_or(REDUNDANCY);
            let plan = BlockPlan { bytes: parameters.bytes, redundancy, delay: parameters.delay };
            End::block_pair(plan, scenario)
        }
        other => Err(format!("{other} does not carry messages in the world")),
    }
}

/// Counts what enters the links.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    sent: u64,
    sent_bytes: u64,
    returned: u64,
}

/// Counts from here on. A datagram of the sender with half a message's length or more carries a
/// symbol or a message.
fn count_traffic(world: &mut World<End>, bytes: usize) -> Rc<RefCell<Traffic>> {
    let traffic = Rc::new(RefCell::new(Traffic::default()));
    let counted = Rc::clone(&traffic);
    world.set_verdict_log(move |record| {
        let mut traffic = counted.borrow_mut();
        if record.receiver == "drone" {
            traffic.sent += u64::from(record.len >= bytes / 2);
            traffic.sent_bytes += record.len as u64;
        } else {
            traffic.returned += 1;
        }
    });
    traffic
}

/// A run in progress.
struct Run {
    places: Places,
    log: MessageLog,
    bytes: usize,
    start: Instant,
    /// Messages that the transport has not taken yet.
    waiting: VecDeque<u32>,
}

impl Run {
    fn on_step(&mut self, world: &mut World<End>, kind: StepKind) {
        match kind {
            StepKind::Mark(OFFER) => self.offer(world),
            StepKind::Mark(number) => {
                let number = number as u32;
                self.log.on_submitted(number, world.now().since(self.start));
                self.waiting.push_back(number);
                if self.waiting.len() == 1 {
                    self.offer(world);
                }
            }
            StepKind::Datagram { host } | StepKind::Timeout { host }
                if host == self.places.drone =>
            {
                self.fetch(world);
            }
            StepKind::Datagram { .. } | StepKind::Timeout { .. } => {}
        }
    }

    /// Hands in what waits, as far as the transport takes it.
    fn offer(&mut self, world: &mut World<End>) {
        let sender = self.places.station;
        let now = world.host_now(sender);
        while let Some(number) = self.waiting.front() {
            // The diary knows when; the stamp only has to say which.
            let stamp =
                Stamp { flow: 0, stream: Stream::Control, sequence: *number, sent: Duration::ZERO };
            if !world.host_mut(sender).send_message(now, &stamp.packet(self.bytes)) {
                world.schedule(world.now() + OFFER_AGAIN, OFFER);
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Fetches what has been delivered.
    fn fetch(&mut self, world: &mut World<End>) {
        if !world.host(self.places.drone).has_delivered() {
            return;
        }
        let at = world.now().since(self.start);
        while let Some(bytes) = world.take_from(self.places.drone).poll_delivered() {
            if let Some(stamp) = Stamp::read(&bytes) {
                self.log.on_fetched(stamp.sequence, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;
    use crate::experiment::messages::point::LrtRow;

    fn row(scheme: Scheme, loss: f64, messages: u32) -> LrtRow {
        let parameters = LrtParameters {
            schemes: vec![scheme],
            losses: vec![loss],
            loss_back: None,
            interval: Duration::from_millis(5),
            bytes: 1_000,
            messages,
            delay: Duration::from_millis(50),
            rate: Rate::from_mbps(100.0),
            redundancy: None,
            burst: 1.0,
            burst_time: None,
            paths: 1,
            k: 64,
            seeds: (1, 1),
            links: None,
            tolerance: Duration::from_micros(100),
        };
        let log = run_messages(&parameters, scheme, loss, 1).expect("it runs in the world");
        LrtRow::new(&parameters, scheme, loss, &[log])
    }

    #[test]
    fn reliable_schemes_deliver_every_message_once_and_in_order() {
        for scheme in
            [Scheme::FULMAR, Scheme::BOUND, Scheme::LRT, Scheme::BLOCK_RLNC, Scheme::IDEAL_ARQ]
        {
            let row = row(scheme, 0.1, 1_000);
            assert_eq!(row.delivered, 1_000, "{scheme}");
            assert_eq!((row.duplicates, row.out_of_order), (0, 0), "{scheme}");
            assert!(row.p50_ms.as_f64().is_some_and(|p50| p50 >= 50.0), "{scheme}");
        }
    }

    #[test]
    fn plain_datagrams_take_the_delay_of_the_link_or_are_lost() {
        let row = row(Scheme::UDP, 0.1, 1_000);
        assert_eq!(row.max_ms.as_f64(), Some(50.082));
        assert!((0.85..0.95).contains(&row.exact_share), "{}", row.exact_share);
        assert_eq!(row.sent_per_message, 1.0);
    }

    /// The claims of [LRT §IV-A] at 10 % loss.
    #[test]
    fn faithful_form_keeps_the_claims_of_the_paper() {
        let row = row(Scheme::LRT, 0.1, 5_000);
        assert!(row.exact_share >= 0.7, "{}", row.exact_share);
        assert!(row.within_70ms_share >= 0.99, "{}", row.within_70ms_share);
        assert!(row.sent_per_message < 1.51, "{}", row.sent_per_message);
    }
}
