//! A peer that holds a valid key and no sense, beside a drone and a station that talk to each
//! other.
//!
//! It asks the station for keys and answers the drone that asks it, with fields and damage of the
//! script's choice behind codes that are right, and seals whatever it likes under the keys that
//! come of it.

use units::Duration;

use super::{DRONE, Pair, STATION, address, received};
use crate::crypto::{
    Asked, Entropy, EpochKeys, INITIATION, Initiation, KeyRing, Parties, PeerKey, PublicKey,
    RESPONSE, RefusalAnswer, WIRE_VERSION, mac1_key,
};
use crate::ids::InterfaceId;
use crate::wire::{DATA_HEADER, DatagramType, Reader};
use crate::{PathId, StaticSecret};

/// The mad peer's port.
const PORT: u8 = 8;
/// The script lets no more time pass: what follows from silence has other targets.
const LONGEST: Duration = Duration::from_secs(8);
const CODE: usize = 16;

struct MadPeer<'s> {
    script: Reader<'s>,
    pair: Pair,
    secret: StaticSecret,
    publics: [PublicKey; 2],
    /// What it shares with the drone and the station.
    shared: [PeerKey; 2],
    entropy: Entropy,
    cookie: Option<[u8; CODE]>,
    handshake: Option<Initiation>,
    /// The drone's last question.
    asked: Option<Vec<u8>>,
    /// Newest keys with the drone and the station.
    keys: [KeyRing; 2],
    numbers: [u64; 2],
    passed: Duration,
}

/// Plays a script; nothing panics, no answer is larger than its question, and the others do not
/// notice.
pub fn mad_peer(script: &[u8]) {
    let mut mad = MadPeer::new(script);
    while let Ok(what) = mad.script.u8() {
        mad.act(what);
    }
    mad.pair.run(Duration::from_millis(100));
    assert!(mad.pair.carries(), "the drone and the station are cut off from each other");
}

impl<'s> MadPeer<'s> {
    fn new(script: &'s [u8]) -> Self {
        let mut pair = Pair::new();
        let secret = StaticSecret::generate([3; 32]);
        let publics = [1, 2].map(|seed| StaticSecret::generate([seed; 32]).public());
        let shared = publics.map(|public| PeerKey::agree(&secret, &public, &[0; 32]));
        pair.ends[STATION].add_peer(secret.public(), None);
        let drone = &mut pair.ends[DRONE];
        let peer = drone.add_peer(secret.public(), None);
        let session = drone.connect(pair.now, peer);
        let added = drone.add_path(pair.now, session, InterfaceId(0), address(PORT));
        assert!(added.is_ok(), "one path is not too many");
        let mut mad = Self {
            script: Reader::new(script),
            pair,
            secret,
            publics,
            shared,
            entropy: Entropy::new([4; 32]),
            cookie: None,
            handshake: None,
            asked: None,
            keys: [KeyRing::new(), KeyRing::new()],
            numbers: [0; 2],
            passed: Duration::ZERO,
        };
        mad.pass(Duration::from_millis(1));
        mad
    }

    fn act(&mut self, what: u8) {
        match what % 8 {
            0 => self.initiate(what & 8 != 0, what & 16 != 0),
            1 => self.answer_with_cookie(),
            2 => self.answer_with_refusal(),
            3 => self.respond(what & 8 != 0),
            4 => self.send(usize::from(what >> 3 & 1), what & 16 != 0),
            5 => self.invent(usize::from(what >> 3 & 1)),
            6 => {
                let ms = u64::from(self.byte());
                self.pass(Duration::from_millis(ms));
            }
            _ => {
                let ms = u64::from(self.byte()) * 100;
                self.pass(Duration::from_millis(ms));
            }
        }
    }

    /// Asks the station for keys.
    fn initiate(&mut self, with_cookie: bool, damaged: bool) {
        let (index, nonce) = (self.number(), self.number() << 32 | self.number());
        let (peer, key) = (self.publics[STATION], &self.shared[STATION]);
        let parties =
            Parties { secret: &self.secret, peer, psk: &[0; 32], key, wire: WIRE_VERSION };
        let handshake = Initiation::new(&parties, index as u32, nonce, &mut self.entropy);
        let cookie = self.cookie.filter(|_| with_cookie);
        let mut datagram = handshake.datagram(cookie.as_ref());
        if damaged {
            // Codes over what was altered: mac1, mac2 and mac3 stand at the end.
            let codes = INITIATION - 3 * CODE;
            self.damage(&mut datagram[1..codes]);
            let mac1 = mac1_key(&self.publics[STATION]).code(&[&datagram[..codes]]);
            datagram[codes..codes + CODE].copy_from_slice(&mac1);
            let mac2 = self.shared[STATION].code(&[&datagram[..codes + CODE]]);
            datagram[codes + CODE..codes + 2 * CODE].copy_from_slice(&mac2);
            let (before, mac3) = datagram.split_at_mut(INITIATION - CODE);
            let cookie = cookie.unwrap_or_default();
            mac3.copy_from_slice(&self.shared[STATION].code(&[b"fulmar mac3", &cookie, before]));
        }
        self.handshake = Some(handshake);
        self.give(STATION, &datagram);
    }

