//! Runs flows in virtual time: the world's model of TCP over real sessions.
//!
//! It knows CUBIC and NewReno, our own schemes, and TCP with low-rate retry over the first link.
//! Pings and control go beside the flow as in real time. A connection of requests is two flows
//! there, one each way, whose packets hold a request or an answer each.

use netem::Scenario;
use units::{Duration, Instant, Rate};
use world::tcp::{Congestion, FlowHost, FlowOptions, FlowWorld, LowRateRetry};

use super::Cc;
use super::beside::workload;
use super::flow::{BulkRun, Flow};
use super::point::{LINK_MTU, Scene, TUNNEL_MTU};
use super::requests::{BYTES, DRAIN, Requests};
use super::{point, repair};
use crate::experiment::streams::ledger::{Ledger, StreamRun};
use crate::experiment::streams::workload::{PlannedPacket, packet_bytes};
use crate::scheme::{Scheme, SessionScheme};
use crate::testbed::world::{Places, calm, wire_bytes};
use crate::testbed::{Direction, Recording, Stamp, Stream, WireBytes};

/// From the beginning of the run to that of the flow: handshakes, probes, and the start-up.
const LEAD_IN: Duration = Duration::from_secs(5);
/// The rate of repeats in place of what TCP does not send [FlowCode §V].
pub(super) const RETRY_RATE: Rate = Rate::from_bps(10_000);
/// What the world puts around a packet on a link.
const DATAGRAM_HEADERS: usize = 28;
/// How often the sender's round-trip time is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a scene with one seed; why not, where the model does not know it.
///
/// # Errors
/// When the scheme is no session's.
pub(super) fn run_flow(
    scene: &Scene,
    scheme: Scheme,
    cc: Cc,
    seed: u64,
) -> Result<Result<BulkRun, String>, String> {
    // Over a bare link there is one way for what goes beside the flow: that of a plain session will
    // do.
    let session = match scheme {
        Scheme::Session(session) => session,
        Scheme::TCP_LRR => SessionScheme::MinRtt,
        _ => return Err(format!("{scheme} needs a real kernel: run it with --emu")),
    };
    let congestion = match cc {
        Cc::Cubic => Congestion::Cubic,
        Cc::Reno => Congestion::Reno,
        Cc::Bbr => return Ok(Err("the world's TCP has no bbr: use --emu".to_owned())),
    };
    if scene.is_of_cables() {
        return Ok(Err("what processors carry takes processors: use --emu".to_owned()));
    }
    let (scenario, hosts) = match scheme {
        Scheme::TCP_LRR => with_retry(scene)?,
        _ => {
            let hosts = FlowHost::over_session(&scene.scenario, &session.config(), seed)?;
            (scene.scenario.clone(), hosts)
        }
    };
    let scenario = &scenario;
    let mut world = FlowWorld::new(scenario, hosts, &calm(seed));
    let (start, places) = (Instant::ZERO + LEAD_IN, Places::of(scenario)?);
    if let Some(farther) = scene.point.outside() {
        world.let_share(scenario, farther)?;
    }
    world.world.begin(start);
    // Where no link carries anything yet, the session goes on trying while the flow does.
    world.connect(start);
    let mut run = Run::new(world, scene, session, places, congestion, start)?;
    run.run_until(start);
    let mtu = if scheme == Scheme::TCP_LRR { LINK_MTU } else { TUNNEL_MTU } as usize;
    let options = FlowOptions { congestion, mtu, ..FlowOptions::default() };
    Ok(Ok(flow_through(run, scenario, options)))
}

