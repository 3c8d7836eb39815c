//! `fulmar pair` at the station: shows codes, and enrols who comes with them.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use proto::{Duration, PublicKey};
use serde_json::{Value, json};
use sys::interfaces;
use sys::print::{Reader, print_while_read, tell};
use zeroize::Zeroizing;

use super::arguments::PairArguments;
use super::code::{ADDRESSES, Code, grouped};
use super::desk::{News, Register, Ticket, Used};
use super::enrol::{Message, harmless};
use super::qr::Symbol;
use super::{Reloaded, find_file, load_of};
use crate::config::{Config, Remote, Role};
use crate::edit::sections::{NAME_RULE, is_name};
use crate::guest_socket::{GuestDesk, Identity, Report, Request};

/// How long a code is valid unless somebody says otherwise: as long as a walk from the station to
/// the drone.
const VALID: Duration = Duration::from_secs(600);
/// The same of a list: as long as it takes to go along a hangar.
const LIST_VALID: Duration = Duration::from_secs(4 * 3_600);
/// The largest list that is read, in bytes.
const LARGEST_LIST: u64 = 1 << 16;
/// How long the last drone may take to go.
const LEFT_WITHIN: Duration = Duration::from_secs(2);
/// How often the time is looked at.
const TURN: Duration = Duration::from_secs(1);

/// A code and whose it is to be.
pub(super) struct Shown {
    name: Option<String>,
    pub(super) text: Zeroizing<String>,
}

pub(super) fn run(arguments: &PairArguments) -> Result<(), String> {
    let (shown, counter) = open(arguments)?;
    show(arguments, &shown, counter.valid)?;
    counter.serve(&mut Terminal { json: arguments.json })
}

/// Makes codes, and has the daemon take on who comes with them: from here on they are valid.
pub(super) fn open(arguments: &PairArguments) -> Result<(Vec<Shown>, Counter), String> {
    let file = find_file(arguments.config.as_deref(), Some(Role::Station))?;
    let config = load_of(&file, Role::Station)?;
    let names = names(arguments, &config)?;
    let addresses = addresses(arguments, &config)?;
    let usual = if arguments.list.is_some() { LIST_VALID } else { VALID };
    let valid = arguments.valid.unwrap_or(usual);
    let (mut shown, mut tickets, mut identities) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        let seed = sys::entropy::seed().map_err(|error| format!("draw random numbers: {error}"))?;
        let mut secret = Zeroizing::new([0; 16]);
        secret.copy_from_slice(&Zeroizing::new(seed)[..16]);
        let code = Code { station: config.secret.public(), secret, addresses: addresses.clone() };
        let guest = code.guest();
        let (key, shared) = (guest.secret.public(), proto::PublicKey(*guest.preshared_key));
        let (public_key, preshared_key) = (key.to_string(), shared.to_string());
        identities.push(Identity { public_key, preshared_key });
        shown.push(Shown { name: name.clone(), text: code.text()? });
        tickets.push(Ticket::new(name, key));
    }
    let froms = vec![String::new(); tickets.len()];
    let desk = GuestDesk::open(&config.status, valid, identities)?;
    let deadline = Instant::now() + std::time::Duration::from(valid);
    let register = Register::new(&file, arguments.replace, tickets);
    let (socket, stay, key) = (config.status, arguments.stay, config.secret.public());
    Ok((shown, Counter { file, socket, key, stay, desk, register, froms, valid, deadline }))
}

/// Who hears what becomes of codes.
pub(super) trait Audience {
    /// Hears an event, and the same in words.
    fn tell(&mut self, event: Value, line: String) -> Result<Reader, String>;

    /// Tells whether the codes are still wanted; asked every second.
    fn stays(&self) -> bool {
        true
    }
}

/// The operator, or a script.
struct Terminal {
    json: bool,
}

impl Audience for Terminal {
    fn tell(&mut self, event: Value, line: String) -> Result<Reader, String> {
        if self.json { print_while_read(event) } else { print_while_read(line) }
    }
}

