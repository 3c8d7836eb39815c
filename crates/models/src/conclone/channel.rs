//! Packet error over distance on the channel between vehicle and ground.
//!
//! ```text
//! PL(d)    = PL(d0) + 10·α·log10(d / d0)               dB; α: path-loss exponent        (11)
//! BER      = κ1 · exp(−κ2·h·p_tr / (2^ρ − 1))          h: channel gain, ρ: bits/symbol  (12)
//! f_frame  = 1 − (1 − BER)^L                           L: bits of a frame               (13)
//! f_packet = 1 − (1 − f_frame^{N_re+1})^{N_fr}         N_re retries, N_fr frames        (14)
//! ```
//! Source: [ConClone §4.3].
//!
//! *Deviations from the paper*
//! 1. κ1, κ2, h and p_tr are not published. κ1 = 0.2 and κ2 = 1.5 are the usual constants of the
//!    approximation for M-ary QAM; h·p_tr at d0 is set so that the one published anchor holds:
//!    29 % packet error at 80 m, air to ground.
//! 2. N_re and N_fr are not published: one frame a packet, no retry, because the paper's
//!    experiment counts the losses that TCP sees.

use crate::Check;

/// Path-loss exponent between vehicle and ground [ConClone §4.3].
const AIR_TO_GROUND: f64 = 2.03;
/// Path-loss exponent between vehicles [ConClone §4.3].
const AIR_TO_AIR: f64 = 2.01;
/// Reference distance, metres [ConClone §4.3].
const REFERENCE_M: f64 = 1.0;
/// Distance of the published anchor, metres [ConClone §4.2.1].
const ANCHOR_M: f64 = 80.0;
/// Packet error at the anchor [ConClone §4.2.1].
const ANCHOR_ERROR: f64 = 0.29;
/// A radio, and how packets become frames on it; [`Radio::default`] is what the figures here stand
/// on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Radio {
    /// κ1 of the bit error approximation; see deviation 1.
    pub kappa_1: f64,
    /// κ2 of it; see deviation 1.
    pub kappa_2: f64,
    /// ρ, bits of a symbol: 6, 64-QAM, the fastest mode of 802.11g.
    pub bits_per_symbol: f64,
    /// L, bits of a frame: 12,000, 1,500 bytes.
    pub frame_bits: f64,
    /// N_re, retransmissions of a frame below the packet; see deviation 2.
    pub retries: u32,
    /// N_fr, frames of a packet; see deviation 2.
    pub frames: u32,
}

impl Default for Radio {
    fn default() -> Self {
        Self {
            kappa_1: 0.2,
            kappa_2: 1.5,
            bits_per_symbol: 6.0,
            frame_bits: 12_000.0,
            retries: 0,
            frames: 1,
        }
    }
}

impl Radio {
    /// Returns the bit error rate at a received signal h·p_tr [ConClone eq. 12].
    pub fn bit_error_rate(&self, signal: f64) -> f64 {
        self.kappa_1 * (-self.kappa_2 * signal / (self.bits_per_symbol.exp2() - 1.0)).exp()
    }

    /// Returns the probability that a frame has any bit wrong [ConClone eq. 13].
    pub fn frame_error(&self, bit_error_rate: f64) -> f64 {
        // ln_1p and exp_m1 keep the digits that 1 − (1 − BER)^L loses at small rates.
        -(self.frame_bits * (-bit_error_rate).ln_1p()).exp_m1()
    }

    /// Returns the probability that a packet is lost after all retries [ConClone eq. 14].
    pub fn packet_error(&self, frame_error: f64) -> f64 {
        // As above: 1 − (1 − x)^N without its loss of digits.
        let frame_lost = frame_error.powf(f64::from(self.retries) + 1.0);
        -(f64::from(self.frames) * (-frame_lost).ln_1p()).exp_m1()
    }

    /// Returns the packet error at a distance for a signal `reference` at d0 (eq. 11–14 together).
    pub fn packet_error_at(&self, reference: f64, alpha: f64, distance_m: f64) -> f64 {
        let gain = 10.0_f64.powf(-excess_path_loss_db(alpha, distance_m) / 10.0);
        self.packet_error(self.frame_error(self.bit_error_rate(reference * gain)))
    }

