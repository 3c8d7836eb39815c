//! `fulmar pair CODE`, on the drone.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ipnet::IpNet;
use proto::{Duration, Guest};
use serde_json::json;
use sys::interfaces;
use sys::print::{print, tell};

use super::arguments::PairArguments;
use super::code::Code;
use super::drone_file::{Station, name_for, put_station};
use super::enrol::{Message, Offer, Request};
use super::links::{self, Link};
use super::offered::{self, Here};
use super::session::Session;
use super::{Reloaded, find_file, load_of, picture};
use crate::config::{Config, Role, TUNNEL};
use crate::edit::sections::{NAME_RULE, is_name, name_of};
use crate::edit::{Editing, Staged, load};
use crate::status::{self, PeerReport};

/// The largest file that can hold a code as text.
const LARGEST_TEXT: u64 = 16 << 10;
/// How long a station is looked for unless somebody says otherwise.
const WAIT: Duration = Duration::from_secs(120);
/// How long one wait for an answer is.
const TURN: Duration = Duration::from_millis(250);
/// What was not answered is said again after this time: a session may have begun anew.
const AGAIN: Duration = Duration::from_secs(10);
/// A station that refuses the code for so long does not know it; anybody on the way can refuse now
/// and then.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// How long the station may take for its last word.
const FAREWELL: Duration = Duration::from_secs(3);
/// How long the drone's own daemon may take to have a session.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);
/// The device of tunnels.
const TUN: &str = "/dev/net/tun";

/// An enrolment under way.
struct Enrolment<'a> {
    arguments: &'a PairArguments,
    file: PathBuf,
    config: Config,
    code: Code,
    guest: Guest,
    session: Session,
    links: Vec<Link>,
    deadline: Instant,
    /// Whether it was said that there is a session.
    told: bool,
}

/// What came of it.
struct Paired {
    offer: Offer,
    station: String,
    links: Vec<String>,
}

pub(super) fn run(arguments: &PairArguments) -> Result<(), String> {
    let done = pair(arguments);
    if let (Err(error), true) = (&done, arguments.json) {
        print(json!({"paired": false, "error": error}))?;
    }
    done
}

fn pair(arguments: &PairArguments) -> Result<(), String> {
    let code = read_code(arguments)?;
    let file = find_file(arguments.config.as_deref(), Some(Role::Drone))?;
    let config = load_of(&file, Role::Drone)?;
    name_for(&config, &code.station, arguments.replace)?;
    if let Some(name) = arguments.name.as_deref().filter(|name| !is_name(name)) {
        return Err(format!("--name {}: a name is {NAME_RULE}", name.escape_debug()));
    }
    if code.station == config.secret.public() {
        return Err("the code is of a station with this drone's own key".into());
    }
    let tunnel = config.tunnel.as_ref().map(|tunnel| tunnel.interface.as_str());
    let links = links::find(&code.addresses, tunnel)?;
    if !arguments.json {
        let over: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
        let to: Vec<_> = code.addresses.iter().map(ToString::to_string).collect();
        tell(format_args!("looking for the station at {} over {}", to.join(", "), over.join(", ")));
    }
    let guest = code.guest();
    let session = Session::begin(&code, &guest, &links)?;
    let wait = arguments.wait.unwrap_or(WAIT);
    let deadline = Instant::now() + std::time::Duration::from(wait);
    let mut enrolment =
        Enrolment { arguments, file, config, code, guest, session, links, deadline, told: false };
    let paired = enrolment.enrol()?;
    let Enrolment { file, config, session, .. } = enrolment;
    // The session ends before the daemon begins its own.
    drop(session);
    report(arguments, &file, &config, &paired)
}