/// Lets the flows run, and somebody else's beside them where there is one, and reads what came of
/// it.
fn flow_through(mut run: Run<'_>, scenario: &Scenario, options: FlowOptions) -> BulkRun {
    let wire = |run: &Run<'_>| -> u64 {
        let all = wire_bytes(&run.world.world, scenario, run.places);
        let all: u64 = all.iter().map(|wire| wire.entered()).sum();
        all - run.world.outside_bytes()
    };
    let (scene, start, drone) = (run.scene, run.start, run.places.drone);
    let before = wire(&run);
    let numbers: Vec<usize> = (0..scene.flows).map(|_| run.world.start(drone, options)).collect();
    let other = scene.point.outside().map(|_| {
        let mtu = LINK_MTU as usize - DATAGRAM_HEADERS;
        let options = FlowOptions { mtu, ..FlowOptions::default() };
        run.world.start_outside(drone, options)
    });
    let end = start + Duration::from_secs_f64(scene.seconds);
    let mut flows = vec![Flow::new(scene.seconds); scene.flows];
    while run.world.world.now() < end {
        run.run_until(end.min(run.world.world.now() + LOOK));
        for (flow, number) in flows.iter_mut().zip(&numbers) {
            let srtt = run.world.statistics(*number).srtt;
            flow.srtt_ms.extend(srtt.map(|srtt| srtt.as_secs_f64() * 1e3));
        }
    }
    for (flow, number) in flows.iter_mut().zip(&numbers) {
        let mut read = 0;
        for (at, bytes) in run.world.delivered(*number) {
            flow.on_delivered(at.since(start).as_secs_f64(), (bytes - read) as usize);
            read = *bytes;
        }
        let statistics = run.world.statistics(*number);
        flow.retransmits = Some(statistics.retransmitted_segments);
        flow.timeouts = Some(statistics.rto_timeouts);
        run.world.finish(*number);
    }
    let wire_bytes = Some(wire(&run) - before);
    let outside_mbps = other.map(|flow| run.world.goodput(flow, start, end).as_bps() as f64 / 1e6);
    if let Some(flow) = other {
        run.world.finish(flow);
    }
    let status = run.world.world.host(drone).status(run.world.world.host_now(drone));
    let repair_share = status.and_then(|status| repair::of_session(&status.tunnel));
    run.run_until(start + Duration::from_secs_f64(scene.end()) + DRAIN);
    let (flow, each) = Flow::together(flows);
    let (beside, requests) = run.finish();
    BulkRun { flow, each, beside, requests, wire_bytes, outside_mbps, repair_share, cpu_s: None }
}

/// Returns the first link alone, and hosts on it that repeat what is not acknowledged.
fn with_retry(scene: &Scene) -> Result<(Scenario, [FlowHost; 2]), String> {
    let mut scenario = scene.scenario.clone();
    scenario.links.truncate(1);
    let retry = || LowRateRetry::new(RETRY_RATE, LINK_MTU as usize);
    let hosts = FlowHost::over_links(&scenario)?.map(|host| host.with_retry(retry()));
    Ok((scenario, hosts))
}

/// The world, and the applications beside the flow.
struct Run<'a> {
    world: FlowWorld,
    scene: &'a Scene,
    scheme: SessionScheme,
    places: Places,
    /// When the flow begins.
    start: Instant,
    recording: Recording,
    plans: [Vec<PlannedPacket>; 2],
    /// The next of each.
    next: [usize; 2],
    ledgers: [Ledger; 2],
    requests: Option<(Requests, Asking)>,
    congestion: Congestion,
}

/// What requests go over.
#[derive(Clone, Debug)]
enum Asking {
    /// A connection that stays, one way and the other.
    Kept([Way; 2]),
    /// A connection each: the flows that have not brought everything, with their numbers.
    Each(Vec<(usize, usize)>),
}

/// One way of the connection of requests.
#[derive(Clone, Copy, Debug)]
struct Way {
    flow: usize,
    /// Bytes that its receiver has read and we have seen to.
    read: u64,
}

