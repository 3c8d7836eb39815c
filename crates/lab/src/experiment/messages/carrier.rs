//! Carries messages by one scheme from the station's application to the drone's.
//!
//! Through daemons both applications hold SEQPACKET sockets: their messages stay whole, and the
//! writer waits while the session has no room. Over the kernel's own transports they hold the
//! sockets themselves.

use std::path::{Path, PathBuf};
use std::thread;

use proto::MessageForm;
use sys::clock::now;
use sys::seqpacket::Seqpacket;
use units::{Duration, Instant};

use super::point::LrtParameters;
use crate::scheme::{Carries, Scheme};
use crate::testbed::carrier::Carrier;
use crate::testbed::channel::{Channel, Inlet, Outlet, messages};
use crate::testbed::daemon::{DaemonPlan, Daemons};
use crate::testbed::interruption;
use crate::testbed::links::{Copy, Side};
use crate::testbed::{Programs, Stream};

/// What is said before the run; no message of a run is this short.
const GREETING: &[u8] = b"fulmar-lab greets";
/// Greetings that are enough, and the time between two: daemons find out meanwhile how large their
/// datagrams may be, and how long a round trip takes.
const GREETINGS: u32 = 20;
const BETWEEN_GREETINGS: Duration = Duration::from_millis(100);
/// How long everything may take to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Carries messages by one scheme; dropping it ends its daemons.
pub(crate) struct MessageCarrier {
    scheme: Scheme,
    channel: Option<(Outlet, Inlet)>,
    daemons: Option<Daemons>,
    programs: Programs,
    /// The other halves, which are not used and must not close.
    _kept: Vec<Channel>,
}

impl MessageCarrier {
    /// Starts what the scheme needs.
    ///
    /// # Errors
    /// Says what could not be started, or that the scheme does not exist in real time.
    pub(crate) fn start(
        scheme: Scheme,
        copy: &Copy<'_>,
        parameters: &LrtParameters,
    ) -> Result<Self, String> {
        match scheme {
            Scheme::FULMAR | Scheme::LRT => {
                let transport = match scheme {
                    Scheme::LRT => published_form(parameters),
                    _ => String::new(),
                };
                Self::through_daemons(scheme, copy, &transport, 0)
            }
            Scheme::UDP
            | Scheme::KERNEL_TCP_CUBIC
            | Scheme::KERNEL_TCP_BBR
            | Scheme::KERNEL_TCP_RENO
            | Scheme::Command(_) => {
                let mut carrier = Carrier::start(scheme, copy, &[Stream::Control])?;
                let mut take = |side| {
                    let channel = carrier.channels.remove(&(side, Stream::Control));
                    channel.ok_or_else(|| "no channel".to_owned())
                };
                let (station, drone) = (take(Side::Station)?, take(Side::Drone)?);
                let own = Self::new(scheme, station, drone, None);
                Ok(Self { programs: carrier.programs, ..own })
            }
            _ => Err("carries no messages in real time: use --sim".to_owned()),
        }
    }

    /// Starts a pair of daemons, number `pair` on its hosts, with these lines of `[transport]`.
    ///
    /// # Errors
    /// As of [`MessageCarrier::start`].
    pub(crate) fn through_daemons(
        scheme: Scheme,
        copy: &Copy<'_>,
        transport: &str,
        pair: u16,
    ) -> Result<Self, String> {
        let plan = DaemonPlan {
            transport,
            path_lines: &|_| String::new(),
            carried: None,
            endpoints: &endpoint,
            tunnel_mtu: None,
            relays: None,
            realtime: true,
            pair,
        };
        let daemons = Daemons::start_with(&plan, copy)?;
        let open = |side| connect(&socket(daemons.folder(), side)).map(messages);
        let (station, drone) = (open(Side::Station)?, open(Side::Drone)?);
        Ok(Self::new(scheme, station, drone, Some(daemons)))
    }

