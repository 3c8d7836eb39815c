//! The handshake: Noise_IKpsk2_25519_AESGCM_BLAKE2s in two datagrams [specs/wire.md §4].
//!
//! ```text
//! Initiation = 1 ‖ sender ‖ e, es, s, ss, session nonce (8) ‖ mac1 ‖ mac2 ‖ mac3
//! Response   = 2 ‖ receiver ‖ e, ee, se, psk, payload ‖ mac2
//!              payload = sender (4) ‖ responder's clock, µs (8) ‖ 1 when it continues the session
//!                        (1)
//! mac1 = MAC(key of the recipient's public key, what is before it)
//! mac2 = MAC(key that both share, what is before it)
//! mac3 = MAC(key that both share, "fulmar mac3" ‖ cookie of the source address ‖ what is before
//!        it)
//! ```
//!
//! The sender index of an Initiation stands in the prologue of its Noise messages, that of a
//! Response inside one: nobody can alter them. This file turns keys and payloads into datagrams and
//! back, and ends in [`EpochKeys`]. The endpoint decides when to send which, and what to answer at
//! all.

use snow::{Builder, HandshakeState};

use super::claimed_key::claimed_key;
use super::mac::{Code, MacKey};
use super::{Entropy, EpochKeys, PeerKey, PublicKey, StaticSecret};
use crate::wire::{DatagramType, Reader};

const NOISE: &str = "Noise_IKpsk2_25519_AESGCM_BLAKE2s";
/// Bound into every handshake: two versions of this protocol never agree on keys.
const VERSION: &[u8; 8] = b"fulmar 6";
/// The version of the wire: the digit of that.
pub const WIRE_VERSION: u8 = VERSION[7] - b'0';

/// Sets mac3 apart from the codes that cover only a datagram.
const MAC3: &[u8] = b"fulmar mac3";

const INITIATION_PAYLOAD: usize = 8;
const INITIATION_NOISE: usize = 32 + (32 + 16) + INITIATION_PAYLOAD + 16;
const INITIATION_MAC1: usize = 5 + INITIATION_NOISE;
const INITIATION_MAC2: usize = INITIATION_MAC1 + 16;
const INITIATION_MAC3: usize = INITIATION_MAC2 + 16;
/// Bytes of an Initiation.
pub(crate) const INITIATION: usize = INITIATION_MAC3 + 16;

const RESPONSE_PAYLOAD: usize = 4 + 8 + 1;
const RESPONSE_NOISE: usize = 32 + RESPONSE_PAYLOAD + 16;
const RESPONSE_MAC: usize = 5 + RESPONSE_NOISE;
/// Bytes of a Response.
pub(crate) const RESPONSE: usize = RESPONSE_MAC + 16;

// Nobody can make a responder send more than was sent to it.
const _: () = assert!(
    RESPONSE <= INITIATION
        && super::cookie::COOKIE <= INITIATION
        && super::cookie::REFUSAL <= INITIATION
        && super::VERSION <= INITIATION
);

/// Says why a handshake datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HandshakeError {
    /// It does not have the length of its type.
    Malformed,
    /// Its code does not show that the sender knows whom it talks to, or is the right one.
    BadMac,
    /// It was made with another version, or by a peer that does not keep to it.
    Unauthentic,
}

/// Derives the key of mac1 for datagrams to the owner of `public`.
pub(crate) fn mac1_key(public: &PublicKey) -> MacKey {
    MacKey::derive("fulmar mac1", &public.0)
}

/// Names the parties of a handshake, as one of them sees it.
pub(crate) struct Parties<'a> {
    /// Our key pair.
    pub(crate) secret: &'a StaticSecret,
    /// The other end.
    pub(crate) peer: PublicKey,
    /// What both were given beforehand; zeros otherwise.
    pub(crate) psk: &'a [u8; 32],
    /// What both share.
    pub(crate) key: &'a PeerKey,
    /// The version of the wire that we speak.
    pub(crate) wire: u8,
}

/// Holds an initiator's handshake from its first Initiation to the Response.
pub(crate) struct Initiation {
    /// Our name for the keys to come.
    pub(crate) local_index: u32,
    state: HandshakeState,
    /// Everything but mac3, which depends on the path.
    datagram: [u8; INITIATION],
    key: PeerKey,
}

