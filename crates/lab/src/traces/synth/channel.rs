//! What each receiver hears of each transmitter, slot by slot.
//!
//! ```text
//! P     = P_tx + G_tx + G_rx − PL(d0) − 10·α·log10(d/d0) − extra + |h|²     dB; [ConClone eq. 11]
//! h     = √(K/(K+1)) + √(1/(K+1))·g          g: complex, normal, of power 1
//! g'    = ρ·g + √(1−ρ²)·w                    ρ = e^(−s/D); s: way flown in a slot, D: the way of coherence
//! SINR  = P_strongest / (N + Σ P_others)
//! BER   = ½·e^(−E_b/N_0), E_b/N_0 = 11·SINR  differential BPSK, spread by 11 chips: 1 Mbit/s DSSS
//! f     = 1 − (1 − BER)^L                    L: bits of a frame on the air
//! ```
//! All radios of the sending side send in every slot. A receiver takes at most one frame in a slot:
//! the strongest, when it is `capture_db` above all others together, with probability 1 − f. In an
//! aircraft at twice the speed everything fades twice as fast: the time of coherence is D over the
//! speed.
//!
//! Each pair, and each receiver, draws from a stream of the seed of its own: without the other
//! transmitters a pair fades as it does among them.

use std::sync::Arc;

use models::conclone::channel::excess_path_loss_db;
use netem::{SlotMatrix, SlotRow, SlotTrace};
use units::{Duration, Rng};

use super::antenna::about_up;
use super::course::{Fix, next};
use super::flight::{Air, Flight, Receiver, Transmitter};

/// What a frame has beside the payload, bytes: UDP, IP, LLC, the 802.11 header and its check sum.
const OVERHEAD_BYTES: u64 = 28 + 8 + 28;
/// Chips of a bit: the Barker code of 802.11 at 1 Mbit/s.
const CHIPS: f64 = 11.0;

/// Which way frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the radios on the ground to those aboard.
    Up,
    /// From those aboard to the ground: each pair has the antennas and the fading of the other way.
    Down,
}

/// Returns what is heard on a flown course when all radios of the sending side send, or one alone.
///
/// # Panics
/// When the course has no slot, or `alone` is no sending radio's number.
pub(crate) fn render(
    flight: &Flight,
    course: &[Fix],
    way: Way,
    alone: Option<usize>,
    seed: u64,
) -> SlotMatrix {
    let ground = flight.transmitters.iter().map(|one| one.name.as_str()).collect::<Vec<_>>();
    let aboard = flight.receivers.iter().map(|one| one.name.as_str()).collect::<Vec<_>>();
    let (senders, listeners) = if way == Way::Up { (ground, aboard) } else { (aboard, ground) };
    let sending = alone.map_or(0..senders.len(), |number| number..number + 1);
    let mut heard = vec![vec![vec![false; course.len()]; listeners.len()]; sending.len()];
    for (number, listener) in listeners.iter().enumerate() {
        let pairs = sending.clone().map(|sender| {
            let (sender, listener) = match way {
                Way::Up => (sender, number),
                Way::Down => (number, sender),
            };
            Pair::new(flight, way, (sender, listener), seed)
        });
        let mut ear = Ear::new(&flight.air, pairs.collect(), listener, seed);
        for (slot, fix) in course.iter().enumerate() {
            if let Some(from) = ear.hear(fix) {
                heard[from][number][slot] = true;
            }
        }
    }
    let mut rows = Vec::new();
    for (sender, of_all) in senders[sending].iter().zip(heard) {
        for (listener, slots) in listeners.iter().zip(of_all) {
            let (from, to) = ((*sender).to_owned(), (*listener).to_owned());
            rows.push(SlotRow { from, to, trace: Arc::new(SlotTrace::new(slots)) });
        }
    }
    let slot = Duration::from_secs_f64(flight.air.slot_s());
    SlotMatrix::new(slot, rows).expect("names, slots and pairs were checked when the file was read")
}

/// A radio on the ground, one aboard, and what lies between them.
struct Pair<'f> {
    transmitter: &'f Transmitter,
    receiver: &'f Receiver,
    /// What the one that sends has, dBm.
    power_dbm: f64,
    fade: Fade,
}

impl<'f> Pair<'f> {
    fn new(flight: &'f Flight, way: Way, (ground, aboard): (usize, usize), seed: u64) -> Self {
        let (transmitter, receiver) = (&flight.transmitters[ground], &flight.receivers[aboard]);
        let stream = format!("flight fade {} {}", transmitter.name, receiver.name);
        let fade = Fade::new(&flight.air, Rng::stream(seed, &stream));
        let power_dbm = match way {
            Way::Up => transmitter.power_dbm,
            Way::Down => receiver.power_dbm,
        };
        Self { transmitter, receiver, power_dbm, fade }
    }

