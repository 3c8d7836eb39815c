//! The handshake: Noise_IKpsk2_25519_AESGCM_BLAKE2s in two datagrams [specs/wire.md §4].
//!
//! ```text
//! Initiation = 1 ‖ sender ‖ e, es, s, ss, payload ‖ mac1 ‖ mac2
//!              payload = session nonce (8) ‖ challenge (16)
//! Response   = 2 ‖ sender ‖ receiver ‖ e, ee, se, psk, payload ‖ mac1
//!              payload = responder's clock, µs (8) ‖ 1 when it continues the session (1)
//! mac1 = MAC(key of the recipient's public key, what is before it)
//! mac2 = MAC(cookie of the source address, what is before it), zero without one
//! ```
//!
//! This file turns keys and payloads into datagrams and back, and ends in [`EpochKeys`]. When to
//! send which, and what may be answered at all, is the endpoint's.

use snow::{Builder, HandshakeState};

use super::cookie::keyed_by;
use super::mac::{Code, MacKey};
use super::{Entropy, EpochKeys, PublicKey, StaticSecret};
use crate::wire::{DatagramType, Reader};

const NOISE: &str = "Noise_IKpsk2_25519_AESGCM_BLAKE2s";
/// Bound into every handshake: two versions of this protocol never agree on keys.
const PROLOGUE: &[u8] = b"fulmar 1";

const INITIATION_PAYLOAD: usize = 8 + 16;
const INITIATION_NOISE: usize = 32 + (32 + 16) + INITIATION_PAYLOAD + 16;
const INITIATION_MAC1: usize = 5 + INITIATION_NOISE;
const INITIATION_MAC2: usize = INITIATION_MAC1 + 16;
/// Bytes of an Initiation.
pub(crate) const INITIATION: usize = INITIATION_MAC2 + 16;

const RESPONSE_PAYLOAD: usize = 8 + 1;
const RESPONSE_NOISE: usize = 32 + RESPONSE_PAYLOAD + 16;
const RESPONSE_MAC1: usize = 9 + RESPONSE_NOISE;
/// Bytes of a Response.
pub(crate) const RESPONSE: usize = RESPONSE_MAC1 + 16;

// Nobody can make a responder send more than was sent to it.
const _: () = assert!(RESPONSE <= INITIATION && super::cookie::COOKIE <= INITIATION);

/// Says why a handshake datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HandshakeError {
    /// It has not the length of its type.
    Malformed,
    /// Its mac1 does not show that its sender knows whom it talks to.
    BadMac,
    /// It was forged, damaged, or made with another pre-shared key or version.
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
    pub(crate) psk: [u8; 32],
}

/// Holds an initiator's handshake from its first Initiation to the Response.
pub(crate) struct Initiation {
    /// Our name for the keys to come.
    pub(crate) local_index: u32,
    state: HandshakeState,
    /// Everything but mac2, which depends on the path.
    datagram: [u8; INITIATION],
    response_mac1: MacKey,
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
        challenge: &Code,
        entropy: &mut Entropy,
    ) -> Self {
        let mut state = builder(parties.secret, entropy)
            .psk(2, &parties.psk)
            .and_then(|builder| builder.remote_public_key(&parties.peer.0))
            .and_then(Builder::build_initiator)
            .expect("every key has its length");
        let mut payload = [0; INITIATION_PAYLOAD];
        payload[..8].copy_from_slice(&session_nonce.to_le_bytes());
        payload[8..].copy_from_slice(challenge);

        let mut datagram = [0; INITIATION];
        datagram[0] = DatagramType::Initiation as u8;
        datagram[1..5].copy_from_slice(&local_index.to_le_bytes());
        let written = state.write_message(&payload, &mut datagram[5..INITIATION_MAC1]);
        assert_eq!(written.ok(), Some(INITIATION_NOISE), "the first message has one length");
        let mac1 = mac1_key(&parties.peer).code(&[&datagram[..INITIATION_MAC1]]);
        datagram[INITIATION_MAC1..INITIATION_MAC2].copy_from_slice(&mac1);
        let response_mac1 = mac1_key(&parties.secret.public());
        Self { local_index, state, datagram, response_mac1 }
    }

    /// Returns the datagram for a path with this cookie.
    pub(crate) fn datagram(&self, cookie: Option<&Code>) -> [u8; INITIATION] {
        let mut datagram = self.datagram;
        if let Some(cookie) = cookie {
            let mac2 = keyed_by(cookie).code(&[&datagram[..INITIATION_MAC2]]);
            datagram[INITIATION_MAC2..].copy_from_slice(&mac2);
        }
        datagram
    }

    /// Returns the code that a Cookie datagram has to know.
    pub(crate) fn mac1(&self) -> Code {
        let mut code = [0; 16];
        code.copy_from_slice(&self.datagram[INITIATION_MAC1..INITIATION_MAC2]);
        code
    }

    /// Checks the mac1 of a Response: its sender knows our public key, which eavesdroppers do not
    /// learn from the handshake.
    pub(crate) fn screen(&self, response: &[u8]) -> Result<(), HandshakeError> {
        let (signed, mac1) = split_code(response, RESPONSE)?;
        let is_ours = self.response_mac1.verify(&[signed], &mac1);
        if is_ours { Ok(()) } else { Err(HandshakeError::BadMac) }
    }

    /// Takes a Response; after an error the handshake still waits for the right one.
    pub(crate) fn finish(&mut self, response: &[u8]) -> Result<Agreed, HandshakeError> {
        self.screen(response)?;
        let signed = &response[..RESPONSE_MAC1];
        let mut payload = [0; RESPONSE_NOISE];
        let read = self.state.read_message(&signed[9..], &mut payload);
        if read != Ok(RESPONSE_PAYLOAD) {
            return Err(HandshakeError::Unauthentic);
        }
        let mut fields = Reader::new(&payload);
        let (Ok(clock_us), Ok(continues)) = (fields.u64(), fields.u8()) else {
            return Err(HandshakeError::Malformed);
        };
        let remote_index =
            Reader::new(&signed[1..]).u32().map_err(|_| HandshakeError::Malformed)?;
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
    Reader::new(&response[5..]).u32().map_err(|_| HandshakeError::Malformed)
}

