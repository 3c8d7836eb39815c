//! Parameters and a file over MAVLink in real time, with commands beside them.
//!
//! ```text
//! ground's application ─→ daemon ═ one link ═ daemon ─→ vehicle's application, and back
//! ```
//! Both applications are threads of this program and read one clock. Every cell has a link of its
//! own, all at the same time; in some nothing is moved, so that commands have it for themselves.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use netem::Scenario;
use proto::select::{Version, encode_frame};
use sys::clock::now;
use sys::realtime::{prefer_realtime, set_timer_slack};
use sys::wakeup::Wakeup;
use units::{Duration, Instant};

use super::transfer::{Ground, Taken, TransferPlan, Vehicle, read_frame};
use crate::doubt::at_best;
use crate::testbed::daemon::{DaemonPlan, Daemons, MAVLINK_PORT};
use crate::testbed::interruption;
use crate::testbed::interruption::sleep_until;
use crate::testbed::links::{Copy, Side, Testbed};
use emulator::{Audit, Claim, Stalls};

/// The audit passes where the emulator's error stays below a tenth of this.
const RESOLUTION: Duration = Duration::from_millis(10);
/// How long the daemons may take to come up, and how long they run before anything is measured.
const PATIENCE: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_secs(3);
/// From one command to the next, and from one heartbeat.
const COMMAND_EVERY: Duration = Duration::from_millis(20);
const HEARTBEAT_EVERY: Duration = Duration::from_millis(500);
/// How long commands are awaited after the last one: their time to live.
const DRAIN: Duration = Duration::from_secs(2);
/// How often an application looks whether the run is over.
const LOOK: Duration = Duration::from_millis(50);
/// Below the emulator and the daemons, which do the work.
const PRIORITY: i32 = 5;
const HEARTBEAT: u32 = 0;
const COMMAND_LONG: u32 = 76;
const COMMAND_ACK: u32 = 77;

/// How MAVLink's bulk travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BulkForm {
    /// Through daemons, coded, as messages.
    Messages,
    /// Through daemons, sent again when lost.
    Resent,
    /// Without daemons.
    Plain,
}

/// A link and what goes over it.
#[derive(Clone, Debug)]
pub(crate) struct MavlinkCell {
    pub(crate) scenario: Scenario,
    pub(crate) form: BulkForm,
    /// Whether anything is moved beside the commands.
    pub(crate) moves: bool,
}

/// What came of a cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct MavlinkRun {
    /// What parameters, burst and reads took; none where nothing was moved.
    pub(crate) taken: Option<[Taken; 3]>,
    /// Delays of the commands to the vehicle, then from it, milliseconds.
    pub(crate) delays_ms: [Vec<f64>; 2],
    /// Commands that never came.
    pub(crate) lost: usize,
    /// All of them.
    pub(crate) commands: usize,
}

/// The diary of the commands in one direction.
#[derive(Debug, Default)]
struct Commands {
    sent: Vec<Instant>,
    delays: Vec<Option<Duration>>,
}

/// What came of a cell, moment by moment.
struct Diary {
    taken: Option<[Taken; 3]>,
    commands: [Commands; 2],
}

impl Diary {
    /// Returns what came of it at best, had nothing stood still in `stalls`; times count from
    /// `zero`.
    fn run(&self, zero: Instant, stalls: &Stalls) -> MavlinkRun {
        let mut run = MavlinkRun { taken: self.taken, ..MavlinkRun::default() };
        for taken in run.taken.iter_mut().flatten() {
            let from_s = taken.began.since(zero).as_secs_f64();
            taken.seconds = taken.seconds.map(|s| s - stalls.error_s(from_s, from_s + s));
        }
        for (commands, delays_ms) in self.commands.iter().zip(&mut run.delays_ms) {
            run.commands += commands.sent.len();
            for (sent, delay) in commands.sent.iter().zip(&commands.delays) {
                let sent = sent.since(zero);
                let mut came = delay.map(|delay| sent + delay);
                let counts = at_best(sent, &mut came, stalls);
                match came {
                    Some(at) => delays_ms.push(at.saturating_sub(sent).as_secs_f64() * 1e3),
                    None => run.lost += usize::from(counts),
                }
            }
        }
        run
    }
}

type Shared = Arc<Mutex<[Commands; 2]>>;