    fn answer_with_cookie(&mut self) {
        let Some(mac2) = self.last_asked().map(|asked| asked.mac2) else { return };
        let mut datagram = vec![DatagramType::Cookie as u8];
        datagram.extend_from_slice(&self.receiver());
        datagram.extend_from_slice(&[self.byte(); CODE]);
        let code = self.shared[DRONE].code(&[&datagram, &mac2]);
        datagram.extend_from_slice(&code);
        self.give(DRONE, &datagram);
    }

    fn answer_with_refusal(&mut self) {
        let Some(asked) = self.last_asked() else { return };
        let datagram = RefusalAnswer::make(&asked, &self.secret.public());
        self.give(DRONE, &datagram);
    }

    /// Gives the drone keys, and says what it likes of its clock and of the session.
    fn respond(&mut self, damaged: bool) {
        let (index, clock) = (self.number() as u32, self.number() << 32 | self.number());
        let continues = self.byte() % 2 == 1;
        let mut entropy = Entropy::new(self.entropy.array());
        let Some(asked) = self.last_asked() else { return };
        let Ok(admitted) = asked.open((&self.secret, WIRE_VERSION), &mut entropy) else { return };
        let parties = (&self.shared[DRONE], &[0; 32]);
        let (mut datagram, keys) = admitted.respond(parties, index, clock, continues);
        if damaged {
            self.damage(&mut datagram[1..RESPONSE - CODE]);
            let code = self.shared[DRONE].code(&[&datagram[..RESPONSE - CODE]]);
            datagram[RESPONSE - CODE..].copy_from_slice(&code);
        }
        self.use_keys(DRONE, keys);
        self.give(DRONE, &datagram);
    }

    /// Seals frames of the script's choice.
    fn send(&mut self, to: usize, jumps: bool) {
        let path = PathId(self.byte() % 20);
        let jump = if jumps { self.number() << 15 } else { 0 };
        self.numbers[to] = (self.numbers[to] + 1 + jump).min(crate::wire::PACKET_NUMBER_MAX);
        let length = usize::from(self.byte()).min(self.script.len());
        let frames = self.script.take(length).unwrap_or_default();
        let mut datagram = vec![0; DATA_HEADER];
        datagram.extend_from_slice(frames);
        if self.keys[to].seal(path, self.numbers[to], &mut datagram).is_ok() {
            self.give(to, &datagram);
        }
    }

    /// Sends bytes of any type.
    fn invent(&mut self, to: usize) {
        let length = usize::from(self.byte()).min(self.script.len());
        let datagram = self.script.take(length).unwrap_or_default();
        self.give(to, datagram);
    }

    fn give(&mut self, to: usize, datagram: &[u8]) {
        let received = received(InterfaceId(0), address(PORT));
        let before = self.pair.elsewhere.len();
        let now = self.pair.now;
        self.pair.ends[to].handle_datagram(now, &received, &mut datagram.to_vec());
        self.pair.exchange();
        let answers = self.pair.elsewhere.get(before..).unwrap_or_default();
        let of_handshake = answers.iter().filter(|(from, bytes)| {
            let kind = DatagramType::of(bytes);
            *from == to && !matches!(kind, Ok(DatagramType::Data | DatagramType::Initiation))
        });
        let bytes: usize = of_handshake.map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes <= datagram.len(), "{bytes} bytes for {}", datagram.len());
        self.listen();
    }

    fn pass(&mut self, time: Duration) {
        if self.passed + time < LONGEST {
            self.passed += time;
            self.pair.run(time);
            self.listen();
        }
    }

    /// Learns from what came: a cookie, keys, and what the drone asks.
    fn listen(&mut self) {
        for (from, datagram) in std::mem::take(&mut self.pair.elsewhere) {
            match (from, DatagramType::of(&datagram)) {
                (STATION, Ok(DatagramType::Cookie)) => {
                    let mut reader = Reader::new(&datagram[5..]);
                    self.cookie = reader.array().ok();
                }
                (STATION, Ok(DatagramType::Response)) => {
                    let agreed = self.handshake.as_mut().and_then(|own| own.finish(&datagram).ok());
                    if let Some(agreed) = agreed {
                        self.use_keys(STATION, agreed.keys);
                    }
                }
                (DRONE, Ok(DatagramType::Initiation)) => self.asked = Some(datagram),
                _ => {}
            }
        }
    }

    fn use_keys(&mut self, with: usize, keys: EpochKeys) {
        self.keys[with].install(self.pair.now, keys);
    }

    fn last_asked(&self) -> Option<Asked<'_>> {
        Asked::decode(self.asked.as_ref()?, &mac1_key(&self.secret.public())).ok()
    }

    /// The index that the drone's question named, or now and then another.
    fn receiver(&mut self) -> [u8; 4] {
        let other = (self.byte() == 255).then(|| (self.number() as u32).to_le_bytes());
        let named = self.last_asked().map_or(0, |asked| asked.sender);
        other.unwrap_or(named.to_le_bytes())
    }

    fn damage(&mut self, bytes: &mut [u8]) {
        let at = usize::from(self.byte()) % bytes.len();
        bytes[at] ^= self.byte() | 1;
    }

    fn number(&mut self) -> u64 {
        self.script.u32().unwrap_or_default().into()
    }

    fn byte(&mut self) -> u8 {
        self.script.u8().unwrap_or_default()
    }
}