    /// Returns the mean level of the one at the other, dBm.
    fn level_dbm(&self, air: &Air, fix: &Fix) -> f64 {
        let [east, north, height] = self.transmitter.at;
        let way = [fix.north_m - north, fix.east_m - east, fix.height_m - height];
        // Within a metre of an antenna the path loss is that of a metre.
        let distance_m = way.iter().map(|part| part * part).sum::<f64>().sqrt();
        let up = way.map(|part| part / distance_m.max(1e-9));
        let down = about_up(up.map(|part| -part), -fix.heading);
        let gains = self.transmitter.mount.gain_db(up) + self.receiver.mount.gain_db(down);
        let path = excess_path_loss_db(air.exponent, distance_m.max(1.0));
        self.power_dbm + gains - air.reference_loss_db - path - air.extra_loss_db
    }
}

/// A radio that listens, and those that send to it.
struct Ear<'f> {
    air: &'f Air,
    pairs: Vec<Pair<'f>>,
    frames: Rng,
    bits: f64,
    noise_mw: f64,
    capture: f64,
}

impl<'f> Ear<'f> {
    fn new(air: &'f Air, pairs: Vec<Pair<'f>>, name: &str, seed: u64) -> Self {
        Self {
            air,
            pairs,
            frames: Rng::stream(seed, &format!("flight frames {name}")),
            bits: ((air.packet_bytes + OVERHEAD_BYTES) * 8) as f64,
            noise_mw: power(air.noise_dbm),
            capture: power(air.capture_db),
        }
    }

    /// Returns whose frame is received in the next slot, in which the aircraft is here.
    fn hear(&mut self, fix: &Fix) -> Option<usize> {
        let luck = self.frames.unit();
        let way_m = fix.speed_mps * self.air.slot_s();
        let (mut all, mut best) = (0.0, (0, 0.0));
        for (number, pair) in self.pairs.iter_mut().enumerate() {
            let faded = pair.fade.advance(way_m);
            let received = power(pair.level_dbm(self.air, fix)) * faded;
            all += received;
            if received > best.1 {
                best = (number, received);
            }
        }
        let (from, strongest) = best;
        let others = (all - strongest).max(0.0);
        let is_captured = strongest >= self.capture * others;
        let sinr = strongest / (self.noise_mw + others);
        (is_captured && luck >= frame_error(sinr, self.bits)).then_some(from)
    }
}

/// The fading of one pair.
struct Fade {
    steady: f64,
    scattered: f64,
    coherence_m: f64,
    parts: [f64; 2],
    rng: Rng,
}

impl Fade {
    fn new(air: &Air, mut rng: Rng) -> Self {
        let k = power(air.rice_k_db);
        let parts = [rng.normal(), rng.normal()];
        // Each part has half the power.
        let scattered = (0.5 / (k + 1.0)).sqrt();
        Self { steady: (k / (k + 1.0)).sqrt(), scattered, coherence_m: air.coherence_m, parts, rng }
    }

    /// Returns the power after some more metres, of a mean of 1.
    fn advance(&mut self, way_m: f64) -> f64 {
        let kept = (-way_m / self.coherence_m).exp();
        for part in &mut self.parts {
            *part = next(*part, kept, &mut self.rng);
        }
        let [real, imaginary] = self.parts.map(|part| part * self.scattered);
        (self.steady + real).powi(2) + imaginary.powi(2)
    }
}

/// Returns the probability that a frame of so many bits has any wrong.
fn frame_error(sinr: f64, bits: f64) -> f64 {
    let bit_error = 0.5 * (-CHIPS * sinr).exp();
    // ln_1p and exp_m1 keep the digits that 1 − (1 − BER)^L loses at small rates.
    -(bits * (-bit_error).ln_1p()).exp_m1()
}

fn power(db: f64) -> f64 {
    10.0_f64.powf(db / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_at_1_mbit_s_needs_a_signal_as_strong_as_the_noise() {
        let error = |db: f64| frame_error(power(db), 12_288.0);
        assert!(error(-3.0) > 0.99 && error(2.0) < 1e-3);
        assert!((0.2..0.8).contains(&error(-0.8)), "{}", error(-0.8));
    }

    #[test]
    fn fading_has_a_mean_of_1_and_forgets_itself_with_the_way_not_with_time() {
        let air = Air {
            packet_bytes: 1_472,
            rate_mbps: 1.0,
            exponent: 2.03,
            reference_loss_db: 40.2,
            extra_loss_db: 0.0,
            noise_dbm: -94.5,
            capture_db: 6.0,
            rice_k_db: 0.0,
            coherence_m: 2.0,
        };
        // Correlation of the power over 2 m, in steps of 0.2 m and of 0.05 m: that of a slower
        // aircraft.
        for (step_m, apart) in [(0.2, 10), (0.05, 40)] {
            let mut fade = Fade::new(&air, Rng::new(3));
            let powers: Vec<f64> = (0..400_000).map(|_| fade.advance(step_m)).collect();
            let mean = powers.iter().sum::<f64>() / powers.len() as f64;
            assert!((mean - 1.0).abs() < 0.05, "{mean}");
            let about = |lag: usize| {
                let pairs = powers.iter().zip(&powers[lag..]);
                pairs.map(|(one, other)| (one - mean) * (other - mean)).sum::<f64>()
            };
            let correlation = about(apart) / about(0);
            // Between 1/e, of the amplitude, and its square.
            assert!((0.1..0.4).contains(&correlation), "{step_m}: {correlation}");
        }
    }
}
