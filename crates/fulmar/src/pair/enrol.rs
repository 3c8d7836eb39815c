//! What a drone and a station say to each other while the drone is enrolled, as one JSON object in
//! each text.
//!
//! ```text
//! drone                                     station
//! Request: key, proof, name wished    →
//!                                     ←     Offer: name, addresses, pre-shared key     (or Refused)
//! its new file is on disk
//! Confirm                             →
//!                                           its file is written, its daemon has taken the drone on
//!                                     ←     Done                                       (or Refused)
//! the new file takes the old one's place
//! Finished                            →
//!                                     ←     Farewell
//! ```
//!
//! Whatever is repeated is answered as it was the first time. Where a link dies before Confirm,
//! neither end has changed anything; after it, the same code brings the drone to where it was.

use std::fmt::Write as _;

use ipnet::IpNet;
use proto::{Guest, PublicKey, StaticSecret, is_proof, prove};
use record::harmless::steers_a_terminal;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::edit::sections::is_name;
use crate::guest_socket::LONGEST_TEXT;
use crate::keys;

/// The form of what is said here.
const VERSION: u32 = 1;
/// Characters of a reason that are shown.
const LONGEST_REASON: usize = 400;
/// Addresses of an end in the tunnel, at most.
const ADDRESSES: usize = 8;

/// One text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Message {
    /// A drone asks to be enrolled under its own key.
    Request(Request),
    /// The station says what it would be enrolled as.
    Offer(Offer),
    /// The drone holds the offer on its disk.
    Confirm,
    /// The station has enrolled it.
    Done,
    /// The drone has taken its new file over.
    Finished,
    /// Nothing is left to be said.
    Farewell,
    /// It is not enrolled, and why.
    Refused { why: String },
}

/// What a drone asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    version: u32,
    /// Its own public key, as text.
    key: String,
    /// That it holds the secret one: 32 hexadecimal digits.
    proof: String,
    /// The name that it would have.
    pub(crate) name: String,
    /// Whether it has a use for an address in the tunnel.
    pub(crate) tunnel: bool,
}

/// What a station offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Offer {
    /// The drone's name.
    pub(crate) name: String,
    /// What both are to share beside their keys, in the form of a key.
    pub(crate) preshared_key: String,
    /// The drone's addresses in the tunnel, each with the prefix of the tunnel; empty without one.
    pub(crate) addresses: Vec<IpNet>,
    /// The station's own there.
    pub(crate) station_addresses: Vec<IpNet>,
}

impl Message {
    /// Writes a text.
    pub(crate) fn text(&self) -> String {
        // Strings, numbers and lists are always written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a text of the other end, which may lie.
    ///
    /// # Errors
    /// Say in words what is odd about it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_TEXT {
            return Err(format!("a text of {} bytes", text.len()));
        }
        let mut message = serde_json::from_str(text).map_err(|_| "nonsense".to_owned())?;
        match &mut message {
            Self::Request(request) if request.version != VERSION => {
                return Err(format!("version {} of enrolment, and not {VERSION}", request.version));
            }
            Self::Request(request) if !is_name(&request.name) => {
                return Err("a name that is none".into());
            }
            Self::Offer(offer) => offer.check()?,
            Self::Refused { why } => *why = harmless(why),
            _ => {}
        }
        Ok(message)
    }
}

impl Request {
    /// Asks in the name of a key, as a guest.
    pub(crate) fn new(
        secret: &StaticSecret,
        station: &PublicKey,
        guest: &Guest,
        name: String,
        tunnel: bool,
    ) -> Self {
        let proof = prove(secret, station, &guest.secret.public());
        let mut digits = String::new();
        proof.iter().for_each(|byte| _ = write!(digits, "{byte:02x}"));
        Self { version: VERSION, key: secret.public().to_string(), proof: digits, name, tunnel }
    }

