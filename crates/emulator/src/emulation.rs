//! An emulation in progress: hosts to run programs in, links between them, an audit at the end.
//!
//! Experiments and the `emulate` command hold one of these while their programs run; the emulator's
//! loop is `engine`.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use netem::{DropCause, LinkEnd, LinkStats, Net, Scenario};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sys::clock::now;
use sys::packet_ring::{PacketRing, PacketSender};
use sys::timens;
use units::{Duration, Instant};

use crate::audit::{Audit, Claim, Lateness, Measurements};
use crate::engine::{Desk, Engine, Order, Parts};
use crate::network::{self, Host, Network};
use crate::queue_delay::{QueueDelay, QueueDelays, QueueWatch};
use crate::stalls::{StallLog, Stalled};
use crate::verdict_log::VerdictLog;
use crate::witness::Witness;

/// How long the engine may take to answer before we check that it is alive.
const PATIENCE: Duration = Duration::from_millis(100);

/// Says how an emulation is to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the run wants to measure; the audit judges by it.
    pub claim: Claim,
    /// The longest IP packet of the links, in bytes.
    pub mtu: u32,
    /// Frames that may wait for the emulator; 8,192 overflowed in trials, 32,768 did not.
    pub ring_frames: usize,
    /// A CSV file for every verdict.
    pub log: Option<PathBuf>,
    /// The packets whose time in queues is reported with the links' counts at the end.
    pub queue_watch: Option<QueueWatch>,
    /// Lays each link between two hosts as a plain cable instead, of whose limits nothing is
    /// emulated: nothing is counted on it either, and the audit knows nothing of it.
    pub cables: bool,
    /// Makes the emulator late on purpose, to test its audit.
    pub sabotage: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            claim: Claim::default(),
            mtu: 1_500,
            ring_frames: 32_768,
            log: None,
            queue_watch: None,
            cables: false,
            sabotage: Duration::ZERO,
        }
    }
}

/// Counts of one direction of one link, for one receiver.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkReport {
    /// The link's name.
    pub link: String,
    /// Where packets enter it.
    #[serde(skip)]
    pub entry: LinkEnd,
    /// The sending host.
    pub from: String,
    /// The receiving host; a broadcast has one report for each.
    pub to: String,
    /// Its place in the scenario.
    #[serde(skip)]
    pub receiver: usize,
    /// Packets that entered.
    pub packets_in: u64,
    /// Their bytes, IP headers included.
    pub bytes_in: u64,
    /// Everything that the link counted.
    #[serde(skip)]
    pub stats: LinkStats,
    /// Packets that came or will come out, copies of the link's own excluded.
    pub packets_out: u64,
    /// Their bytes, IP headers included.
    pub bytes_out: u64,
    /// Packets dropped, by cause.
    pub dropped: Map<String, Value>,
    /// The most bytes that ever waited in the queue.
    pub queue_bytes_max: u64,
    /// How long packets waited in it; where [`Options::queue_watch`] asked, at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_delay: Option<QueueDelay>,
}

/// Hosts and links in real time.
///
/// Dropping it takes the links away; programs that still run in a host stay alive until they end
/// or, under [`sys::isolate`], until this process does.
#[derive(Debug)]
pub struct Emulation {
    scenario: Scenario,
    seed: u64,
    claim: Claim,
    network: Network,
    desk: Arc<Desk>,
    origin: Instant,
    /// When the scenario's time is zero.
    zero: Instant,
    witnesses: Vec<Witness>,
    engine: Option<JoinHandle<Measurements>>,
}