/// Holds what a Response brings.
#[derive(Debug)]
pub(crate) struct Agreed {
    /// The keys, shared from now on.
    pub(crate) keys: EpochKeys,
    /// The responder's clock when it made the Response, µs.
    pub(crate) clock_us: u64,
    /// True when the responder holds the session that the nonce names.
    pub(crate) continues: bool,
}

impl Initiation {
    /// Makes a handshake with a fresh ephemeral key.
    pub(crate) fn new(
        parties: &Parties<'_>,
        local_index: u32,
        session_nonce: u64,
        entropy: &mut Entropy,
    ) -> Self {
        let prologue = prologue(parties.wire, local_index);
        let mut state = builder(parties.secret, &prologue, entropy)
            .psk(2, parties.psk)
            .and_then(|builder| builder.remote_public_key(&parties.peer.0))
            .and_then(Builder::build_initiator)
            .expect("every key has its length");
        let mut datagram = [0; INITIATION];
        datagram[0] = DatagramType::Initiation as u8;
        datagram[1..5].copy_from_slice(&local_index.to_le_bytes());
        let payload = session_nonce.to_le_bytes();
        let written = state.write_message(&payload, &mut datagram[5..INITIATION_MAC1]);
        assert_eq!(written.ok(), Some(INITIATION_NOISE), "the first message has one length");
        let mac1 = mac1_key(&parties.peer).code(&[&datagram[..INITIATION_MAC1]]);
        datagram[INITIATION_MAC1..INITIATION_MAC2].copy_from_slice(&mac1);
        let mac2 = parties.key.code(&[&datagram[..INITIATION_MAC2]]);
        datagram[INITIATION_MAC2..INITIATION_MAC3].copy_from_slice(&mac2);
        Self { local_index, state, datagram, key: parties.key.clone() }
    }

    /// Returns the datagram for a path with this cookie.
    pub(crate) fn datagram(&self, cookie: Option<&Code>) -> [u8; INITIATION] {
        let mut datagram = self.datagram;
        if let Some(cookie) = cookie {
            let mac3 = mac3(&self.key, cookie, &datagram[..INITIATION_MAC3]);
            datagram[INITIATION_MAC3..].copy_from_slice(&mac3);
        }
        datagram
    }

    /// Returns the code that an answer has to know.
    pub(crate) fn mac2(&self) -> Code {
        let mut code = [0; 16];
        code.copy_from_slice(&self.datagram[INITIATION_MAC2..INITIATION_MAC3]);
        code
    }

    /// Takes a Response; after an error the handshake still waits for the right one.
    pub(crate) fn finish(&mut self, response: &[u8]) -> Result<Agreed, HandshakeError> {
        let (signed, mac2) = split_code(response, RESPONSE)?;
        if !self.key.verify(&[signed], &mac2) {
            return Err(HandshakeError::BadMac);
        }
        let mut payload = [0; RESPONSE_NOISE];
        let read = self.state.read_message(&signed[5..], &mut payload);
        if read != Ok(RESPONSE_PAYLOAD) {
            return Err(HandshakeError::Unauthentic);
        }
        let mut fields = Reader::new(&payload);
        let (Ok(remote_index), Ok(clock_us), Ok(continues)) =
            (fields.u32(), fields.u64(), fields.u8())
        else {
            return Err(HandshakeError::Malformed);
        };
        let (ours, theirs) = self.state.dangerously_get_raw_split();
        let keys = EpochKeys::new(self.local_index, remote_index, ours, theirs);
        Ok(Agreed { keys, clock_us, continues: continues != 0 })
    }
}

/// Reads which handshake a Response is for, before any cryptography.
pub(crate) fn response_receiver(response: &[u8]) -> Result<u32, HandshakeError> {
    if response.len() != RESPONSE {
        return Err(HandshakeError::Malformed);
    }
    Reader::new(&response[1..]).u32().map_err(|_| HandshakeError::Malformed)
}

/// An Initiation as the responder sees it before any Diffie–Hellman.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The initiator's name for the keys to come.
    pub(crate) sender: u32,
    /// Identifies the handshake: no honest initiator uses an ephemeral key twice.
    pub(crate) ephemeral: [u8; 32],
    /// Shows which peer asks.
    pub(crate) mac2: Code,
    mac3: Code,
    /// What mac3 is over.
    before_mac3: &'a [u8],
}