impl<'a> Run<'a> {
    fn new(
        mut world: FlowWorld,
        scene: &'a Scene,
        scheme: SessionScheme,
        places: Places,
        congestion: Congestion,
        start: Instant,
    ) -> Result<Self, String> {
        let (recording, workload) = (Recording::load()?, workload(scene));
        let plans = Direction::BOTH.map(|direction| workload.plan(direction, &recording));
        let ledgers = Direction::BOTH
            .map(|direction| Ledger::new(&plans[direction as usize], direction, &recording));
        let requests = scene.requests_alone().map(|_| {
            let mut way = |from| Way { flow: world.start(from, request(congestion, 0)), read: 0 };
            let asking = match scene.has_connections() {
                true => Asking::Each(Vec::new()),
                false => Asking::Kept([places.drone, places.station].map(&mut way)),
            };
            (Requests::default(), asking)
        });
        let next = [0; 2];
        Ok(Self {
            world,
            scene,
            scheme,
            places,
            start,
            recording,
            plans,
            next,
            ledgers,
            requests,
            congestion,
        })
    }

    /// Lets everything happen up to `limit`.
    fn run_until(&mut self, limit: Instant) {
        loop {
            let due = self.due().filter(|due| *due <= limit);
            while self.world.step(due.unwrap_or(limit)) {
                self.answer();
            }
            if due.is_none() {
                return;
            }
            self.send_due();
        }
    }

    fn finish(self) -> (StreamRun, Option<Requests>) {
        let wire = [WireBytes::default(); 2];
        let beside = StreamRun {
            ledgers: self.ledgers,
            wire,
            by_link: Vec::new(),
            stalls: None,
            status: None,
            connected: None,
        };
        (beside, self.requests.map(|(requests, _)| requests))
    }

    /// Returns when the next packet or request is sent.
    fn due(&self) -> Option<Instant> {
        let request = self.requests.as_ref().and_then(|(requests, _)| requests.due(self.scene));
        let next = self.plans.iter().zip(self.next);
        let packets = next.filter_map(|(plan, next)| plan.get(next).map(|packet| packet.at));
        Some(self.start + packets.chain(request).min()?)
    }

    /// Sends what is due.
    fn send_due(&mut self) {
        let at = self.world.world.now().since(self.start);
        for direction in Direction::BOTH {
            let (way, host) = (direction as usize, self.places.sender(direction));
            while let Some(packet) = self.plans[way].get(self.next[way])
                && packet.at <= at
            {
                let bytes = packet_bytes(packet, direction, &self.recording, at);
                self.world.send_datagram(host, self.scheme.source(packet.stream), &bytes);
                self.ledgers[way].on_sent(packet, at);
                self.next[way] += 1;
            }
        }
        let Some((requests, asking)) = &mut self.requests else { return };
        if requests.due(self.scene).is_some_and(|due| due <= at) {
            match asking {
                Asking::Kept([there, _]) => self.world.write(there.flow, BYTES as u64),
                Asking::Each(open) => {
                    let options = request(self.congestion, BYTES as u64);
                    open.push((requests.sent(), self.world.start(self.places.drone, options)));
                }
            }
            requests.on_sent(at);
        }
    }

    /// Notes what came, and answers pings and requests.
    fn answer(&mut self) {
        let at = self.world.world.now().since(self.start);
        for host in [self.places.station, self.places.drone] {
            let direction = self.places.received_by(host);
            while let Some(bytes) = self.world.poll_datagram(host) {
                match Stamp::answer(&bytes) {
                    Some(answer) => {
                        let source = self.scheme.source(Stream::Ping);
                        self.world.send_datagram(host, source, &answer);
                    }
                    None => {
                        let measured = Stamp::measured(&bytes, direction);
                        self.ledgers[measured as usize].on_delivered(&bytes, at);
                    }
                }
            }
        }
        let Some((requests, asking)) = &mut self.requests else { return };
        match asking {
            Asking::Kept([there, back]) => {
                let came = there.read(&self.world);
                if came > 0 {
                    self.world.write(back.flow, came);
                }
                requests.on_answer(at, back.read(&self.world) as usize);
            }
            Asking::Each(open) => open.retain(|(number, flow)| {
                let came = self.world.delivered(*flow).last().map_or(0, |(_, bytes)| *bytes);
                if came == BYTES as u64 {
                    requests.on_arrival(at, *number);
                }
                came < BYTES as u64
            }),
        }
    }
}