/// Shows an Initiation at the responder before any Diffie–Hellman.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The initiator's name for the keys to come.
    pub(crate) sender: u32,
    /// Names the handshake: no honest initiator uses an ephemeral key twice.
    pub(crate) ephemeral: [u8; 32],
    /// Shows that the initiator knows whom it talks to.
    pub(crate) mac1: Code,
    /// Shows that the initiator receives at its source address.
    pub(crate) mac2: Code,
    /// What mac2 is over.
    pub(crate) before_mac2: &'a [u8],
}

impl<'a> Asked<'a> {
    /// Reads an Initiation and checks its mac1; `key` is of our own public key.
    pub(crate) fn decode(datagram: &'a [u8], key: &MacKey) -> Result<Self, HandshakeError> {
        let (before_mac2, mac2) = split_code(datagram, INITIATION)?;
        let (before_mac1, mac1) = split_code(before_mac2, INITIATION_MAC2)?;
        if !key.verify(&[before_mac1], &mac1) {
            return Err(HandshakeError::BadMac);
        }
        let mut fields = Reader::new(&before_mac1[1..]);
        match (fields.u32(), fields.array()) {
            (Ok(sender), Ok(ephemeral)) => Ok(Self { sender, ephemeral, mac1, mac2, before_mac2 }),
            _ => Err(HandshakeError::Malformed),
        }
    }

    /// Spends two Diffie–Hellmans to find out who asks.
    pub(crate) fn open(
        &self,
        secret: &StaticSecret,
        entropy: &mut Entropy,
    ) -> Result<Admitted, HandshakeError> {
        let mut state =
            builder(secret, entropy).build_responder().expect("every key has its length");
        let mut payload = [0; INITIATION_NOISE];
        let read = state.read_message(&self.before_mac2[5..INITIATION_MAC1], &mut payload);
        if read != Ok(INITIATION_PAYLOAD) {
            return Err(HandshakeError::Unauthentic);
        }
        let mut fields = Reader::new(&payload);
        let peer = state.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey);
        match (peer, fields.u64(), fields.array()) {
            (Some(peer), Ok(session_nonce), Ok(challenge)) => {
                Ok(Admitted { peer, session_nonce, challenge, remote_index: self.sender, state })
            }
            _ => Err(HandshakeError::Malformed),
        }
    }
}

/// Holds an Initiation whose sender is known.
pub(crate) struct Admitted {
    /// Who it is.
    pub(crate) peer: PublicKey,
    /// Which of its sessions the keys are for.
    pub(crate) session_nonce: u64,
    /// What it repeats from a Cookie datagram.
    pub(crate) challenge: Code,
    remote_index: u32,
    state: HandshakeState,
}

