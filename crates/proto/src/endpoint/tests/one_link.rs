//! Somebody who sees and sends on one link, and knows both public keys, does not reach the others.

use super::*;
use crate::crypto::{MacKey, mac1_key};

const SECOND: Duration = Duration::from_secs(1);
/// Before what was altered.
const FIRST: Duration = Duration::from_millis(1);

/// A pair with an attacker on the first link, who gets to know both public keys.
fn attacked(attack: impl Fn(PublicKey, PublicKey) -> Eavesdropper) -> (Wire, SessionId) {
    let (mut wire, session) = Wire::pair(5);
    let (drone, station) = (wire.hosts[0].key, wire.hosts[1].key);
    wire.eavesdropper = Some(attack(drone, station));
    (wire, session)
}

/// Asserts that both ends hear each other at once, through two changes of keys.
fn assert_undisturbed((mut wire, session): (Wire, SessionId)) {
    wire.run_for(SECOND);
    for _ in 0..500 {
        wire.assert_carries(0, session, 1, Duration::from_millis(100));
        let (theirs, _) = wire.hosts[1].endpoint.sessions().next().expect("the session");
        wire.assert_carries(1, theirs, 0, Duration::from_millis(500));
    }
    assert!(wire.hosts[0].count(|event| *event == Event::Rekeyed) >= 2);
    assert_eq!(wire.hosts[0].connections(), 1);
}

/// Replaces the last bytes by a code that the public key of a party keys.
fn sign(bytes: &mut [u8], key: &MacKey) {
    let (before, code) = bytes.split_last_chunk_mut::<16>().expect("room for a code");
    *code = key.code(&[before]);
}

#[test]
fn altered_responses_do_not_mislead_the_drone() {
    for place in [1, 5, 40] {
        assert_undisturbed(attacked(|drone, _| {
            Box::new(move |flight| {
                let mut added = flight.clone();
                if flight.bytes[0] != RESPONSE {
                    return Vec::new();
                }
                added.bytes[place] ^= 1;
                let as_it_was = added.clone();
                sign(&mut added.bytes, &mac1_key(&drone));
                vec![(FIRST, added), (FIRST, as_it_was)]
            })
        }));
    }
}

#[test]
fn altered_initiations_do_not_mislead_the_station() {
    for place in [1, 5, 40, 120] {
        assert_undisturbed(attacked(|_, station| {
            Box::new(move |flight| {
                let mut added = flight.clone();
                if flight.bytes[0] != INITIATION {
                    return Vec::new();
                }
                added.bytes[place] ^= 1;
                let end = added.bytes.len() - 32;
                sign(&mut added.bytes[..end], &mac1_key(&station));
                vec![(FIRST, added)]
            })
        }));
    }
}

#[test]
fn forged_cookies_do_not_keep_the_drone_away() {
    assert_undisturbed(attacked(|_, station| {
        Box::new(move |flight| {
            if flight.bytes[0] != INITIATION {
                return Vec::new();
            }
            let mut bytes = vec![COOKIE];
            bytes.extend_from_slice(&flight.bytes[1..5]);
            bytes.extend_from_slice(&[0x66; 16 + 16]);
            sign(&mut bytes, &MacKey::derive("fulmar cookie", &station.0));
            let (source, destination) = (flight.destination, flight.source);
            let forged = Flight { source, destination, bytes };
            (1..100).map(|count| (FIRST * count, forged.clone())).collect()
        })
    }));
}

#[test]
fn what_is_said_again_and_again_does_not_spend_the_drones_share() {
    // Every Initiation comes a hundred times, by the one link and from other addresses of it.
    assert_undisturbed(attacked(|_, _| {
        Box::new(move |flight| {
            if flight.bytes[0] != INITIATION {
                return Vec::new();
            }
            let copy = |count: u16| {
                let mut added = flight.clone();
                if count.is_multiple_of(2) {
                    added.source.set_port(2_000 + count);
                }
                (FIRST * u32::from(count), added)
            };
            (1..200).map(copy).collect()
        })
    }));
}