impl Enrolment<'_> {
    fn enrol(&mut self) -> Result<Paired, String> {
        let wish = self.arguments.name.clone().unwrap_or_else(host_name);
        let tunnel =
            !self.arguments.no_tunnel && (self.config.tunnel.is_some() || Path::new(TUN).exists());
        let station = self.code.station;
        let request = Request::new(&self.config.secret, &station, &self.guest, wish, tunnel);
        let offer = match self.ask(&Message::Request(request))? {
            Message::Offer(offer) => offer,
            _ => return Err("the station speaks another version of enrolment".into()),
        };
        self.check(&offer, tunnel)?;
        let links = self.working_links();
        let (staged, station) = self.stage(&offer, &links)?;
        match self.ask(&Message::Confirm)? {
            Message::Done => staged.take_over()?,
            _ => return Err("the station speaks another version of enrolment".into()),
        }
        self.session.say(&Message::Finished)?;
        let until = Instant::now() + std::time::Duration::from(FAREWELL);
        // Without it the station waits until its code is over, and that is all.
        while Instant::now() < until && !matches!(self.session.hear(TURN), Ok(Some(_)) | Err(_)) {}
        let links = links.into_iter().map(|link| link.name).collect();
        Ok(Paired { offer, station, links })
    }

    /// Tells whether this drone takes an offer.
    fn check(&self, offer: &Offer, asked: bool) -> Result<(), String> {
        let networks =
            interfaces::networks().map_err(|error| format!("list the networks: {error}"))?;
        // That of an earlier pairing is there already.
        let tunnel = self.config.tunnel.as_ref().map_or(TUNNEL, |tunnel| &tunnel.interface);
        let others: Vec<_> = networks.into_iter().filter(|(name, ..)| name != tunnel).collect();
        let here = Here {
            asked,
            remotes: &self.code.addresses,
            networks: &others,
            public_keys: [self.code.station, self.config.secret.public()],
        };
        offered::check(offer, &here)
    }

    /// Says something until it is answered.
    fn ask(&mut self, message: &Message) -> Result<Message, String> {
        let is_confirmed = matches!(message, Message::Confirm);
        self.session.say(message)?;
        let mut said = Instant::now();
        let mut refused_since = None;
        loop {
            match (self.session.hear(TURN)?, message) {
                (Some(Message::Refused { why }), _) => {
                    return Err(format!("the station refuses: {why}"));
                }
                (Some(answer @ Message::Offer(_)), Message::Request(_))
                | (Some(answer @ Message::Done), Message::Confirm) => return Ok(answer),
                // An answer to what was said twice.
                (_, _) => {}
            }
            let Some(peer) = self.look() else { continue };
            let since = refused_since.get_or_insert_with(Instant::now).elapsed();
            if !peer.refused || peer.connected {
                refused_since = None;
            } else if since > REFUSED_FOR.into() {
                return Err(not_known(is_confirmed));
            }
            if Instant::now() > self.deadline {
                return Err(given_up(&peer, is_confirmed, self.arguments.wait.unwrap_or(WAIT)));
            }
            if peer.connected && said.elapsed() > AGAIN.into() {
                self.session.say(message)?;
                said = Instant::now();
            }
        }
    }

    /// Looks at the session; tells once that there is one.
    fn look(&mut self) -> Option<PeerReport> {
        let peer = self.session.report()?.peers.into_iter().next()?;
        if peer.connected && !std::mem::replace(&mut self.told, true) && !self.arguments.json {
            tell("the station answers");
        }
        Some(peer)
    }

    /// Returns the links over which the station answers, or all if that is not known.
    fn working_links(&mut self) -> Vec<Link> {
        let peer = self.look().unwrap_or_default();
        let works = |link: &&Link| {
            peer.paths.iter().any(|path| path.name == link.name && path.state == "active")
        };
        let working: Vec<_> = self.links.iter().filter(works).cloned().collect();
        if working.is_empty() { self.links.clone() } else { working }
    }

    /// Puts the new file on disk; returns it, and what the station is called in it.
    fn stage(&self, offer: &Offer, links: &[Link]) -> Result<(Staged, String), String> {
        let mut editing = Editing::begin(&self.file)?;
        // As the file is now, and with it locked.
        let config = load(&self.file)?;
        let name = name_for(&config, &self.code.station, self.arguments.replace)?;
        let secret_file = editing.write_secret(&name, &offer.secret()?)?;
        let station = Station {
            key: &self.code.station,
            remotes: &self.code.addresses,
            links,
            addresses: &offer.station_addresses,
            own_addresses: &offer.addresses,
        };
        put_station(&mut editing.document, &name, &secret_file, &station);
        Ok((editing.stage()?, name))
    }
}