/// Runs all cells at the same time until everything has been moved, or `limit` per step has passed.
/// Returns what was seen of each, and what would have been seen at best had nothing stood still.
///
/// # Errors
/// Says which part of the set-up failed.
pub(crate) fn run_mavlink(
    cells: &[MavlinkCell],
    plan: TransferPlan,
    limit: Duration,
    seed: u64,
) -> Result<(Vec<(MavlinkRun, MavlinkRun)>, Audit), String> {
    let scenarios: Vec<Scenario> = cells.iter().map(|cell| cell.scenario.clone()).collect();
    let mut testbed =
        Testbed::start_each(&scenarios, seed, Claim::of_realtime_programs(RESOLUTION))?;
    let mut places = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        places.push(Place::open(&testbed.copy(number), cell)?);
    }
    let (start, stop) = (testbed.begin(SETTLE), Arc::new(AtomicBool::new(false)));
    let mut running = Vec::new();
    for (place, cell) in places.into_iter().zip(cells) {
        running.push(Running::start(place, cell.moves.then_some(plan), limit, start, &stop)?);
    }
    let mut patience = PATIENCE + limit * 3;
    while running.iter().any(Running::is_busy) && !patience.is_zero() {
        sleep_until(now() + LOOK)?;
        patience = patience.saturating_sub(LOOK);
        for running in &mut running {
            running.check()?;
        }
    }
    stop.store(true, Ordering::Relaxed);
    sleep_until(now() + DRAIN)?;
    let diaries: Vec<Diary> = running.into_iter().map(Running::finish).collect();
    let audit = testbed.finish();
    let run =
        |diary: &Diary| (diary.run(start, &Stalls::default()), diary.run(start, &audit.stalls));
    Ok((diaries.iter().map(run).collect(), audit))
}

/// The sockets of a cell's applications, and its daemons.
struct Place {
    daemons: Option<Daemons>,
    ground: UdpSocket,
    vehicle: UdpSocket,
}

impl Place {
    fn open(copy: &Copy<'_>, cell: &MavlinkCell) -> Result<Self, String> {
        let transport = match cell.form {
            BulkForm::Resent => "coded_bulk = false\n",
            BulkForm::Messages | BulkForm::Plain => "",
        };
        let endpoints = |_: Side, _: &std::path::Path| {
            format!(
                "\n[[mavlink]]\nname = \"mavlink\"\nkind = \"udp-server\"\n\
                 address = \"127.0.0.1:{MAVLINK_PORT}\"\nradio_status_hz = 0\nstatustext = false\n\
                 renumber = false\n"
            )
        };
        let plan = DaemonPlan {
            path_lines: &|_| String::new(),
            transport,
            carried: None,
            endpoints: &endpoints,
            tunnel_mtu: None,
            relays: None,
            realtime: true,
            pair: 0,
        };
        let daemons = match cell.form {
            BulkForm::Plain => None,
            _ => Some(Daemons::start_with(&plan, copy)?),
        };
        let socket = |side: Side| {
            let (own, other) = match cell.form {
                BulkForm::Plain => (copy.address(side, 0)?, copy.address(side.other(), 0)?),
                _ => (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST),
            };
            let port = if cell.form == BulkForm::Plain { MAVLINK_PORT } else { MAVLINK_PORT + 1 };
            let (own, other): (SocketAddr, SocketAddr) =
                ((own, port).into(), (other, MAVLINK_PORT).into());
            copy.enter(side, || {
                let socket = UdpSocket::bind(own)?;
                socket.connect(other)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            })
        };
        Ok(Self { daemons, ground: socket(Side::Station)?, vehicle: socket(Side::Drone)? })
    }
}

struct Running {
    daemons: Option<Daemons>,
    moves: bool,
    commands: Shared,
    ground: JoinHandle<Option<[Taken; 3]>>,
    vehicle: JoinHandle<()>,
    done: Arc<AtomicBool>,
}

impl Running {
    fn start(
        place: Place,
        plan: Option<TransferPlan>,
        limit: Duration,
        start: Instant,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let (commands, done): (Shared, _) = (Shared::default(), Arc::new(AtomicBool::new(false)));
        let describe = |error: std::io::Error| format!("start an application: {error}");
        let peer = |socket, direction| {
            let wakeup = Wakeup::new().map_err(describe)?;
            let (commands, stop, done) =
                (Arc::clone(&commands), Arc::clone(stop), Arc::clone(&done));
            Ok::<_, String>(Peer { socket, wakeup, direction, commands, start, stop, done })
        };
        let (on_ground, on_vehicle) = (peer(place.ground, 0)?, peer(place.vehicle, 1)?);
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let ground = spawn("ground").spawn(move || on_ground.be_ground(plan, limit));
        let vehicle = spawn("vehicle").spawn(move || on_vehicle.be_vehicle(plan));
        Ok(Self {
            daemons: place.daemons,
            moves: plan.is_some(),
            commands,
            ground: ground.map_err(describe)?,
            vehicle: vehicle.map_err(describe)?,
            done,
        })
    }

    fn is_busy(&self) -> bool {
        self.moves && !self.done.load(Ordering::Relaxed)
    }

    fn check(&mut self) -> Result<(), String> {
        self.daemons.as_mut().map_or(Ok(()), Daemons::check)
    }

    fn finish(self) -> Diary {
        let taken = self.ground.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        self.vehicle.join().unwrap_or_else(|p| std::panic::resume_unwind(p));
        let commands = std::mem::take(&mut *locked(&self.commands));
        Diary { taken, commands }
    }
}

/// One application.
struct Peer {
    socket: UdpSocket,
    wakeup: Wakeup,
    /// 0 at the ground, 1 at the vehicle: of the commands that it sends.
    direction: usize,
    commands: Shared,
    start: Instant,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
}