impl<'a> Asked<'a> {
    /// Reads an Initiation and checks its mac1; `key` derives from our own public key.
    pub(crate) fn decode(datagram: &'a [u8], key: &MacKey) -> Result<Self, HandshakeError> {
        let (before_mac3, mac3) = split_code(datagram, INITIATION)?;
        let (before_mac2, mac2) = split_code(before_mac3, INITIATION_MAC3)?;
        let (before_mac1, mac1) = split_code(before_mac2, INITIATION_MAC2)?;
        if !key.verify(&[before_mac1], &mac1) {
            return Err(HandshakeError::BadMac);
        }
        let mut fields = Reader::new(&before_mac1[1..]);
        match (fields.u32(), fields.array()) {
            (Ok(sender), Ok(ephemeral)) => Ok(Self { sender, ephemeral, mac2, mac3, before_mac3 }),
            _ => Err(HandshakeError::Malformed),
        }
    }

    /// Tells whether the peer of this key made it, no matter when.
    pub(crate) fn is_of(&self, key: &PeerKey) -> bool {
        key.verify(&[&self.before_mac3[..INITIATION_MAC2]], &self.mac2)
    }

    /// Returns the key that its sender claims, at the cost of one Diffie–Hellman with our own key;
    /// [`Asked::is_of`] tells whether the claim is true.
    pub(crate) fn claimed_key(&self, own: (&StaticSecret, &PublicKey)) -> Option<PublicKey> {
        let message = &self.before_mac3[5..INITIATION_MAC1];
        claimed_key(NOISE, &prologue(WIRE_VERSION, self.sender), own, message)
    }

    /// Tells whether the peer of this key made it knowing `cookie`.
    pub(crate) fn knows(&self, key: &PeerKey, cookie: &Code) -> bool {
        key.verify(&[MAC3, cookie, self.before_mac3], &self.mac3)
    }

    /// Spends two Diffie–Hellmans to read what it says in a version of the wire.
    pub(crate) fn open(
        &self,
        (secret, wire): (&StaticSecret, u8),
        entropy: &mut Entropy,
    ) -> Result<Admitted, HandshakeError> {
        let prologue = prologue(wire, self.sender);
        let mut state = builder(secret, &prologue, entropy)
            .build_responder()
            .expect("every key has its length");
        let mut payload = [0; INITIATION_NOISE];
        let read = state.read_message(&self.before_mac3[5..INITIATION_MAC1], &mut payload);
        if read != Ok(INITIATION_PAYLOAD) {
            return Err(HandshakeError::Unauthentic);
        }
        let peer = state.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey);
        match (peer, Reader::new(&payload).u64()) {
            (Some(peer), Ok(session_nonce)) => {
                Ok(Admitted { peer, session_nonce, remote_index: self.sender, state })
            }
            _ => Err(HandshakeError::Malformed),
        }
    }
}

/// Holds an Initiation that was opened.
pub(crate) struct Admitted {
    /// Whose it is.
    pub(crate) peer: PublicKey,
    /// Which of its sessions the keys are for.
    pub(crate) session_nonce: u64,
    remote_index: u32,
    state: HandshakeState,
}

impl Admitted {
    /// Spends two more Diffie–Hellmans on the Response and the keys.
    pub(crate) fn respond(
        mut self,
        (key, psk): (&PeerKey, &[u8; 32]),
        local_index: u32,
        clock_us: u64,
        continues: bool,
    ) -> ([u8; RESPONSE], EpochKeys) {
        self.state.set_psk(2, psk).expect("a pre-shared key has 32 bytes");
        let mut payload = [0; RESPONSE_PAYLOAD];
        payload[..4].copy_from_slice(&local_index.to_le_bytes());
        payload[4..12].copy_from_slice(&clock_us.to_le_bytes());
        payload[12] = u8::from(continues);

        let mut datagram = [0; RESPONSE];
        datagram[0] = DatagramType::Response as u8;
        datagram[1..5].copy_from_slice(&self.remote_index.to_le_bytes());
        let written = self.state.write_message(&payload, &mut datagram[5..RESPONSE_MAC]);
        assert_eq!(written.ok(), Some(RESPONSE_NOISE), "the second message has one length");
        let mac2 = key.code(&[&datagram[..RESPONSE_MAC]]);
        datagram[RESPONSE_MAC..].copy_from_slice(&mac2);

        let (theirs, ours) = self.state.dangerously_get_raw_split();
        (datagram, EpochKeys::new(local_index, self.remote_index, ours, theirs))
    }
}