/// Where drones come with their codes.
pub(super) struct Counter {
    file: PathBuf,
    socket: PathBuf,
    key: PublicKey,
    /// Whether it stays until the time is over.
    stay: bool,
    desk: GuestDesk,
    register: Register,
    /// Where each code's user comes from.
    froms: Vec<String>,
    /// How long the codes are valid.
    pub(super) valid: Duration,
    /// Until when.
    pub(super) deadline: Instant,
}

impl Counter {
    /// Serves until every code is used, or the time is over, or the audience has gone; then the
    /// codes are.
    pub(super) fn serve(mut self, audience: &mut dyn Audience) -> Result<(), String> {
        while Instant::now() < self.deadline && audience.stays() {
            let is_done = self.register.tickets().iter().all(Ticket::is_settled);
            if is_done && !self.stay {
                return self.see_out();
            }
            let reader = match self.desk.hear(TURN) {
                // The daemon has a clock of its own.
                Err(_) if Instant::now() + std::time::Duration::from(TURN) > self.deadline => break,
                heard => match heard? {
                    Some(Report::Came { guest, from }) => self.note_arrival(audience, guest, from)?,
                    Some(Report::Said { guest, text }) => self.answer(audience, guest, &text)?,
                    Some(Report::Doubled { guest, from }) => self.tell(
                        audience,
                        guest,
                        json!({"event": "doubled", "from": from}),
                        &format!(
                            "somebody at {from} uses the same code at the same time, and was turned away: was the \
                             code seen?"
                        ),
                    )?,
                    Some(_) | None => Reader::There,
                },
            };
            if reader == Reader::Gone {
                return Ok(());
            }
        }
        let tickets = self.register.tickets();
        let is_open = |ticket: &&Ticket| !ticket.is_used();
        let open: Vec<_> =
            tickets.iter().filter(is_open).map(|ticket| ticket.name.as_deref()).collect();
        match open.as_slice() {
            [] => Ok(()),
            [None] => Err("the time is over, and nobody was enrolled".into()),
            names => {
                let names: Vec<_> = names.iter().copied().flatten().collect();
                Err(format!("the time is over; not enrolled: {}", names.join(", ")))
            }
        }
    }

    /// Waits until the last drone has heard the last word, and has gone.
    fn see_out(&mut self) -> Result<(), String> {
        let until = Instant::now() + std::time::Duration::from(LEFT_WITHIN);
        while Instant::now() < until && !matches!(self.desk.hear(TURN)?, Some(Report::Left { .. }))
        {
        }
        Ok(())
    }

    fn note_arrival(
        &mut self,
        audience: &mut dyn Audience,
        guest: usize,
        from: String,
    ) -> Result<Reader, String> {
        if let Some(place) = self.froms.get_mut(guest) {
            place.clone_from(&from);
        }
        self.tell(
            audience,
            guest,
            json!({"event": "came", "from": from}),
            &format!("a drone comes from {from}"),
        )
    }

    fn answer(
        &mut self,
        audience: &mut dyn Audience,
        guest: usize,
        text: &str,
    ) -> Result<Reader, String> {
        let from = self.froms.get(guest).cloned().unwrap_or_default();
        let used = Used { from: from.clone(), at: clock() };
        let outcome = self.register.handle(guest, text, &used);
        let reader = match outcome.news {
            None => Reader::There,
            Some(News::Enrolled { name, key, addresses, endpoints }) => {
                self.note_enrolled(audience, guest, (&name, &key), &from, (&addresses, &endpoints))?
            }
            Some(News::Settled { name }) => self.tell(
                audience,
                guest,
                json!({"event": "settled", "name": name}),
                &format!("{name} has taken it over"),
            )?,
            Some(News::Refused { why }) => {
                let why = harmless(&why);
                let line = format!("refused somebody at {from}: {why}");
                self.tell(
                    audience,
                    guest,
                    json!({"event": "refused", "from": from, "why": why}),
                    &line,
                )?
            }
        };
        if let Some(answer) = outcome.answer {
            self.desk.ask(&Request::Tell { guest, text: Message::text(&answer) })?;
        }
        Ok(reader)
    }