/// Returns a flow whose packets hold a request each.
fn request(congestion: Congestion, bytes: u64) -> FlowOptions {
    let mtu = BYTES + point::TCP_HEADERS as usize;
    FlowOptions { congestion, mtu, bytes: Some(bytes), ..FlowOptions::default() }
}

impl Way {
    /// Returns the bytes that came since the last call.
    fn read(&mut self, world: &FlowWorld) -> u64 {
        let read = world.delivered(self.flow).last().map_or(0, |(_, bytes)| *bytes);
        read - core::mem::replace(&mut self.read, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::bulk::figures::row;
    use crate::experiment::bulk::point::Point;

    fn figures(point: Point, scheme: Scheme) -> serde_json::Value {
        let scene = point.scenes(4, "", 1).expect("a sound scenario").remove(0);
        let run = run_flow(&scene, scheme, Cc::Cubic, 1).expect("a session");
        row(scheme, "cubic", &scene, &run.expect("the model knows it"), None)
    }

    #[test]
    fn two_flows_share_what_one_would_have() {
        let row = figures(Point::Two, Scheme::FULMAR);
        let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        assert!(of("jain") > 0.5 && of("goodput_mbps") > 15.0, "{row}");
        assert_eq!(of("repair_share"), 0.0);
        assert!((1.0..1.3).contains(&of("wire_overhead")), "{row}");
    }

    #[test]
    fn somebody_elses_flow_shares_the_first_link_and_its_bytes_are_not_ours() {
        let row = figures(Point::Outside, Scheme::FULMAR);
        let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        // Both together have what the links carry.
        let both = of("outside_mbps") + of("goodput_mbps");
        assert!(of("outside_mbps") > 1.0 && (18.0..28.5).contains(&both), "{row}");
        assert!((1.0..1.3).contains(&of("wire_overhead")), "{row}");
        assert_eq!(row["down"]["control_sent"], 200);
        assert!(figures(Point::Clean, Scheme::FULMAR)["outside_mbps"].is_null());
    }

    #[test]
    fn requests_and_pings_take_at_least_a_round_trip_beside_the_flow_and_without_it() {
        let row = figures(Point::Requests, Scheme::FULMAR);
        let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        // The shortest way there and back is 20 ms.
        for key in ["request_p50_ms", "request_alone_p50_ms", "ping_p50_ms"] {
            assert!((20.0..150.0).contains(&of(key)), "{key} in {row}");
        }
        assert!(of("request_p95_ms") >= of("request_p50_ms"), "{row}");
        assert_eq!(row["jain"], serde_json::Value::Null);
    }

    #[test]
    fn what_has_a_connection_of_its_own_takes_a_round_trip_and_a_half_at_least() {
        let row = figures(Point::Connections, Scheme::FULMAR);
        let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        for key in ["request_p50_ms", "request_alone_p50_ms"] {
            assert!((30.0..200.0).contains(&of(key)), "{key} in {row}");
        }
        assert!(of("request_alone_p95_ms") < 200.0, "{row}");
    }

    #[test]
    fn tcp_with_low_rate_retry_has_the_first_link_alone() {
        let row = figures(Point::Clean, Scheme::TCP_LRR);
        let efficiency = row["efficiency_tcp"].as_f64().expect("a share");
        assert!((0.7..=1.0).contains(&efficiency), "{row}");
        assert!(row["of_all"].as_f64().is_some_and(|share| share < 0.72), "{row}");
        assert!(row["ping_p50_ms"].as_f64().is_some_and(|ms| ms >= 20.0), "{row}");
    }

    #[test]
    fn cables_are_for_real_processors() {
        let scene = Point::Veth.scenes(4, "", 1).expect("a sound scenario").remove(0);
        let run = run_flow(&scene, Scheme::FULMAR, Cc::Cubic, 1).expect("a session");
        assert!(run.is_err_and(|why| why.contains("--emu")));
    }
}
