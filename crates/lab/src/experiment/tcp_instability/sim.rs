//! The same meetings in virtual time: the world's TCP over a hop that comes and goes.
//!
//! *Simplifications*: the network is its hop alone, with the delay of the whole way; the other
//! links are never full for long and lose nothing, so that what is left out is how they space
//! bursts. Every connection is open when the scenario begins. Sources begin within the time of a
//! segment, which the seed draws: two machines are never in step.

use ::world::tcp::{Congestion, FlowHost, FlowOptions, FlowWorld, State};
use netem::{Direction, DropCause, LinkEnd, Scenario};
use sys::tcp_info::TcpInfo;
use tcp_asran::Flavour;
use units::{Duration, Instant, Rng};

use super::figures::{LOSS, RECOVERY};
use super::offered::{OFFERED_PAYLOAD, offered_in_the_world};
use super::plan::{Meeting, MeetingRun, SAMPLE, Sender};
use super::topology::LINK_MTU;
use crate::scheme::{CongestionControl, Scheme};
use crate::testbed::tcp_flow::{FlowRun, FlowSample, LAST_BUFFER, OFFER, Offer};
use crate::testbed::world::{Places, calm};

/// What a source without a limit has: more than any run takes.
const ENDLESS: u64 = 1 << 60;
/// From the opening of the connections to the beginning of the scenario, in round trips, and at
/// least.
const LEAD: u32 = 4;
const LEAD_MIN: Duration = Duration::from_secs(1);

/// Runs a meeting for `seconds`; the seed draws when its sources begin.
///
/// # Errors
/// When the world has no such congestion control.
pub(super) fn run_meeting(
    meeting: &Meeting,
    seconds: u64,
    seed: u64,
) -> Result<MeetingRun, String> {
    if let [Sender { scheme: Scheme::UDP, .. }] = meeting.senders[..] {
        return Ok(constant(meeting, seconds, seed));
    }
    let scenario = meeting.network.hop_alone("drone", "station", &meeting.outages);
    let mut world = FlowWorld::new(&scenario, FlowHost::over_links(&scenario)?, &calm(seed));
    let uav = Places::of(&scenario)?.drone;
    let origin = Instant::ZERO + (meeting.network.rtt * LEAD).max(LEAD_MIN);
    world.world.begin(origin);
    let mut rng = Rng::stream(seed, "instability/sources");
    let mut sources = Vec::with_capacity(meeting.senders.len());
    for sender in &meeting.senders {
        let congestion = congestion(sender.scheme)?;
        let mtu = LINK_MTU;
        let (bytes, remembers) = (Some(0), true);
        let options = FlowOptions { congestion, mtu, bytes, remembers, ..FlowOptions::default() };
        let first = sender.offered.map(|offer| offer.rate.transmission_time(OFFER));
        sources.push(Source {
            flow: world.start(uav, options),
            offer: sender.offered,
            begin: origin + first.unwrap_or_default().mul_f64(rng.unit()),
            written: 0,
            samples: Vec::new(),
        });
    }
    world.run_until(origin);
    let end = origin + Duration::from_secs(seconds);
    let mut sample_at = origin;
    loop {
        let now = world.world.now();
        sources.iter_mut().for_each(|source| source.write(&mut world, now));
        if now >= sample_at.min(end) {
            let at_s = now.since(origin).as_secs_f64();
            sources.iter_mut().for_each(|source| source.sample(&world, at_s));
            sample_at += SAMPLE;
        }
        if now >= end {
            break;
        }
        let due = sources.iter().filter_map(|source| source.due(&world, now)).min();
        world.step(due.into_iter().fold(sample_at.min(end), Instant::min));
    }
    let hop = LinkEnd { link: 0, direction: Direction::Up };
    let queue_drops = world.world.net().stats(hop).drops(DropCause::Queue);
    let flows = sources.into_iter().map(|source| source.finish(&world, origin, seconds));
    Ok(MeetingRun { flows: flows.collect(), queue_drops })
}