impl Emulation {
    /// Makes the hosts and links of `scenario` and starts to carry packets. The links are calm:
    /// [`begin`](Self::begin) says when the scenario's time is zero.
    ///
    /// The same `seed` gives the same verdicts on the same packets at the same times.
    ///
    /// # Errors
    ///
    /// Needs the right to make network namespaces: call [`sys::isolate::isolate`] first thing in
    /// `main`, which gets it for ordinary users too.
    pub fn start(scenario: &Scenario, seed: u64, options: &Options) -> io::Result<Self> {
        check_clocks(scenario)?;
        let network = network::build(scenario, options.mtu, options.cables)?;
        let (frames, mtu) = (options.ring_frames, options.mtu as usize);
        let open = || Ok((PacketRing::open(frames, mtu)?, PacketSender::open()?));
        let (ring, sender) = network.emulator.run(open).and_then(|opened: io::Result<_>| opened)?;
        let log = options.log.as_deref().map(VerdictLog::create);
        let desk = Arc::new(Desk::new()?);
        let origin = now();
        let shortest = options.claim.tolerance();
        let parts = Parts {
            net: Box::new(Net::calm(scenario, seed)),
            origin,
            ports: network.ports.clone(),
            ring,
            sender,
            log: log.transpose()?,
            queue_delays: QueueDelays::new(options.queue_watch),
            stalls: StallLog::new(Stalled::Emulator, shortest),
            sabotage: options.sabotage,
        };
        let witnesses = Witness::start_all(shortest)?;
        let engine_desk = Arc::clone(&desk);
        let namespace = network.emulator.try_clone()?;
        let engine = thread::Builder::new().name("emulator".to_owned()).spawn(move || {
            // Without it only a frame that is refused is hard to explain.
            let _ = namespace.enter();
            Engine::run(parts, engine_desk)
        })?;
        Ok(Self {
            scenario: scenario.clone(),
            seed,
            claim: options.claim,
            network,
            desk,
            origin,
            zero: origin,
            witnesses,
            engine: Some(engine),
        })
    }

    /// Starts the links anew, idle and as the seed has them, and begins the audit. The scenario's
    /// time will be zero `lead` from now, at the instant returned; until then the links are calm.
    /// Packets on their way are forgotten.
    ///
    /// For experiments whose programs take a while to start.
    pub fn begin(&mut self, lead: Duration) -> Instant {
        let mut net = Box::new(Net::calm(&self.scenario, self.seed));
        net.begin(Instant::ZERO + lead);
        let (began, beginning) = sync_channel(1);
        self.desk.order(Order::Begin(net, began));
        // A packet sent after this call must not be among those forgotten.
        self.origin = loop {
            match beginning.recv_timeout(PATIENCE.into()) {
                Ok(origin) => break origin,
                // The engine died; `finish` says why.
                Err(_) if self.engine.as_ref().is_none_or(JoinHandle::is_finished) => break now(),
                Err(_) => {}
            }
        };
        self.witnesses.iter().for_each(Witness::reset);
        self.zero = self.origin + lead;
        self.zero
    }

    /// Returns the time since the links were started anew.
    pub fn elapsed(&self) -> Duration {
        now().since(self.origin)
    }