impl Admitted {
    /// Spends two more Diffie–Hellmans on the Response and the keys.
    pub(crate) fn respond(
        mut self,
        psk: &[u8; 32],
        local_index: u32,
        clock_us: u64,
        continues: bool,
    ) -> ([u8; RESPONSE], EpochKeys) {
        self.state.set_psk(2, psk).expect("a pre-shared key has 32 bytes");
        let mut payload = [0; RESPONSE_PAYLOAD];
        payload[..8].copy_from_slice(&clock_us.to_le_bytes());
        payload[8] = u8::from(continues);

        let mut datagram = [0; RESPONSE];
        datagram[0] = DatagramType::Response as u8;
        datagram[1..5].copy_from_slice(&local_index.to_le_bytes());
        datagram[5..9].copy_from_slice(&self.remote_index.to_le_bytes());
        let written = self.state.write_message(&payload, &mut datagram[9..RESPONSE_MAC1]);
        assert_eq!(written.ok(), Some(RESPONSE_NOISE), "the second message has one length");
        let mac1 = mac1_key(&self.peer).code(&[&datagram[..RESPONSE_MAC1]]);
        datagram[RESPONSE_MAC1..].copy_from_slice(&mac1);

        let (theirs, ours) = self.state.dangerously_get_raw_split();
        (datagram, EpochKeys::new(local_index, self.remote_index, ours, theirs))
    }
}

fn builder<'a>(secret: &'a StaticSecret, entropy: &mut Entropy) -> Builder<'a> {
    let noise = NOISE.parse().expect("the name of a Noise protocol");
    Builder::with_resolver(noise, entropy.resolver())
        .local_private_key(secret.as_bytes())
        .and_then(|builder| builder.prologue(PROLOGUE))
        .expect("key and prologue are set once")
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
        let parties = Parties { secret: &pair.initiator, peer: pair.responder.public(), psk };
        Initiation::new(&parties, 11, 0xabcd, &[4; 16], &mut pair.entropy)
    }

    fn respond(pair: &mut Pair, datagram: &[u8], psk: [u8; 32]) -> ([u8; RESPONSE], EpochKeys) {
        let key = mac1_key(&pair.responder.public());
        let asked = Asked::decode(datagram, &key).expect("well-formed");
        let admitted = asked.open(&pair.responder, &mut pair.entropy).expect("authentic");
        assert_eq!(admitted.peer, pair.initiator.public());
        assert_eq!((admitted.session_nonce, admitted.challenge), (0xabcd, [4; 16]));
        admitted.respond(&psk, 22, 123_456, true)
    }

    #[test]
    fn the_datagrams_have_the_lengths_of_the_specification() {
        assert_eq!((INITIATION, RESPONSE, super::super::cookie::COOKIE), (157, 82, 53));
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
    fn another_pre_shared_key_ends_at_the_response() {
        let mut pair = pair();
        let mut initiation = initiation(&mut pair, [7; 32]);
        let datagram = initiation.datagram(None);
        let (response, _) = respond(&mut pair, &datagram, [8; 32]);
        assert_eq!(initiation.finish(&response).err(), Some(HandshakeError::Unauthentic));
        let (response, _) = respond(&mut pair, &datagram, [7; 32]);
        assert!(initiation.finish(&response).is_ok(), "the right one still counts");
    }

    #[test]
    fn a_flipped_bit_or_a_missing_byte_is_an_error() {
        let mut pair = pair();
        let mut initiation = initiation(&mut pair, [0; 32]);
        let datagram = initiation.datagram(Some(&[1; 16]));
        let key = mac1_key(&pair.responder.public());
        for bit in 0..INITIATION_MAC2 * 8 {
            let mut altered = datagram;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Asked::decode(&altered, &key).err(), Some(HandshakeError::BadMac));
        }
        for len in 0..INITIATION {
            let cut = Asked::decode(&datagram[..len], &key);
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
    fn a_valid_mac1_over_nonsense_is_unauthentic() {
        let mut pair = pair();
        let key = mac1_key(&pair.responder.public());
        let mut datagram = initiation(&mut pair, [0; 32]).datagram(None);
        datagram[60] ^= 1;
        let mac1 = key.code(&[&datagram[..INITIATION_MAC1]]);
        datagram[INITIATION_MAC1..INITIATION_MAC2].copy_from_slice(&mac1);
        let asked = Asked::decode(&datagram, &key).expect("mac1 needs no secret");
        let opened = asked.open(&pair.responder, &mut pair.entropy);
        assert_eq!(opened.err(), Some(HandshakeError::Unauthentic));
    }
}