/// Returns the congestion control of the world that a scheme is.
///
/// # Errors
/// When there is none.
pub(super) fn congestion(scheme: Scheme) -> Result<Congestion, String> {
    match scheme.control()? {
        CongestionControl::Cubic => Ok(Congestion::Cubic),
        CongestionControl::Reno => Ok(Congestion::Reno),
        CongestionControl::Asran(Flavour::AsranCubic) => Ok(Congestion::AsranCubic),
        CongestionControl::Asran(Flavour::AsranJump) => Ok(Congestion::AsranJump),
        CongestionControl::Bbr | CongestionControl::Asran(_) => {
            Err(format!("the world's TCP has no {scheme}: use --emu"))
        }
    }
}

/// Sends the flow of constant rate over the whole network.
fn constant(meeting: &Meeting, seconds: u64, seed: u64) -> MeetingRun {
    let scenario = Scenario::new("uav network", seconds as f64);
    let scenario = meeting.network.add_to(scenario, 0, &meeting.outages);
    let way = meeting.network.way();
    let datagrams = offered_in_the_world(&scenario, &way, seed, seconds as usize);
    let bytes: Vec<u64> = datagrams.iter().map(|count| count * OFFERED_PAYLOAD as u64).collect();
    MeetingRun { flows: vec![flow_run(&bytes, Vec::new())], queue_drops: 0 }
}

/// The application of one connection: `tcp_flow`'s sender in virtual time.
struct Source {
    /// The connection.
    flow: usize,
    offer: Option<Offer>,
    begin: Instant,
    /// Bytes that it has handed over or given up.
    written: u64,
    samples: Vec<FlowSample>,
}

impl Source {
    /// Hands over whole segments of what is due, as far as the connection takes them.
    fn write(&mut self, world: &mut FlowWorld, now: Instant) {
        let Some(offer) = self.offer else {
            if self.written == 0 && now >= self.begin {
                self.written = ENDLESS;
                world.write(self.flow, ENDLESS);
            }
            return;
        };
        let at = now.since(self.begin);
        self.written = self.written.max(offer.given_up(at));
        let due = (offer.rate.bytes_in(at) - self.written).min(self.room(world));
        let whole = due / OFFER as u64 * OFFER as u64;
        if whole > 0 {
            self.written += whole;
            world.write(self.flow, whole);
        }
    }

    /// Returns when it has a segment to hand over; none while the connection takes nothing.
    fn due(&self, world: &FlowWorld, now: Instant) -> Option<Instant> {
        let Some(offer) = self.offer else { return (self.written == 0).then_some(self.begin) };
        // Rounded up, so that the segment is whole by then.
        let made = offer.rate.transmission_time(self.written as usize + OFFER);
        let at = self.begin + made + Duration::from_nanos(1);
        (self.room(world) >= OFFER as u64).then_some(at.max(now))
    }

    /// Returns how many bytes the connection takes: of a live source, no more than a buffer that it
    /// cannot send.
    fn room(&self, world: &FlowWorld) -> u64 {
        match self.offer {
            Some(Offer { patience: Some(_), .. }) => {
                (LAST_BUFFER * OFFER as u64).saturating_sub(world.sender(self.flow).unsent())
            }
            _ => ENDLESS,
        }
    }

    fn sample(&mut self, world: &FlowWorld, at_s: f64) {
        let statistics = world.statistics(self.flow);
        let info = TcpInfo {
            cwnd: statistics.cwnd,
            ssthresh: Some(statistics.ssthresh).filter(|ssthresh| *ssthresh < u32::MAX),
            srtt: statistics.srtt.unwrap_or_default(),
            retransmits: statistics.retransmitted_segments as u32,
            bytes_acked: statistics.acknowledged_bytes,
            state: match statistics.state {
                State::Open => 0,
                State::Disorder => 1,
                State::Recovery => RECOVERY,
                State::Loss => LOSS,
            },
            ..TcpInfo::default()
        };
        self.samples.push(FlowSample { at_s, info });
    }

    /// Returns what its receiver has read in each second.
    fn finish(self, world: &FlowWorld, origin: Instant, seconds: u64) -> FlowRun {
        let (mut per_second, mut read) = (vec![0; seconds as usize], 0);
        for (at, bytes) in world.delivered(self.flow) {
            if let Some(sum) = per_second.get_mut(at.since(origin).as_secs() as usize) {
                *sum += bytes - read;
            }
            read = *bytes;
        }
        flow_run(&per_second, self.samples)
    }
}

