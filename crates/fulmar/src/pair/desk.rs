//! The station's side of an enrolment: codes, each of which counts once, and what becomes of who
//! comes with one.
//!
//! Everything here is decided from what was said; files are edited, and nothing else is done.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use proto::PublicKey;

use super::enrol::{Message, Offer, Request};
use crate::config::{Config, Peer};
use crate::edit::sections::{NewPeer, put_peer};
use crate::edit::{Editing, load};
use crate::keys;

/// Addresses of a tunnel that are looked at for a free one.
const TRIED: u32 = 1 << 16;
/// Lines about what one code's users did wrong; more are not shown.
const TOLD: u32 = 8;
/// Characters of a wished name that are left where a number follows.
const SHORT: usize = 24;

/// What a station gives to whom it enrols.
pub(super) struct Register {
    file: PathBuf,
    /// Whether a drone may take the place of a peer that has its name.
    replace: bool,
    tickets: Vec<Ticket>,
}

/// One code, without its secret.
pub(super) struct Ticket {
    /// The name that its drone will have; without one the drone's wish.
    pub(super) name: Option<String>,
    /// The key by which it is recognised.
    pub(super) guest: PublicKey,
    state: State,
    told: u32,
}

enum State {
    /// Nobody has come with it.
    Fresh,
    /// This key may be enrolled, and no other.
    Offered(PublicKey, Offer),
    /// It was.
    Enrolled(PublicKey, Offer, Used),
    /// And it has said that it knows.
    Settled(PublicKey, Offer, Used),
}

/// When and from where a code was used.
#[derive(Clone)]
pub(super) struct Used {
    pub(super) from: String,
    pub(super) at: String,
}

/// What there is to tell an operator.
#[derive(Debug, PartialEq)]
pub(super) enum News {
    /// A drone is enrolled.
    Enrolled { name: String, key: String, addresses: Vec<String>, endpoints: Vec<String> },
    /// And has taken over what it was given.
    Settled { name: String },
    /// Somebody was refused.
    Refused { why: String },
}

/// What follows from a text.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) answer: Option<Message>,
    pub(super) news: Option<News>,
}

impl Ticket {
    /// Makes a ticket that nobody has used.
    pub(super) fn new(name: Option<String>, guest: PublicKey) -> Self {
        Self { name, guest, state: State::Fresh, told: 0 }
    }

    /// Whether nothing is left to do for it.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.state, State::Settled(..))
    }

    /// Whether somebody was enrolled with it.
    pub(super) fn is_used(&self) -> bool {
        matches!(self.state, State::Enrolled(..) | State::Settled(..))
    }

    /// What was offered with it, and to whom.
    fn offered(&self) -> Option<(&PublicKey, &Offer)> {
        match &self.state {
            State::Fresh => None,
            State::Offered(key, offer)
            | State::Enrolled(key, offer, _)
            | State::Settled(key, offer, _) => Some((key, offer)),
        }
    }
}

impl Register {
    /// Enrols in a file.
    pub(super) fn new(file: &Path, replace: bool, tickets: Vec<Ticket>) -> Self {
        Self { file: file.to_owned(), replace, tickets }
    }

    /// The codes, in the order in which they were made.
    pub(super) fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    /// Hears what somebody with a code says; `used` tells from where, and when that is.
    pub(super) fn handle(&mut self, number: usize, text: &str, used: &Used) -> Outcome {
        let done = match Message::read(text) {
            Ok(Message::Request(request)) => self.handle_request(number, &request),
            Ok(Message::Confirm) => self.handle_confirm(number, used),
            Ok(Message::Finished) => Ok(self.handle_finished(number)),
            Ok(_) => Err("what only a station says".into()),
            Err(why) => Err(why),
        };
        done.unwrap_or_else(|why| {
            let Some(ticket) = self.tickets.get_mut(number) else { return Outcome::default() };
            ticket.told += 1;
            let rest = if ticket.told == TOLD { "; more of this is not shown" } else { "" };
            let news = News::Refused { why: format!("{why}{rest}") };
            Outcome {
                answer: Some(Message::Refused { why }),
                news: (ticket.told <= TOLD).then_some(news),
            }
        })
    }

