//! What can be made of handshakes by somebody who sees a link, knows both public keys and holds no
//! secret: every code that a peer makes, with a key that needs no secret in the place of the shared
//! one.
//!
//! Written from specs/wire.md §4, not from the code: an attacker has no more than that.

use blake2::digest::consts::U16;
use blake2::digest::{Digest, KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac};
use proto::PublicKey;
use units::Rng;

/// A code, or a cookie.
pub(super) type Code = [u8; 16];

/// The first byte of what begins a handshake.
pub(super) const INITIATION: u8 = 1;
/// The first byte of what answers one that has no cookie.
pub(super) const COOKIE: u8 = 3;
/// The first byte of datagrams that carry data; smaller ones are of handshakes.
pub(super) const DATA: u8 = 4;

/// Bytes of an Initiation, and where its three codes begin.
pub(super) const INITIATION_BYTES: usize = 157;
const MAC1: usize = 109;
const MAC2: usize = 125;
const MAC3: usize = 141;
/// Bytes of type and index at the head of every datagram.
const HEAD: usize = 5;
/// Where the cookie of a Cookie ends.
const COOKIE_END: usize = 21;

/// Makes codes without a secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forger {
    /// The key of mac1 for datagrams to the station, which anybody may know.
    station: [u8; 32],
    /// What is used where a peer uses the key that both share.
    in_place_of_shared: [u8; 32],
}

impl Forger {
    /// Uses one of the public keys where a peer uses the shared key.
    pub(super) fn new(station: &PublicKey, in_place_of_shared: &PublicKey) -> Self {
        Self { station: mac1_key(station), in_place_of_shared: mac1_key(in_place_of_shared) }
    }

    /// Makes the codes of a handshake's datagram anew.
    pub(super) fn sign(&self, bytes: &mut [u8], cookie: Option<&Code>) {
        if bytes.first() == Some(&INITIATION) && bytes.len() == INITIATION_BYTES {
            return self.sign_initiation(bytes, cookie);
        }
        if let Some((before, mac2)) = bytes.split_last_chunk_mut::<16>() {
            *mac2 = code(&self.in_place_of_shared, &[before]);
        }
    }

    /// Begins a handshake in which nothing but the codes has a meaning.
    pub(super) fn initiation(&self, cookie: Option<&Code>, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = vec![0; INITIATION_BYTES];
        rng.fill(&mut bytes[..MAC1]);
        bytes[0] = INITIATION;
        self.sign_initiation(&mut bytes, cookie);
        bytes
    }

    /// Answers an Initiation with a cookie that nobody will take; none if it is not one.
    pub(super) fn cookie(&self, initiation: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
        let mac2 = initiation.get(MAC2..MAC3)?;
        let mut bytes = initiation[..HEAD].to_vec();
        bytes[0] = COOKIE;
        bytes.resize(COOKIE_END, 0);
        rng.fill(&mut bytes[HEAD..]);
        let code = code(&self.in_place_of_shared, &[&bytes, mac2]);
        bytes.extend_from_slice(&code);
        Some(bytes)
    }

    fn sign_initiation(&self, bytes: &mut [u8], cookie: Option<&Code>) {
        let mac1 = code(&self.station, &[&bytes[..MAC1]]);
        bytes[MAC1..MAC2].copy_from_slice(&mac1);
        let mac2 = code(&self.in_place_of_shared, &[&bytes[..MAC2]]);
        bytes[MAC2..MAC3].copy_from_slice(&mac2);
        if let Some(cookie) = cookie {
            let parts: [&[u8]; 3] = [b"fulmar mac3", cookie, &bytes[..MAC3]];
            let mac3 = code(&self.in_place_of_shared, &parts);
            bytes[MAC3..].copy_from_slice(&mac3);
        }
    }
}

/// Returns the cookie that a datagram brings, if it is a Cookie.
pub(super) fn cookie_of(bytes: &[u8]) -> Option<Code> {
    bytes.strip_prefix(&[COOKIE])?.get(HEAD - 1..COOKIE_END - 1)?.try_into().ok()
}

fn mac1_key(public: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain_update("fulmar mac1").chain_update(public.0).finalize().into()
}

fn code(key: &[u8; 32], parts: &[&[u8]]) -> Code {
    let mac = <Blake2sMac<U16> as KeyInit>::new(key.into());
    parts.iter().fold(mac, |mac, part| mac.chain_update(part)).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use proto::{Endpoint, EndpointConfig, InterfaceId, Received, SessionConfig, StaticSecret};
    use units::Instant;

    use super::*;

    /// What the codes are good for is shown by a station: it tells a stranger's mac1 from nonsense.
    #[test]
    fn a_station_reads_the_codes_and_finds_no_peer() {
        let [drone, station] = [1, 2].map(|seed| StaticSecret::generate([seed; 32]));
        let session = SessionConfig::default();
        let config = EndpointConfig { secret: station, entropy: [3; 32], accept: true, session };
        let public = config.secret.public();
        let mut endpoint = Endpoint::new(config, Instant::ZERO);
        endpoint.add_peer(drone.public(), None);
        let forger = Forger::new(&public, &drone.public());
        let mut bytes = forger.initiation(Some(&[7; 16]), &mut Rng::stream(1, "forge"));
        let source = proto::Via::Udp(([192, 0, 2, 1], 1).into());
        let from = Received { interface: InterfaceId(0), local: None, source, ecn: 0 };
        endpoint.handle_datagram(Instant::ZERO, &from, &mut bytes);
        let counters = endpoint.counters();
        assert_eq!((counters.unknown_peer, counters.bad_mac), (1, 0));
        bytes[50] ^= 1;
        endpoint.handle_datagram(Instant::ZERO, &from, &mut bytes);
        assert_eq!(endpoint.counters().bad_mac, 1);
    }

    #[test]
    fn a_cookie_is_found_where_it_stands() {
        let [drone, station] = [1, 2].map(|seed| StaticSecret::generate([seed; 32]).public());
        let forger = Forger::new(&station, &drone);
        let mut rng = Rng::stream(1, "forge");
        let initiation = forger.initiation(None, &mut rng);
        let bytes = forger.cookie(&initiation, &mut rng).expect("it is an Initiation");
        assert_eq!((bytes.len(), &bytes[1..5]), (37, &initiation[1..5]));
        assert_eq!(cookie_of(&bytes).expect("a Cookie"), bytes[5..21]);
        assert_eq!(cookie_of(&initiation), None);
    }
}