    /// Lets the daemon take a drone on, before the drone is told.
    fn note_enrolled(
        &self,
        audience: &mut dyn Audience,
        guest: usize,
        (name, key): (&str, &str),
        from: &str,
        (addresses, endpoints): (&[String], &[String]),
    ) -> Result<Reader, String> {
        let reloaded = Reloaded::by(&self.socket, &self.key);
        let advice = reloaded.advice(&self.file);
        let event = json!({
            "event": "enrolled",
            "name": name,
            "public_key": key,
            "from": from,
            "addresses": addresses,
            "endpoints": endpoints,
            "daemon": reloaded.word(),
            "advice": advice,
        });
        let mut line = format!("{name} is enrolled, from {from}; its key is {key}");
        if !addresses.is_empty() {
            line += &format!("\n  in the tunnel: {}", addresses.join(", "));
        }
        if !endpoints.is_empty() {
            line += &format!(
                "\n  its endpoints, after those of the first drone: {}",
                endpoints.join(", ")
            );
        }
        if let Some(advice) = advice {
            line += &format!("\n  {advice}");
        }
        self.tell(audience, guest, event, &line)
    }

    /// Tells something about a code.
    fn tell(
        &self,
        audience: &mut dyn Audience,
        guest: usize,
        mut event: Value,
        line: &str,
    ) -> Result<Reader, String> {
        let ticket = self.register.tickets().get(guest);
        let name = ticket.and_then(|ticket| ticket.name.as_deref());
        let at = clock();
        let whose = name.map_or(String::new(), |name| format!("code for {name}: "));
        let line = format!("{at} {whose}{line}");
        (event["at"], event["code_for"]) = (at.into(), name.into());
        audience.tell(event, line)
    }
}

/// Says for whom codes are to be made.
fn names(arguments: &PairArguments, config: &Config) -> Result<Vec<Option<String>>, String> {
    let names = match &arguments.list {
        None => vec![arguments.name.clone()],
        Some(list) => read_list(list)?.into_iter().map(Some).collect(),
    };
    for name in names.iter().flatten() {
        if !is_name(name) {
            return Err(format!("\"{}\" cannot be a name: {NAME_RULE}", name.escape_debug()));
        }
        if !arguments.replace && config.peers.iter().any(|peer| peer.name == *name) {
            return Err(format!(
                "there is a peer {name} already: --replace lets the new drone take its place, fulmar peers remove \
                 {name} ends it"
            ));
        }
    }
    Ok(names)
}

fn read_list(list: &Path) -> Result<Vec<String>, String> {
    let named = |what: String| format!("{}: {what}", list.display());
    let length = list.metadata().map_err(|error| named(error.to_string()))?.len();
    if length > LARGEST_LIST {
        return Err(named(format!("{length} bytes are more than a list of names has")));
    }
    let text = fs::read_to_string(list).map_err(|error| named(error.to_string()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let names: Vec<_> = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(named(format!("{twice} is there twice")));
    }
    if names.is_empty() {
        return Err(named("has no name".into()));
    }
    Ok(names)
}

/// Says where drones will look for this station.
fn addresses(arguments: &PairArguments, config: &Config) -> Result<Vec<Remote>, String> {
    if arguments.address.len() > ADDRESSES {
        return Err(format!("a code has room for {ADDRESSES} addresses"));
    }
    if !arguments.address.is_empty() {
        warn_of_loopback(&arguments.address);
        return Ok(arguments.address.clone());
    }
    let here = interfaces::list().map_err(|error| format!("list the interfaces: {error}"))?;
    let mut found = listening(config, here.iter().filter(|at| at.running));
    if found.is_empty() {
        // A link that has just come, or is about to come back.
        found = listening(config, here.iter());
    }
    // IPv4 first: it is what most links of drones have.
    found.sort_by_key(SocketAddr::is_ipv6);
    let mut seen = BTreeSet::new();
    found.retain(|address| seen.insert(*address));
    found.truncate(ADDRESSES);
    if found.is_empty() {
        return Err("no interface of this host has an address that drones could reach: name one with --address".into());
    }
    let found: Vec<_> = found.into_iter().map(Remote::Address).collect();
    warn_of_loopback(&found);
    Ok(found)
}

/// Warns of addresses at which no other computer finds this one.
fn warn_of_loopback(addresses: &[Remote]) {
    let loopback = addresses.iter().filter_map(Remote::address).filter(|at| at.ip().is_loopback());
    for address in loopback {
        let ip = address.ip();
        tell(format_args!(
            "warning: {ip} is this computer's own: only a drone's daemon that runs here reaches it"
        ));
    }
}

/// Returns where the station can be reached at these interfaces.
fn listening<'i>(
    config: &Config,
    here: impl Iterator<Item = &'i interfaces::Interface> + Clone,
) -> Vec<SocketAddr> {
    let tunnel = config.tunnel.as_ref().map(|tunnel| tunnel.interface.as_str());
    let mut found = Vec::new();
    for listen in &config.listens {
        let (ip, port) = (listen.address.ip(), listen.address.port());
        if !ip.is_unspecified() {
            found.push(listen.address);
            continue;
        }
        let ours = |at: &&interfaces::Interface| {
            let is_wanted = listen.interface.as_ref().is_none_or(|name| *name == at.name);
            is_wanted && Some(at.name.as_str()) != tunnel
        };
        let all = here.clone().filter(ours).flat_map(|at| &at.addresses);
        let fits = |at: &&std::net::IpAddr| at.is_ipv4() == ip.is_ipv4() && !at.is_loopback();
        found.extend(all.filter(fits).map(|at| SocketAddr::new(*at, port)));
    }
    found
}