fn read_code(arguments: &PairArguments) -> Result<Code, String> {
    if let Some(file) = &arguments.picture {
        return picture::read(file, Code::read);
    }
    let (read, place) = match (&arguments.file, arguments.code.as_slice()) {
        (Some(file), _) => {
            let open = std::fs::File::open(file);
            let text = open.and_then(read_text);
            let named = |error: std::io::Error| format!("{}: {error}", file.display());
            (Code::find(&text.map_err(named)?), format!("the code in {}", file.display()))
        }
        (None, [only]) if only == "-" => {
            let text = read_text(std::io::stdin());
            (Code::find(&text.map_err(|error| format!("stdin: {error}"))?), "the code".into())
        }
        (None, groups) => (Code::read(&groups.concat()), "the code".into()),
    };
    read.map_err(|why| format!("{place} {why}"))
}

fn read_text(from: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    from.take(LARGEST_TEXT).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns this host's name, as a drone may be called.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name_of(name.trim())
}

fn not_known(is_confirmed: bool) -> String {
    if is_confirmed {
        return "the station has ended the pairing, and it is not known whether it has enrolled this drone: see \
                fulmar peers there, remove the drone if it is listed, and begin again with a new code"
            .into();
    }
    "the station does not take this code: its time is over, or it was used. Make another (fulmar pair at the station). \
     If the station says that it was used, and that was not you: fulmar peers remove NAME there"
        .into()
}

/// Says why no answer came.
fn given_up(peer: &PeerReport, is_confirmed: bool, waited: Duration) -> String {
    if peer.refused && !peer.connected {
        return not_known(is_confirmed);
    }
    let waited = waited.as_secs();
    if is_confirmed {
        return format!(
            "the link was lost in the middle, for {waited} s. Nothing was changed here; the same code goes on from \
             there as long as it is valid"
        );
    }
    if peer.connected {
        return "the station has a session with this drone, and does not answer: is fulmar pair still running there?"
            .into();
    }
    let mut text = format!("no answer from the station within {waited} s");
    for path in &peer.paths {
        let trouble = if path.trouble.is_empty() { "no answer" } else { &path.trouble };
        text += &format!("\n  {} to {}: {trouble}", path.name, path.remote);
    }
    text += "\nis the address right (fulmar pair --address there), and does a firewall let UDP to that port through?";
    text
}

/// Lets the drone's daemon take its new file over, and says what came of it all.
fn report(
    arguments: &PairArguments,
    file: &Path,
    config: &Config,
    paired: &Paired,
) -> Result<(), String> {
    let Paired { offer, station, links } = paired;
    let reloaded = Reloaded::by(&config.status, &config.secret.public());
    let advice = reloaded.advice(file);
    let is_connected =
        matches!(reloaded, Reloaded::Yes) && wait_for_session(&config.status, station);
    let addresses: Vec<_> = offer.addresses.iter().map(IpNet::to_string).collect();
    if arguments.json {
        return print(json!({
            "paired": true,
            "name": offer.name,
            "station": station,
            "file": file,
            "addresses": addresses,
            "links": links,
            "daemon": reloaded.word(),
            "connected": is_connected,
            "advice": advice.unwrap_or_default(),
        }));
    }
    let tunnel = match addresses.as_slice() {
        [] => String::new(),
        addresses => format!(", in the tunnel {}", addresses.join(" and ")),
    };
    print(format_args!(
        "this drone is {} at the station{tunnel}; the station answered over {}\n{} has it as {station}",
        offer.name,
        links.join(", "),
        file.display(),
    ))?;
    match advice {
        Some(advice) => print(advice),
        None if is_connected => print("the daemon has taken it over and is connected"),
        None => {
            print("the daemon has taken it over, and has no session yet: fulmar status --watch")
        }
    }
}

fn wait_for_session(socket: &Path, station: &str) -> bool {
    let until = Instant::now() + std::time::Duration::from(CONNECTED_WITHIN);
    while Instant::now() < until {
        let report = status::fetch(socket).unwrap_or_default();
        if report.peers.iter().any(|peer| peer.name == station && peer.connected) {
            return true;
        }
        std::thread::sleep(TURN.into());
    }
    false
}
