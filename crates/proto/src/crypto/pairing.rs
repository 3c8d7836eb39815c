//! What a pairing code is worth: a key pair and a pre-shared key that live as long as the code, and
//! the proof that a drone makes with the key that it is to be known by from then on.
//!
//! ```text
//! guest secret = BLAKE2s("fulmar guest" ‖ secret of the code ‖ station's public key)
//! guest psk    = BLAKE2s("fulmar guest psk" ‖ secret of the code ‖ station's public key)
//! proof        = MAC(BLAKE2s("fulmar proof" ‖ X25519(drone, station)), drone ‖ guest)
//! ```
//!
//! The secret of a code is 128 random bits, so it needs no stretching. A proof holds for one code:
//! it names the guest.

use blake2::Blake2s256;
use blake2::digest::Digest;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use zeroize::Zeroizing;

use super::mac::{Code, MacKey};
use super::{PublicKey, StaticSecret};

/// Who a drone is while it is being paired.
#[derive(Debug)]
pub struct Guest {
    /// Its key pair.
    pub secret: StaticSecret,
    /// What it shares with the station beside that.
    pub preshared_key: Zeroizing<[u8; 32]>,
}

impl Guest {
    /// Derives the guest of a code from the code's secret and the station's public key: both ends
    /// come to the same.
    pub fn of_code(secret: &[u8; 16], station: &PublicKey) -> Self {
        let derive = |label: &str| -> [u8; 32] {
            let hash = Blake2s256::new().chain_update(label).chain_update(secret);
            hash.chain_update(station.0).finalize().into()
        };
        Self {
            secret: StaticSecret::generate(derive("fulmar guest")),
            preshared_key: Zeroizing::new(derive("fulmar guest psk")),
        }
    }
}

/// Proves to a station, to which we speak as `guest`, that we hold a secret key.
pub fn prove(drone: &StaticSecret, station: &PublicKey, guest: &PublicKey) -> [u8; 16] {
    proof_key(drone, station).code(&[&drone.public().0, &guest.0])
}

/// Tells whether a proof of [`prove`] was made with the secret key of `drone`; never for a weak
/// key, which is nobody's.
pub fn is_proof(
    station: &StaticSecret,
    drone: &PublicKey,
    guest: &PublicKey,
    proof: &Code,
) -> bool {
    !drone.is_weak() && proof_key(station, drone).verify(&[&drone.0, &guest.0], proof)
}

fn proof_key(secret: &StaticSecret, other: &PublicKey) -> MacKey {
    let mut dh = DefaultResolver
        .resolve_dh(&DHChoice::Curve25519)
        .expect("the default resolver is built with X25519");
    dh.set(secret.as_bytes());
    let mut agreed = Zeroizing::new([0; 32]);
    // An error is a weak key, which `is_proof` refuses.
    let _ = dh.dh(&other.0, &mut *agreed);
    MacKey::derive("fulmar proof", &*agreed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_code_derive_the_same_guest_and_no_other_code_does() {
        let [station, other] = [1, 2].map(|seed| StaticSecret::generate([seed; 32]).public());
        let guest = |secret: u8, station: &PublicKey| {
            let guest = Guest::of_code(&[secret; 16], station);
            (guest.secret.public(), *guest.preshared_key)
        };
        assert_eq!(guest(1, &station), guest(1, &station));
        let different = [guest(1, &station), guest(2, &station), guest(1, &other)];
        assert!(different[0].0 != different[1].0 && different[0].1 != different[1].1);
        assert!(different[0].0 != different[2].0 && different[0].1 != different[2].1);
        assert!(!guest(1, &station).0.is_weak());
    }

    #[test]
    fn a_proof_is_of_one_key_for_one_station_and_one_code() {
        let [drone, station, other] = [1, 2, 3].map(|seed| StaticSecret::generate([seed; 32]));
        let guests = [4, 5].map(|secret| Guest::of_code(&[secret; 16], &station.public()));
        let [guest, another] = guests.map(|guest| guest.secret.public());
        let proof = prove(&drone, &station.public(), &guest);
        assert!(is_proof(&station, &drone.public(), &guest, &proof));
        assert!(
            !is_proof(&station, &drone.public(), &another, &proof),
            "replayed with another code"
        );
        assert!(!is_proof(&station, &other.public(), &guest, &proof), "someone else's key");
        assert!(!is_proof(&other, &drone.public(), &guest, &proof), "another station");
        let stolen = prove(&other, &station.public(), &guest);
        assert!(!is_proof(&station, &drone.public(), &guest, &stolen), "without its secret key");
        let weak = PublicKey([0; 32]);
        let forged = MacKey::derive("fulmar proof", &[0; 32]).code(&[&weak.0, &guest.0]);
        assert!(!is_proof(&station, &weak, &guest, &forged), "everybody agrees with it on zeros");
    }
}