    /// Returns the signal h·p_tr at d0 for which the published anchor holds, with this radio.
    pub fn anchored_signal(&self) -> f64 {
        // Packet error falls with the signal: bisect between no signal and far too much.
        let (mut low, mut high) = (0.0, 1e12);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if self.packet_error_at(middle, AIR_TO_GROUND, ANCHOR_M) > ANCHOR_ERROR {
                low = middle;
            } else {
                high = middle;
            }
        }
        0.5 * (low + high)
    }
}

/// Returns the path loss beyond that at the reference distance, dB [ConClone eq. 11].
pub fn excess_path_loss_db(alpha: f64, distance_m: f64) -> f64 {
    10.0 * alpha * (distance_m / REFERENCE_M).log10()
}

/// Compares eq. 11–14 with the anchor and shows what follows from it.
pub(super) fn checks() -> Vec<Check> {
    let radio = Radio::default();
    let signal = radio.anchored_signal();
    let mut checks = Vec::new();
    for (name, alpha) in [("air-to-ground", AIR_TO_GROUND), ("air-to-air", AIR_TO_AIR)] {
        let what = format!("path loss beyond PL(d0) at 80 m, {name}, dB");
        checks.push(Check::ours_only("eq. 11", what, excess_path_loss_db(alpha, ANCHOR_M), ""));
    }
    let gain = 10.0_f64.powf(-excess_path_loss_db(AIR_TO_GROUND, ANCHOR_M) / 10.0);
    let what = "bit error rate at 80 m".to_owned();
    let note = "follows from the anchor and 12,000-bit frames alone, not from κ1, κ2, h";
    checks.push(Check::ours_only("eq. 12", what, radio.bit_error_rate(signal * gain), note));
    let what = "packet error at 80 m, air-to-ground".to_owned();
    let error = radio.packet_error_at(signal, AIR_TO_GROUND, ANCHOR_M);
    checks.push(
        Check::new("eq. 13, 14", what, error, ANCHOR_ERROR, 5e-3)
            .because("by construction: h·p_tr is set from this, the only published point"),
    );
    for distance in [60.0, 70.0, 75.0, 85.0, 90.0, 100.0] {
        let what = format!("packet error at {distance} m, air-to-ground");
        let error = radio.packet_error_at(signal, AIR_TO_GROUND, distance);
        checks.push(Check::ours_only("Fig. 8", what, error, ""));
    }
    let what = "packet error at 80 m, air-to-air".to_owned();
    let error = radio.packet_error_at(signal, AIR_TO_AIR, ANCHOR_M);
    checks.push(Check::ours_only("Fig. 8", what, error, "a smaller exponent: less loss"));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_error_grows_with_distance_and_falls_with_retries() {
        let radio = Radio::default();
        let signal = radio.anchored_signal();
        let errors: Vec<f64> =
            (1..=100).map(|d| radio.packet_error_at(signal, AIR_TO_GROUND, f64::from(d))).collect();
        assert!(errors.windows(2).all(|pair| pair[0] <= pair[1]));
        let error = |retries, frames| Radio { retries, frames, ..radio }.packet_error(0.3);
        assert!((error(1, 1) - 0.09).abs() < 1e-12);
        assert!((error(0, 2) - 0.51).abs() < 1e-12);
        assert!((error(2, 3) - (1.0 - 0.973_f64.powi(3))).abs() < 1e-12);
    }

    #[test]
    fn small_rates_keep_their_digits() {
        let expected = 12_000.0 * 1e-15;
        assert!((Radio::default().frame_error(1e-15) / expected - 1.0).abs() < 1e-6);
    }

    #[test]
    fn air_to_air_reaches_farther() {
        let radio = Radio::default();
        let signal = radio.anchored_signal();
        assert!(radio.packet_error_at(signal, AIR_TO_AIR, 80.0) < ANCHOR_ERROR);
    }
}