    /// Starts `command` inside a host.
    ///
    /// It finds its network in its environment; see [`Self::environment`]. Its monotonic clock has
    /// the host's offset where the kernel has time namespaces.
    ///
    /// # Errors
    ///
    /// When the scenario has no such host, or the command does not start.
    pub fn spawn(&self, host: &str, mut command: Command) -> io::Result<Child> {
        let place = self.host(host)?;
        place.namespace.place(&mut command);
        if place.clock_offset_ns != 0 && timens::is_available() {
            timens::place(&mut command, place.clock_offset_ns);
        }
        command.envs(self.environment(host));
        command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            io::Error::new(error.kind(), format!("start {program} in {host}: {error}"))
        })
    }

    /// Runs `work` on a thread inside a host, to make sockets there: they stay in it, whichever
    /// thread uses them later.
    ///
    /// # Errors
    ///
    /// When the scenario has no such host.
    ///
    /// # Panics
    ///
    /// Passes on a panic of `work`.
    pub fn enter<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.host(host)?.namespace.run(work)
    }

    /// Returns the address of a host on a link, `None` where the host is not on it.
    ///
    /// Link number n (from 0, in the order of the scenario) has 10.77.n.0/24; the host that the
    /// link names first is .1, the other .2.
    pub fn address(&self, host: &str, link: &str) -> Option<Ipv4Addr> {
        let host = self.scenario.host(host)?;
        let interfaces = self.scenario.interfaces(host);
        let on_link = |link_number| self.scenario.link_name(link_number) == Some(link);
        interfaces.iter().find(|interface| on_link(interface.link)).map(|found| found.address)
    }

    /// Returns what a program inside `host` is told: `FULMAR_HOST`, `FULMAR_ADDRESS_<HOST>_<LINK>`
    /// of every host on every link, and `FULMAR_NETNS_<HOST>`, a path for `nsenter --net=`.
    ///
    /// Names are in capitals, with `_` for what is neither letter nor digit.
    pub fn environment(&self, host: &str) -> Vec<(String, String)> {
        let mut variables = vec![("FULMAR_HOST".to_owned(), host.to_owned())];
        for (index, other) in self.network.hosts.iter().enumerate() {
            let name = variable(&other.name);
            let path = other.namespace.path().display().to_string();
            variables.push((format!("FULMAR_NETNS_{name}"), path));
            for interface in self.scenario.interfaces(index) {
                let link = variable(self.scenario.link_name(interface.link).unwrap_or_default());
                let key = format!("FULMAR_ADDRESS_{name}_{link}");
                variables.push((key, interface.address.to_string()));
            }
        }
        variables
    }

    /// Returns a path of a host's namespace for `nsenter --net=PATH` in a shell outside, valid
    /// while this process lives.
    ///
    /// # Panics
    ///
    /// When the scenario has no such host.
    pub fn outer_namespace_path(&self, host: &str) -> PathBuf {
        let host = self.host(host).expect("the caller takes the name from the scenario");
        host.namespace.outer_path()
    }

    /// Returns the names of the hosts, in the order of the scenario.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.network.hosts.iter().map(|host| host.name.as_str())
    }

    /// Returns the counts of all links, at most a tenth of a second old.
    pub fn links(&self) -> Vec<LinkReport> {
        let view = self.desk.view();
        let report = |(entry, to, stats): &(LinkEnd, usize, LinkStats)| {
            LinkReport::of(&self.scenario, *entry, *to, stats)
        };
        view.links.iter().map(report).collect()
    }

    /// Returns how late frames have been so far, at most a tenth of a second old.
    pub fn lateness(&self) -> Lateness {
        self.desk.view().lateness
    }

    /// Ends the run: takes the links away, judges, and returns the audit and the links' counts.
    pub fn finish(mut self) -> (Audit, Vec<LinkReport>) {
        let measurements = self.stop();
        let mut links = self.links();
        let mut measurements = measurements.expect("a running emulation has its engine");
        for link in &mut links {
            link.queue_delay = measurements.queue_delays.of(link.entry, link.receiver);
        }
        for witness in &self.witnesses {
            let (wakeups, stalls) = witness.notes();
            measurements.ordinary_wakeups += wakeups;
            measurements.stalls.push(stalls);
        }
        (Audit::judge(&measurements, self.claim, self.zero), links)
    }

    fn stop(&mut self) -> Option<Measurements> {
        let engine = self.engine.take()?;
        self.desk.order(Order::Stop);
        Some(engine.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    fn host(&self, name: &str) -> io::Result<&Host> {
        self.network.hosts.iter().find(|host| host.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.hosts().collect();
            let message = format!("no host {name}; the scenario has {}", known.join(", "));
            io::Error::new(io::ErrorKind::NotFound, message)
        })
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop();
        } else {
            self.desk.order(Order::Stop);
        }
    }
}

impl LinkReport {
    fn of(scenario: &Scenario, entry: LinkEnd, to: usize, stats: &LinkStats) -> Self {
        let dropped = DropCause::ALL
            .into_iter()
            .map(|cause| (cause.name().to_owned(), json!(stats.drops(cause))));
        Self {
            link: scenario.link_name(entry.link).unwrap_or_default().to_owned(),
            entry,
            from: scenario.sender(entry).to_owned(),
            to: scenario.hosts[to].name.clone(),
            receiver: to,
            packets_in: stats.packets_in,
            bytes_in: stats.bytes_in,
            stats: stats.clone(),
            packets_out: stats.packets_out,
            bytes_out: stats.bytes_out,
            dropped: dropped.collect(),
            queue_bytes_max: stats.queue_bytes_max,
            queue_delay: None,
        }
    }
}

/// Refuses clocks that the kernel would refuse later in less helpful words.
fn check_clocks(scenario: &Scenario) -> io::Result<()> {
    let up = i64::try_from(now().as_nanos()).unwrap_or(i64::MAX);
    let early = scenario.hosts.iter().find(|host| host.clock.offset_ns.saturating_add(up) < 0);
    early.map_or(Ok(()), |host| {
        let message = format!(
            "host {}: its clock offset reaches further back than this machine has been up",
            host.name
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    })
}

fn variable(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect()
}