impl Peer {
    fn be_ground(self, plan: Option<TransferPlan>, limit: Duration) -> Option<[Taken; 3]> {
        let mut ground: Option<Ground> = None;
        self.play(|at, came, out| {
            let Some(plan) = plan.filter(|_| at >= self.start) else {
                return self.start.max(at + LOOK);
            };
            let ground = ground.get_or_insert_with(|| Ground::new(plan, at));
            if let Some((id, payload)) = came {
                ground.handle(at, id, payload);
            }
            self.done.store(ground.is_done(), Ordering::Relaxed);
            loop {
                match ground.poll(at, limit) {
                    Ok(frame) => out(&frame),
                    Err(_) if ground.is_done() => return at + LOOK,
                    Err(next) => return next,
                }
            }
        });
        ground.map(|ground| ground.taken())
    }

    fn be_vehicle(self, plan: Option<TransferPlan>) {
        let mut vehicle = plan.map(Vehicle::new);
        self.play(|at, came, out| {
            let Some(vehicle) = &mut vehicle else { return at + LOOK };
            if let Some((id, payload)) = came {
                vehicle.handle(id, payload);
            }
            loop {
                match vehicle.poll(at) {
                    Ok(frame) => out(&frame),
                    Err(next) => return next.unwrap_or(at + LOOK),
                }
            }
        });
    }

    /// Sends commands and heartbeats at their times, and lets `act` do the rest: it is given what
    /// came, sends what it wants, and says when it wants to be called again.
    fn play(
        &self,
        mut act: impl FnMut(Instant, Option<(u32, &[u8])>, &mut dyn FnMut(&[u8])) -> Instant,
    ) {
        let _ = set_timer_slack(Duration::from_nanos(1));
        prefer_realtime(PRIORITY);
        let (mut next_command, mut next_heartbeat) = (self.start, now());
        let mut stopped = None;
        let mut buffer = [0; 512];
        loop {
            let at = now();
            if interruption::is_asked() || stopped.is_some_and(|since| at.since(since) > DRAIN) {
                return;
            }
            if self.stop.load(Ordering::Relaxed) {
                stopped.get_or_insert(at);
            }
            if at >= next_heartbeat {
                self.send(&frame(self.direction, HEARTBEAT, &[0, 0, 0, 0, 6, 8, 0, 0, 3]));
                next_heartbeat += HEARTBEAT_EVERY;
            }
            if at >= next_command && stopped.is_none() && !self.done.load(Ordering::Relaxed) {
                self.send_command(at);
                next_command += COMMAND_EVERY;
            }
            let came =
                self.socket.recv(&mut buffer).ok().and_then(|len| read_frame(&buffer[..len]));
            if let Some((id, payload)) = &came {
                self.note_command(*id, payload);
            }
            let next =
                act(at, came.as_ref().map(|(id, payload)| (*id, &payload[..])), &mut |frame| {
                    self.send(frame)
                });
            if came.is_none() {
                let next = if next_command > at { next.min(next_command) } else { next };
                let until = next.min(next_heartbeat).min(at + LOOK);
                // An error would mean that the socket is gone, which shows as commands lost.
                let _ = self.wakeup.wait_with(self.socket.as_fd(), Some(until.since(now())));
            }
        }
    }

    fn send(&self, frame: &[u8]) {
        // A full buffer loses the datagram, as it does to any application.
        let _ = self.socket.send(frame);
    }

    fn send_command(&self, at: Instant) {
        let number = {
            let mut commands = locked(&self.commands);
            let own = &mut commands[self.direction];
            own.sent.push(at);
            own.delays.push(None);
            own.sent.len() as u32 - 1
        };
        let mut payload = [1; 33];
        payload[4..8].copy_from_slice(&number.to_le_bytes());
        // Whom it is for: the last bytes of one, the ninth and tenth of the other.
        let (id, len) = if self.direction == 0 { (COMMAND_LONG, 33) } else { (COMMAND_ACK, 10) };
        self.send(&frame(self.direction, id, &payload[..len]));
    }

    fn note_command(&self, id: u32, payload: &[u8]) {
        let wanted = if self.direction == 0 { COMMAND_ACK } else { COMMAND_LONG };
        let Some(number) = payload.get(4..8).and_then(|bytes| bytes.try_into().ok()) else {
            return;
        };
        if id != wanted {
            return;
        }
        let (number, at) = (u32::from_le_bytes(number) as usize, now());
        let mut commands = locked(&self.commands);
        let others = &mut commands[1 - self.direction];
        if let (Some(sent), Some(delay)) = (others.sent.get(number), others.delays.get_mut(number))
        {
            delay.get_or_insert(at.since(*sent));
        }
    }
}

fn frame(direction: usize, id: u32, payload: &[u8]) -> Vec<u8> {
    let source = if direction == 0 { (255, 190) } else { (1, 1) };
    encode_frame(Version::V2, 0, source, id, payload).unwrap_or_default()
}

fn locked(commands: &Shared) -> MutexGuard<'_, [Commands; 2]> {
    commands.lock().unwrap_or_else(PoisonError::into_inner)
}