    fn handle_request(&mut self, number: usize, request: &Request) -> Result<Outcome, String> {
        let config = load(&self.file)?;
        let ticket = self.tickets.get(number).ok_or("a code that is none")?;
        let key = request.key(&config.secret, &ticket.guest)?;
        match &ticket.state {
            State::Fresh => {}
            State::Offered(first, offer) if *first == key => return Ok(answer(offer.clone())),
            State::Enrolled(first, offer, _) | State::Settled(first, offer, _) if *first == key => {
                return Ok(answer(offer.clone()));
            }
            State::Offered(first, _) => {
                return Err(format!("the code is being used by another drone, {first}"));
            }
            State::Enrolled(first, offer, used) | State::Settled(first, offer, used) => {
                let (name, Used { from, at }) = (&offer.name, used);
                return Err(format!(
                    "the code was used by {name} ({first}) from {from} at {at}; if that was not you, at the \
                     station: fulmar peers remove {name}"
                ));
            }
        }
        let offer = self.offer(&config, key, number, request)?;
        self.tickets[number].state = State::Offered(key, offer.clone());
        Ok(answer(offer))
    }

    fn handle_confirm(&mut self, number: usize, used: &Used) -> Result<Outcome, String> {
        let ticket = self.tickets.get(number).ok_or("a code that is none")?;
        match &ticket.state {
            State::Fresh => Err("a confirmation of nothing".into()),
            State::Enrolled(..) | State::Settled(..) => {
                Ok(Outcome { answer: Some(Message::Done), news: None })
            }
            State::Offered(key, offer) => {
                let (key, offer) = (*key, offer.clone());
                let (addresses, endpoints) = self.enrol(&key, &offer)?;
                let (name, text) = (offer.name.clone(), key.to_string());
                self.tickets[number].state = State::Enrolled(key, offer, used.clone());
                let news = News::Enrolled { name, key: text, addresses, endpoints };
                Ok(Outcome { answer: Some(Message::Done), news: Some(news) })
            }
        }
    }

    fn handle_finished(&mut self, number: usize) -> Outcome {
        let answer = Some(Message::Farewell);
        let Some(ticket) = self.tickets.get_mut(number) else { return Outcome::default() };
        match std::mem::replace(&mut ticket.state, State::Fresh) {
            State::Enrolled(key, offer, used) => {
                let news = Some(News::Settled { name: offer.name.clone() });
                ticket.state = State::Settled(key, offer, used);
                Outcome { answer, news }
            }
            other => {
                ticket.state = other;
                Outcome { answer, news: None }
            }
        }
    }

    /// Decides what a drone would be.
    fn offer(
        &self,
        config: &Config,
        key: PublicKey,
        number: usize,
        request: &Request,
    ) -> Result<Offer, String> {
        let known = config.peers.iter().find(|peer| peer.key == key);
        let name = self.name(config, known, number, &request.name)?;
        let before = config.peers.iter().find(|peer| peer.name == name);
        let nets = config.tunnel.iter().flat_map(|tunnel| &tunnel.addresses);
        let nets: Vec<IpNet> = nets.copied().filter(|_| request.tunnel).collect();
        let offered = self.tickets.iter().filter_map(Ticket::offered);
        let offered = offered.filter(|(other, _)| **other != key).flat_map(|(_, at)| &at.addresses);
        let taken: BTreeSet<IpAddr> = offered.chain(&nets).map(IpNet::addr).collect();
        let of_others = config.peers.iter().filter(|peer| peer.name != name);
        let of_others: Vec<IpNet> = of_others.flat_map(|peer| peer.allowed.clone()).collect();
        let free = |net: &IpNet| {
            // A drone that comes again keeps what it had.
            let had = before.iter().flat_map(|peer| &peer.allowed).map(IpNet::addr);
            let had = had.filter(|address| net.contains(address));
            let is_free = |address: &IpAddr| {
                !taken.contains(address) && !of_others.iter().any(|other| other.contains(address))
            };
            let found = had.chain(hosts(net)).find(is_free);
            let found = found.ok_or_else(|| format!("no address of {net} is free"))?;
            IpNet::new(found, net.prefix_len()).map_err(|error| error.to_string())
        };
        let addresses = nets.iter().map(free).collect::<Result<_, _>>()?;
        let secret = keys::generate().map_err(|error| format!("draw random numbers: {error}"))?;
        let preshared_key = keys::encode(&secret);
        Ok(Offer { name, preshared_key, addresses, station_addresses: nets })
    }