fn builder<'a>(secret: &'a StaticSecret, prologue: &'a [u8], entropy: &mut Entropy) -> Builder<'a> {
    let noise = NOISE.parse().expect("the name of a Noise protocol");
    Builder::with_resolver(noise, entropy.resolver())
        .local_private_key(secret.as_bytes())
        .and_then(|builder| builder.prologue(prologue))
        .expect("key and prologue are set once")
}

/// Binds the version and the initiator's index, which stands outside, into the Noise messages.
fn prologue(wire: u8, sender: u32) -> [u8; 12] {
    let mut prologue = [0; 12];
    prologue[..8].copy_from_slice(VERSION);
    prologue[7] = b'0' + wire;
    prologue[8..].copy_from_slice(&sender.to_le_bytes());
    prologue
}

fn mac3(key: &PeerKey, cookie: &Code, before: &[u8]) -> Code {
    key.code(&[MAC3, cookie, before])
}

/// Splits the code off the end of a datagram, or part of one, that must be `len` long.
fn split_code(datagram: &[u8], len: usize) -> Result<(&[u8], Code), HandshakeError> {
    match datagram.split_last_chunk::<16>() {
        Some((before, code)) if datagram.len() == len => Ok((before, *code)),
        _ => Err(HandshakeError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PathId;
    use crate::wire::{DATA_HEADER, DataHeader};
    use units::Instant;

    struct Pair {
        initiator: StaticSecret,
        responder: StaticSecret,
        entropy: Entropy,
    }

    fn pair() -> Pair {
        let mut entropy = Entropy::new([3; 32]);
        let initiator = StaticSecret::generate(entropy.array());
        let responder = StaticSecret::generate(entropy.array());
        Pair { initiator, responder, entropy }
    }

    fn initiation(pair: &mut Pair, psk: [u8; 32]) -> Initiation {
        let peer = pair.responder.public();
        let key = PeerKey::agree(&pair.initiator, &peer, &psk);
        let parties =
            Parties { secret: &pair.initiator, peer, psk: &psk, key: &key, wire: WIRE_VERSION };
        Initiation::new(&parties, 11, 0xabcd, &mut pair.entropy)
    }

    fn respond(pair: &mut Pair, datagram: &[u8], psk: [u8; 32]) -> ([u8; RESPONSE], EpochKeys) {
        let asked = Asked::decode(datagram, &mac1_key(&pair.responder.public())).expect("sound");
        let admitted =
            asked.open((&pair.responder, WIRE_VERSION), &mut pair.entropy).expect("authentic");
        assert_eq!((admitted.peer, admitted.session_nonce), (pair.initiator.public(), 0xabcd));
        admitted.respond((&responders_key(pair, psk), &psk), 22, 123_456, true)
    }

    fn responders_key(pair: &Pair, psk: [u8; 32]) -> PeerKey {
        PeerKey::agree(&pair.responder, &pair.initiator.public(), &psk)
    }

    #[test]
    fn the_datagrams_have_the_lengths_of_the_specification() {
        let lengths = (super::super::cookie::COOKIE, super::super::cookie::REFUSAL);
        assert_eq!((INITIATION, RESPONSE, lengths), (157, 82, (37, 21)));
    }

    #[test]
    fn both_ends_agree_on_keys_and_facts() {
        let mut pair = pair();
        let mut initiation = initiation(&mut pair, [7; 32]);
        let datagram = initiation.datagram(None);
        let (response, theirs) = respond(&mut pair, &datagram, [7; 32]);
        assert_eq!(response_receiver(&response), Ok(11));
        let agreed = initiation.finish(&response).expect("authentic");
        assert_eq!((agreed.clock_us, agreed.continues), (123_456, true));

        let mut ring = super::super::KeyRing::new();
        ring.install(Instant::ZERO, agreed.keys);
        let mut sealed = vec![0; DATA_HEADER];
        sealed.extend_from_slice(b"hello");
        ring.seal(PathId(2), 9, &mut sealed).expect("there are keys");
        let header = DataHeader::decode(&sealed).expect("a data datagram");
        assert_eq!(header.receiver, 22);
        let range = theirs.open(&header, &mut sealed).expect("authentic");
        assert_eq!(&sealed[range], b"hello");
        assert!(initiation.finish(&response).is_err(), "a response is good once");
    }

    #[test]
    fn the_code_that_both_share_tells_who_asks_and_what_it_knows() {
        let mut pair = pair();
        let datagram = initiation(&mut pair, [7; 32]).datagram(Some(&[1; 16]));
        let asked = Asked::decode(&datagram, &mac1_key(&pair.responder.public())).expect("sound");
        let key = responders_key(&pair, [7; 32]);
        assert!(asked.is_of(&key) && asked.knows(&key, &[1; 16]));
        assert!(!asked.knows(&key, &[2; 16]));
        let other = responders_key(&pair, [8; 32]);
        assert!(!asked.is_of(&other) && !asked.knows(&other, &[1; 16]), "another pre-shared key");
    }

    #[test]
    fn a_flipped_bit_or_a_missing_byte_is_an_error() {
        let mut pair = pair();
        let mut initiation = initiation(&mut pair, [0; 32]);
        let datagram = initiation.datagram(Some(&[1; 16]));
        let mac1 = mac1_key(&pair.responder.public());
        let key = responders_key(&pair, [0; 32]);
        for bit in 0..INITIATION * 8 {
            let mut altered = datagram;
            altered[bit / 8] ^= 1 << (bit % 8);
            let asked = Asked::decode(&altered, &mac1);
            let taken = asked.is_ok_and(|asked| asked.is_of(&key) && asked.knows(&key, &[1; 16]));
            assert!(!taken, "bit {bit}");
        }
        for len in 0..INITIATION {
            let cut = Asked::decode(&datagram[..len], &mac1);
            assert_eq!(cut.err(), Some(HandshakeError::Malformed));
        }
        let (response, _) = respond(&mut pair, &datagram, [0; 32]);
        for bit in 0..RESPONSE * 8 {
            let mut altered = response;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(initiation.finish(&altered).err(), Some(HandshakeError::BadMac));
        }
        assert!(initiation.finish(&response[1..]).is_err());
        assert!(initiation.finish(&response).is_ok());
    }

    #[test]
    fn the_claimed_key_is_the_one_that_the_noise_message_carries() {
        let mut pair = pair();
        let datagram = initiation(&mut pair, [7; 32]).datagram(None);
        let mac1 = mac1_key(&pair.responder.public());
        let claimed = |datagram: &[u8], secret: &StaticSecret| {
            let asked = Asked::decode(datagram, &mac1).expect("sound");
            asked.claimed_key((secret, &secret.public()))
        };
        assert_eq!(claimed(&datagram, &pair.responder), Some(pair.initiator.public()));
        assert_eq!(claimed(&datagram, &pair.initiator), None, "it is sealed for the responder");
        // The sender, the ephemeral key, the static one and its tag are bound together.
        for byte in [1, 5, 37, 84] {
            let mut altered = datagram;
            altered[byte] ^= 1;
            let code = mac1.code(&[&altered[..INITIATION_MAC1]]);
            altered[INITIATION_MAC1..INITIATION_MAC2].copy_from_slice(&code);
            assert_eq!(claimed(&altered, &pair.responder), None, "byte {byte}");
        }
    }

    #[test]
    fn what_stands_outside_the_noise_messages_is_bound_into_them() {
        // Even an attacker who could make every code could not alter an index.
        let mut pair = pair();
        let mac1 = mac1_key(&pair.responder.public());
        let mut datagram = initiation(&mut pair, [0; 32]).datagram(None);
        datagram[1] ^= 1;
        let code = mac1.code(&[&datagram[..INITIATION_MAC1]]);
        datagram[INITIATION_MAC1..INITIATION_MAC2].copy_from_slice(&code);
        let asked = Asked::decode(&datagram, &mac1).expect("mac1 needs no secret");
        let opened = asked.open((&pair.responder, WIRE_VERSION), &mut pair.entropy);
        assert_eq!(opened.err(), Some(HandshakeError::Unauthentic));
    }
}