    fn new(scheme: Scheme, station: Channel, drone: Channel, daemons: Option<Daemons>) -> Self {
        let ((outlet, back), (forth, inlet)) = (station, drone);
        let (channel, programs) = (Some((outlet, inlet)), Programs::default());
        Self { scheme, channel, daemons, programs, _kept: vec![(forth, back)] }
    }

    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Tells whether every message arrives in the end.
    pub(crate) fn is_reliable(&self) -> bool {
        match self.scheme {
            Scheme::Command(scheme) => {
                scheme.carries() == Carries::Connections && !scheme.has_failed()
            }
            scheme => scheme != Scheme::UDP,
        }
    }

    /// Says so when a daemon has ended; where somebody's own program has failed, that is noted.
    ///
    /// # Errors
    /// When one has.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.programs.note_failed();
        let describe = |error| format!("{}: {error}", self.scheme);
        self.daemons.as_mut().map_or(Ok(()), |daemons| daemons.check().map_err(describe))
    }

    /// Greets until the way works, and waits until nothing is under way any more.
    ///
    /// # Errors
    /// When nothing is heard in time.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let settled = self.greet();
        interruption::check()?;
        match (self.scheme, settled) {
            (Scheme::Command(scheme), Err(why)) => {
                scheme.fail(self.programs.with_last_words(why));
                Ok(())
            }
            (_, settled) => settled,
        }
    }

    fn greet(&mut self) -> Result<(), String> {
        let deadline = now() + PATIENCE;
        let (mut said, mut heard) = (0, 0);
        while said < GREETINGS || heard < self.wanted(said) {
            interruption::check()?;
            self.check()?;
            if self.scheme.has_failed() {
                return Ok(());
            }
            if now() > deadline {
                return Err(format!("{}: {heard} of {said} greetings came through", self.scheme));
            }
            let Some((outlet, inlet)) = &mut self.channel else { return Ok(()) };
            if said < GREETINGS && outlet.send(GREETING, true) {
                said += 1;
            }
            outlet.flush();
            let until = now() + BETWEEN_GREETINGS;
            while now() < until {
                // A channel that is broken stays silent, which is what is reported.
                let _ = inlet.receive(|_| heard += 1);
            }
        }
        Ok(())
    }

    /// Hands the channel over: the station's sending half and the drone's receiving half.
    ///
    /// # Errors
    /// When it was handed over before.
    pub(crate) fn take_channel(&mut self) -> Result<(Outlet, Inlet), String> {
        self.channel.take().ok_or_else(|| "its channel is in use".to_owned())
    }

    /// Returns how many of a number of greetings must come through.
    fn wanted(&self, said: u32) -> u32 {
        if self.is_reliable() { said } else { 1 }
    }
}

/// Returns the path of a side's socket.
fn socket(folder: &Path, side: Side) -> PathBuf {
    folder.join(format!("{}-messages.sock", side.name()))
}

/// Returns the lines of a daemon's file that choose the published protocol [LRT §III].
fn published_form(parameters: &LrtParameters) -> String {
    match parameters.faithful_form() {
        MessageForm::Elastic | MessageForm::Tuned(_) => String::new(),
        MessageForm::Lrt { k, redundancy, beta } => format!(
            "message_form = \"lrt\"\nlrt_symbols = {k}\nlrt_redundancy = {redundancy:?}\n\
             lrt_share = {beta:?}\n"
        ),
    }
}

/// Returns the section of a daemon's file.
fn endpoint(side: Side, folder: &Path) -> String {
    let path = socket(folder, side);
    format!(
        "\n[[message]]\nname = \"messages\"\nchannel = 30\nkind = \"seqpacket\"\npath = \"{}\"\n",
        path.display()
    )
}

/// Connects to a daemon that is about to listen.
fn connect(path: &Path) -> Result<Seqpacket, String> {
    let deadline: Instant = now() + PATIENCE;
    loop {
        match Seqpacket::connect(path) {
            Ok(socket) => return Ok(socket),
            Err(error) if now() > deadline => {
                return Err(format!("connect to {}: {error}", path.display()));
            }
            Err(_) => thread::sleep(Duration::from_millis(20).into()),
        }
        interruption::check()?;
    }
}
