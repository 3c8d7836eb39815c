//! What each end tells the other of itself, for people [specs/wire.md §8]: how its links are
//! called, and how its endpoints are.
//!
//! What comes in is the peer's word: a text of other bytes than these is ignored, names are cut and
//! have no characters that steer a terminal, and nothing but what people are shown follows from
//! any.

use std::collections::BTreeMap;

use proto::{Duration, Endpoint, Instant, PathId, SessionId};

use crate::endpoints::EndpointState;
use record::harmless::steers_a_terminal;

/// What notes are about: the high byte of their names.
const LINK: u8 = 0;
const ENDPOINT: u8 = 1;
/// Bytes of a name.
const LONGEST_NAME: usize = 32;
/// Endpoints that the other end is told of.
pub(super) const ENDPOINTS: usize = 16;
/// What an endpoint is, in bits.
const IS_AUTOPILOT: u8 = 1;
const IS_SERIAL: u8 = 2;
const IS_AWAITED: u8 = 4;

/// How an endpoint is, of either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointNote {
    pub(super) state: EndpointState,
    /// The vehicle's autopilot is behind it.
    pub(super) is_autopilot: bool,
    pub(super) is_serial: bool,
    /// Its silence is trouble.
    pub(super) is_awaited: bool,
    pub(super) name: String,
}

/// The same, and for how long nothing has come in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FarEndpoint {
    pub(super) note: EndpointNote,
    pub(super) quiet_since: Instant,
}

/// What was told to a peer, and what it has told.
#[derive(Debug, Default)]
pub(super) struct Notes {
    session: Option<SessionId>,
    /// Paths whose names the peer has.
    links: Vec<PathId>,
    /// What it knows of our endpoints, by their numbers.
    own: BTreeMap<u8, EndpointNote>,
    revision: Option<u64>,
    /// What is known of its endpoints, each with the bytes that said so.
    far: BTreeMap<u8, (Vec<u8>, FarEndpoint)>,
}

impl Notes {
    /// Begins anew where the session is another one, or has begun again.
    pub(super) fn begin(&mut self, session: SessionId) {
        *self = Self { session: Some(session), ..Self::default() };
    }

    /// Tells the peer how links are called.
    pub(super) fn tell_links(
        &mut self,
        session: SessionId,
        links: &[(PathId, String)],
        endpoint: &mut Endpoint,
    ) {
        let gone = self.links.iter().filter(|path| links.iter().all(|(known, _)| known != *path));
        gone.for_each(|path| endpoint.set_note(session, link(*path), &[]));
        for (path, name) in links {
            endpoint.set_note(session, link(*path), cut(name).as_bytes());
        }
        self.links = links.iter().map(|(path, _)| *path).collect();
    }

    /// Tells the peer how endpoints are, each with for how long nothing has come in there.
    pub(super) fn tell_endpoints(
        &mut self,
        session: SessionId,
        endpoints: Vec<(EndpointNote, Duration)>,
        endpoint: &mut Endpoint,
    ) {
        let count = endpoints.len().min(ENDPOINTS) as u8;
        for number in self.own.split_off(&count).into_keys() {
            endpoint.set_note(session, name(ENDPOINT, number), &[]);
        }
        for (number, (note, quiet)) in (0..count).zip(endpoints) {
            if self.own.get(&number) != Some(&note) {
                endpoint.set_note(session, name(ENDPOINT, number), &encode(&note, quiet));
                self.own.insert(number, note);
            }
        }
    }

    /// Hears what the peer says; returns what is new of its endpoints: what each was, and is.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        session: SessionId,
        endpoint: &Endpoint,
    ) -> Vec<(Option<EndpointNote>, EndpointNote)> {
        let revision = endpoint.notes_revision(session);
        if self.revision.replace(revision) == Some(revision) {
            return Vec::new();
        }
        let mut before = std::mem::take(&mut self.far);
        let mut news = Vec::new();
        for (noted, text) in endpoint.notes(session) {
            let [ENDPOINT, number] = noted.to_be_bytes() else { continue };
            let old = before.remove(&number);
            if let Some((bytes, known)) = old.as_ref().filter(|(bytes, _)| bytes == text) {
                self.far.insert(number, (bytes.clone(), known.clone()));
                continue;
            }
            let Some((note, quiet)) = decode(text) else { continue };
            let old = old.map(|(_, far)| far.note);
            if old.as_ref() != Some(&note) {
                news.push((old, note.clone()));
            }
            let far = FarEndpoint { note, quiet_since: now - quiet };
            self.far.insert(number, (text.to_vec(), far));
        }
        news
    }

    /// Walks what is known of the peer's endpoints in a session.
    pub(super) fn far(&self, session: SessionId) -> impl Iterator<Item = &FarEndpoint> {
        let is_of = self.session == Some(session);
        self.far.values().filter(move |_| is_of).map(|(_, far)| far)
    }

    /// Tells whether this session is the one that is spoken in.
    pub(super) fn is_of(&self, session: SessionId) -> bool {
        self.session == Some(session)
    }
}