    /// Decides on a name: that of the list, that by which the key is known, or the one that the
    /// drone wishes for, with a number behind it where another peer has it.
    fn name(
        &self,
        config: &Config,
        known: Option<&Peer>,
        number: usize,
        wish: &str,
    ) -> Result<String, String> {
        let ours = self.tickets[number].name.as_deref();
        if let Some(known) = known {
            if ours.is_some_and(|ours| ours != known.name) {
                let (name, ours) = (&known.name, ours.unwrap_or_default());
                return Err(format!(
                    "a drone that is enrolled as {name}, with the code for {ours}"
                ));
            }
            return Ok(known.name.clone());
        }
        let names = config.peers.iter().map(|peer| peer.name.as_str());
        let offered = self.tickets.iter().filter_map(Ticket::offered);
        let offered = offered.map(|(_, offer)| offer.name.as_str());
        let listed = self.tickets.iter().filter_map(|ticket| ticket.name.as_deref());
        let taken: BTreeSet<&str> = names.clone().chain(offered).chain(listed).collect();
        match ours {
            Some(ours) if self.replace || !names.clone().any(|name| name == ours) => {
                Ok(ours.into())
            }
            Some(ours) => Err(format!("another drone than {ours}, which is enrolled already")),
            None => {
                // Names are short and of plain letters: see `is_name`.
                let short = &wish[..wish.len().min(SHORT)];
                let numbered = (2..).map(|number| format!("{short}-{number}"));
                let all = std::iter::once(wish.to_owned()).chain(numbered);
                let mut free = all.filter(|name| !taken.contains(name.as_str()));
                free.next().ok_or_else(|| "no name is free".into())
            }
        }
    }

    /// Writes a drone into the file; returns its addresses and the endpoints that it was given.
    fn enrol(&self, key: &PublicKey, offer: &Offer) -> Result<(Vec<String>, Vec<String>), String> {
        let secret = offer.secret()?;
        let mut editing = Editing::begin(&self.file)?;
        let secret_file = editing.write_secret(&offer.name, &secret)?;
        let hosts = offer.addresses.iter().map(|net| IpNet::from(net.addr()).to_string());
        let allowed: Vec<String> = hosts.collect();
        let peer = NewPeer { name: &offer.name, key, secret_file: &secret_file, allowed: &allowed };
        let endpoints = put_peer(&mut editing.document, &peer);
        editing.finish()?;
        Ok((allowed, endpoints))
    }
}

fn answer(offer: Offer) -> Outcome {
    Outcome { answer: Some(Message::Offer(offer)), news: None }
}

/// Walks the addresses of a net that a host may have, from the lowest.
fn hosts(net: &IpNet) -> impl Iterator<Item = IpAddr> + use<> {
    let hosts = net.hosts();
    hosts.take(TRIED as usize).filter({
        let net = *net;
        move |address| *address != net.network() && *address != net.broadcast()
    })
}

#[cfg(test)]
mod tests;