    /// Returns the key that the drone has proved to hold.
    ///
    /// # Errors
    /// Where it has not.
    pub(crate) fn key(
        &self,
        station: &StaticSecret,
        guest: &PublicKey,
    ) -> Result<PublicKey, String> {
        let key = self.key.parse::<PublicKey>().map_err(|_| "a key that is none".to_owned())?;
        let mut proof = [0; 16];
        let digits = self.proof.as_bytes();
        let mut is_whole = digits.len() == 2 * proof.len();
        for (byte, pair) in proof.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            let read = u8::from_str_radix(pair, 16);
            is_whole &= read.is_ok();
            *byte = read.unwrap_or_default();
        }
        match is_whole && is_proof(station, &key, guest, &proof) && key != station.public() {
            true => Ok(key),
            false => Err(format!("{key} without the secret key that belongs to it")),
        }
    }
}

impl Offer {
    /// Returns what both are to share.
    ///
    /// # Errors
    /// Where it is no key.
    pub(crate) fn secret(&self) -> Result<StaticSecret, String> {
        let bytes: Zeroizing<[u8; 32]> =
            keys::decode(&self.preshared_key).map_err(|error| error.to_string())?;
        Ok(StaticSecret::from_bytes(*bytes))
    }

    fn check(&self) -> Result<(), String> {
        let few = |addresses: &[IpNet]| addresses.len() <= ADDRESSES;
        if !is_name(&self.name) || !few(&self.addresses) || !few(&self.station_addresses) {
            return Err("an offer that makes no sense".into());
        }
        self.secret().map(|_| ())
    }
}

/// Takes out of a text what could steer a terminal, and what is too long to be read.
pub(crate) fn harmless(text: &str) -> String {
    let fits = |c: &char| !steers_a_terminal(*c);
    text.chars().filter(fits).take(LONGEST_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        Offer {
            name: "drone-1".into(),
            preshared_key: keys::encode(&StaticSecret::generate([3; 32])),
            addresses: vec!["10.77.0.2/24".parse().unwrap()],
            station_addresses: vec!["10.77.0.1/24".parse().unwrap()],
        }
    }

    #[test]
    fn messages_are_read_back() {
        let drone = StaticSecret::generate([1; 32]);
        let station = StaticSecret::generate([2; 32]);
        let guest = Guest::of_code(&[5; 16], &station.public());
        let request = Request::new(&drone, &station.public(), &guest, "d".into(), true);
        assert_eq!(request.key(&station, &guest.secret.public()), Ok(drone.public()));
        let all = [
            Message::Request(request.clone()),
            Message::Offer(offer()),
            Message::Confirm,
            Message::Done,
            Message::Finished,
            Message::Farewell,
            Message::Refused { why: "so it is".into() },
        ];
        for message in all {
            assert_eq!(Message::read(&message.text()), Ok(message));
        }
        for (proof, key) in [
            (request.proof.replace(['0', '1'], "2"), request.key.clone()),
            (String::new(), request.key.clone()),
            ("ü".repeat(16), request.key.clone()),
            (request.proof.clone(), station.public().to_string()),
            (request.proof.clone(), "key".into()),
        ] {
            let lie = Request { proof, key, ..request.clone() };
            assert!(lie.key(&station, &guest.secret.public()).is_err(), "{lie:?}");
        }
    }

    #[test]
    fn what_lies_is_refused_and_what_is_shown_is_harmless() {
        let long = format!("{{\"say\":\"refused\",\"why\":\"{}\"}}", "x".repeat(LONGEST_TEXT));
        let name = |name: &str| {
            let text =
                r#"{"say":"request","version":1,"key":"k","proof":"p","name":"N","tunnel":true}"#;
            text.replace('N', name)
        };
        assert!(Message::read(&name("drone")).is_ok());
        let odd =
            ["", "{}", "[]", "\u{1b}[2J", &long, &name("a\\u001b[2J"), &name(&"x".repeat(2_000))];
        for text in odd {
            assert!(Message::read(text).is_err(), "{text}");
        }
        let many = Offer { addresses: vec!["10.0.0.1/8".parse().unwrap(); 9], ..offer() };
        assert!(Message::read(&Message::Offer(many).text()).is_err());
        let refused = Message::Refused { why: "\u{1b}[2Jno\u{202e}".into() };
        let read = Message::read(&refused.text());
        assert_eq!(read, Ok(Message::Refused { why: "[2Jno".into() }));
    }
}