/// Returns how the peer's file calls a path, where that tells it from the session's others.
pub(super) fn link_name(endpoint: &Endpoint, session: SessionId, path: PathId) -> Option<String> {
    let own = endpoint.note(session, link(path)).and_then(harmless)?;
    let is_link = |noted: u16| noted.to_be_bytes()[0] == LINK;
    let same =
        endpoint.notes(session).filter(|(noted, text)| is_link(*noted) && *text == own.as_bytes());
    Some(if same.count() > 1 { format!("{own} #{}", path.0) } else { own.to_owned() })
}

/// Looks at what a peer may say.
#[cfg(fuzzing)]
pub(crate) fn look_at(text: &[u8]) {
    if let Some((note, quiet)) = decode(text) {
        assert!(note.name.len() <= LONGEST_NAME && !note.name.contains(steers_a_terminal));
        assert_eq!(decode(&encode(&note, quiet)), Some((note, quiet)));
    }
}

fn link(path: PathId) -> u16 {
    name(LINK, path.0)
}

fn name(about: u8, which: u8) -> u16 {
    u16::from_be_bytes([about, which])
}

fn encode(note: &EndpointNote, quiet: Duration) -> Vec<u8> {
    let bit = |is: bool, bit: u8| if is { bit } else { 0 };
    let what = bit(note.is_autopilot, IS_AUTOPILOT)
        | bit(note.is_serial, IS_SERIAL)
        | bit(note.is_awaited, IS_AWAITED);
    let quiet = u32::try_from(quiet.as_millis() / 1_000).unwrap_or(u32::MAX);
    let mut text = vec![note.state as u8, what];
    text.extend_from_slice(&quiet.to_le_bytes());
    text.extend_from_slice(cut(&note.name).as_bytes());
    text
}

fn decode(text: &[u8]) -> Option<(EndpointNote, Duration)> {
    let [state, what, a, b, c, d, name @ ..] = text else { return None };
    let note = EndpointNote {
        state: EndpointState::from_number(*state)?,
        is_autopilot: what & IS_AUTOPILOT != 0,
        is_serial: what & IS_SERIAL != 0,
        is_awaited: what & IS_AWAITED != 0,
        name: harmless(name)?.to_owned(),
    };
    Some((note, Duration::from_secs(u32::from_le_bytes([*a, *b, *c, *d]).into())))
}

/// Returns a name of the peer that may be shown.
fn harmless(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let is_short = (1..=LONGEST_NAME).contains(&name.len());
    (is_short && !name.trim().is_empty() && !name.contains(steers_a_terminal)).then_some(name)
}

/// Returns as much of a name as may be told.
fn cut(name: &str) -> &str {
    let fits = (0..=LONGEST_NAME.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    &name[..fits.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str) -> EndpointNote {
        let (is_autopilot, is_serial, is_awaited) = (true, true, false);
        EndpointNote {
            state: EndpointState::Noise,
            is_autopilot,
            is_serial,
            is_awaited,
            name: name.into(),
        }
    }

    #[test]
    fn notes_round_trip_and_what_could_steer_a_terminal_is_ignored() {
        let quiet = Duration::from_secs(12);
        assert_eq!(decode(&encode(&note("ttyAMA0"), quiet)), Some((note("ttyAMA0"), quiet)));
        for evil in ["", " ", "a\x1b[2J", "a\nb", "\u{202e}olleh", "\u{9b}31m"] {
            assert_eq!(decode(&encode(&note(evil), quiet)), None, "{evil:?}");
        }
        let long = "é".repeat(40);
        assert_eq!(decode(&encode(&note(&long), quiet)).unwrap().0.name, "é".repeat(16));
        let mut text = encode(&note("x"), quiet);
        text[1] = 0xff;
        assert!(decode(&text).unwrap().0.is_awaited, "bits that mean nothing yet");
        text[0] = 9;
        assert_eq!(decode(&text), None, "a state of another time");
        text.extend([b'x'; 32]);
        text[0] = 1;
        assert_eq!(decode(&text), None, "too long");
        assert!((0..6).all(|len| decode(&text[..len]).is_none()));
        assert_eq!(harmless(b"\xff\xfe"), None);
    }
}