fn flow_run(per_second: &[u64], samples: Vec<FlowSample>) -> FlowRun {
    FlowRun {
        goodput_mbps: per_second.iter().map(|bytes| *bytes as f64 * 8.0 / 1e6).collect(),
        bytes: per_second.iter().sum(),
        samples,
    }
}

#[cfg(test)]
mod tests {
    use netem::{Outage, OutageMode, Rate};

    use super::super::topology::UavNetwork;
    use super::*;

    fn meeting(outages: Vec<Outage>, patience: Option<Duration>) -> Meeting {
        let offered = Some(Offer { rate: Rate::from_mbps(2.5), patience });
        let sender = |uav, scheme, offered| Sender { uav, scheme, offered };
        let network = UavNetwork {
            senders: 3,
            rtt: Duration::from_millis(200),
            hop_rate: Rate::from_mbps(6.0),
            queue_packets: 50,
        };
        let senders = vec![
            sender(0, Scheme::ASRAN_CUBIC, offered),
            sender(1, Scheme::CUBIC, offered),
            sender(2, Scheme::CUBIC, None),
        ];
        Meeting { network, outages, senders }
    }

    #[test]
    fn flows_of_a_calm_hop_have_what_they_offer_and_a_heavy_one_fills_it() {
        let mut meeting = meeting(Vec::new(), Some(Duration::from_millis(100)));
        let run = |meeting: &Meeting| {
            let run = run_meeting(meeting, 20, 1).expect("schemes of the world");
            let mean = |flow: &FlowRun| flow.mean_goodput_mbps(5);
            let mbps: Vec<f64> = run.flows.iter().map(mean).collect();
            (mbps, run.queue_drops, run.flows[0].samples.len())
        };
        let (mbps, drops, samples) = run(&meeting);
        // A segment of 1,448 bytes takes 1,500 of the hop.
        let sum = mbps.iter().sum::<f64>();
        assert!((5.0..5.8).contains(&sum) && mbps[2] > 0.5 && drops > 0, "{mbps:?} {drops}");
        assert_eq!(samples, 401);
        meeting.senders.truncate(2);
        meeting.network.queue_packets = 500;
        let (mbps, drops, _) = run(&meeting);
        assert!(mbps.iter().all(|mbps| (mbps - 2.5).abs() < 0.01) && drops == 0, "{mbps:?}");
    }

    #[test]
    fn a_live_source_gives_up_what_an_outage_stops_and_another_offers_it_later() {
        let outage = Outage {
            start: Instant::from_millis(5_000),
            duration: Duration::from_secs(3),
            mode: OutageMode::Drop,
        };
        let bytes = |patience| {
            let mut meeting = meeting(vec![outage], patience);
            meeting.senders.truncate(1);
            meeting.network.hop_rate = Rate::from_mbps(60.0);
            let run = run_meeting(&meeting, 30, 1).expect("schemes of the world");
            let again = run_meeting(&meeting, 30, 1).expect("schemes of the world");
            assert_eq!(run.flows[0].goodput_mbps, again.flows[0].goodput_mbps);
            assert_eq!(run.flows[0].goodput_mbps[7], 0.0);
            assert!(run.flows[0].samples.iter().any(|sample| sample.info.state == LOSS));
            run.flows[0].bytes as f64 / (2.5e6 / 8.0)
        };
        let (live, backlog) = (bytes(Some(Duration::from_millis(100))), bytes(None));
        assert!((24.0..27.5).contains(&live), "seconds' worth: {live}");
        assert!((29.5..30.0).contains(&backlog), "seconds' worth: {backlog}");
    }

    #[test]
    fn what_the_worlds_tcp_does_not_have_is_refused() {
        let mut meeting = meeting(Vec::new(), None);
        meeting.senders[0].scheme = Scheme::BBR;
        let refused = run_meeting(&meeting, 5, 1).expect_err("no such control");
        assert!(refused.contains("bbr") && refused.contains("--emu"), "{refused}");
    }
}