/// Shows the codes: on the terminal, as files, as JSON.
fn show(arguments: &PairArguments, codes: &[Shown], valid: Duration) -> Result<(), String> {
    if let Some(folder) = &arguments.out {
        return write_all(arguments, folder, codes, valid);
    }
    for Shown { name, text } in codes {
        let symbol = Symbol::of(text)?;
        if let Some(png) = &arguments.png {
            write(png, &symbol.png()?)?;
        }
        if let Some(svg) = &arguments.svg {
            write(svg, symbol.svg().as_bytes())?;
        }
        if arguments.json {
            let event = json!({"event": "code", "code": **text, "code_for": name, "valid_s": valid.as_secs()});
            print_while_read(event)?;
        } else if arguments.list.is_some() {
            print_while_read(format_args!("{} {}", name.as_deref().unwrap_or_default(), **text))?;
        } else {
            if std::io::stdout().is_terminal() {
                print_while_read(&*symbol.for_terminal())?;
            }
            print_while_read(&*grouped(text))?;
        }
    }
    if !arguments.json {
        tell(format_args!(
            "on the drone: fulmar pair CODE, with what is above; valid for {}, once. Ctrl-C ends it",
            in_words(valid)
        ));
    }
    Ok(())
}

/// Writes the codes of a list into a folder.
fn write_all(
    arguments: &PairArguments,
    folder: &Path,
    codes: &[Shown],
    valid: Duration,
) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("make {}: {error}", folder.display()))?;
    for Shown { name, text } in codes {
        let name = name.as_deref().unwrap_or_default();
        let file = |end: &str| -> PathBuf { folder.join(format!("{name}.{end}")) };
        write(&file("txt"), format!("# {name}\n{}\n", *grouped(text)).as_bytes())?;
        write(&file("png"), &Symbol::of(text)?.png()?)?;
        if arguments.json {
            let event = json!({"event": "code", "file": file("txt"), "code_for": name, "valid_s": valid.as_secs()});
            print_while_read(event)?;
        }
    }
    tell(format_args!(
        "{} codes are in {}; each is valid for {}, once. Ctrl-C ends them all",
        codes.len(),
        folder.display(),
        in_words(valid)
    ));
    Ok(())
}

/// Writes a file that holds a secret, in the place of an older one.
fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let named = |error: std::io::Error| format!("write {}: {error}", path.display());
    if path.exists() {
        // What others may have opened is not what we write into.
        fs::remove_file(path).map_err(named)?;
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(named)?;
    file.write_all(bytes).map_err(named)
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds % 3_600 == 0 => format!("{} h", seconds / 3_600),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// Returns the time of day in UTC: a log's reader compares it with other hosts'.
fn clock() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (hours, minutes, seconds) = (since / 3_600 % 24, since / 60 % 60, since % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}Z")
}
