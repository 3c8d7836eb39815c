//! Antennas: what one gains in each direction, and how it is mounted.
//!
//! ```text
//! gain(direction) = gain + along(θ) + around(φ)   dB; θ: from the axis, φ: clockwise about it, from the front
//! ```
//! A vertical antenna's axis points up and its front ahead: north on the ground, to the nose
//! aboard. It is turned about its axis first, and then tilted toward a direction.

use core::f64::consts::{PI, TAU};

/// A direction or an axis: ahead, to the right, up.
pub(crate) type Vector = [f64; 3];

/// What a dipole has left at the ends of its axis, dB: no real one has a perfect null.
const NULL_DB: f64 = -25.0;

/// What an antenna gains, by direction.
#[derive(Clone, Debug)]
pub(crate) struct Antenna {
    /// In every direction, dB.
    pub(crate) gain_db: f64,
    /// Whether it has the nulls of a half-wave dipole.
    pub(crate) is_dipole: bool,
    /// From the axis's upper end to its lower one, in equal steps, dB.
    pub(crate) along_db: Vec<f64>,
    /// Around the axis, in equal steps from the front, dB.
    pub(crate) around_db: Vec<f64>,
}

/// An antenna in its place.
#[derive(Clone, Debug)]
pub(crate) struct Mount {
    antenna: Antenna,
    /// The antenna's front, right and axis, in the frame of what it is mounted on.
    axes: [Vector; 3],
}

impl Antenna {
    /// Returns the gain in the direction `theta` from the axis and `phi` about it, radians; dB.
    fn gain(&self, theta: f64, phi: f64) -> f64 {
        let dipole = if self.is_dipole { dipole(theta) } else { 0.0 };
        let along = match &self.along_db[..] {
            [] => 0.0,
            [only] => *only,
            gains => between(gains, theta / PI * (gains.len() - 1) as f64, false),
        };
        let around = match &self.around_db[..] {
            [] => 0.0,
            gains => between(gains, phi.rem_euclid(TAU) / TAU * gains.len() as f64, true),
        };
        self.gain_db + dipole + along + around
    }
}

impl Mount {
    /// Mounts an antenna: turned about its axis, and then tilted toward a direction, degrees.
    pub(crate) fn new(antenna: Antenna, tilt_deg: f64, toward_deg: f64, turn_deg: f64) -> Self {
        let [tilt, toward, turn] = [tilt_deg, toward_deg, turn_deg].map(f64::to_radians);
        let tilted = |vector: Vector| {
            // Into the plane of the tilt and back.
            let [ahead, right, up] = about_up(vector, -toward);
            let tilted =
                [ahead * tilt.cos() + up * tilt.sin(), right, up * tilt.cos() - ahead * tilt.sin()];
            about_up(tilted, toward)
        };
        let front = about_up([1.0, 0.0, 0.0], turn);
        let right = about_up([0.0, 1.0, 0.0], turn);
        Self { antenna, axes: [front, right, [0.0, 0.0, 1.0]].map(tilted) }
    }

    /// Returns the gain in a direction of the frame of what it is mounted on, dB; the direction has
    /// length 1.
    pub(crate) fn gain_db(&self, direction: Vector) -> f64 {
        let [ahead, right, up] = self.axes.map(|axis| dot(axis, direction));
        self.antenna.gain(up.clamp(-1.0, 1.0).acos(), right.atan2(ahead))
    }
}

/// Turns a vector clockwise about the upward direction, radians.
pub(crate) fn about_up([ahead, right, up]: Vector, angle: f64) -> Vector {
    let (sin, cos) = angle.sin_cos();
    [ahead * cos - right * sin, right * cos + ahead * sin, up]
}

fn dot(one: Vector, other: Vector) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Returns what a half-wave dipole has at an angle from its axis, beside what it has across; dB.
fn dipole(theta: f64) -> f64 {
    let sin = theta.sin();
    if sin < 1e-3 {
        return NULL_DB;
    }
    let field = (0.5 * PI * theta.cos()).cos() / sin;
    (20.0 * field.abs().log10()).max(NULL_DB)
}

/// Reads between the values of a table at a place that may have a fraction.
fn between(table: &[f64], place: f64, is_ring: bool) -> f64 {
    let first = (place.floor() as usize).min(table.len() - 1);
    let next = if is_ring { (first + 1) % table.len() } else { (first + 1).min(table.len() - 1) };
    let share = (place - first as f64).clamp(0.0, 1.0);
    table[first] * (1.0 - share) + table[next] * share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn antenna() -> Antenna {
        Antenna {
            gain_db: 2.0,
            is_dipole: false,
            along_db: Vec::new(),
            around_db: vec![0.0, -10.0, -20.0, -10.0],
        }
    }

    #[test]
    fn a_dipole_is_deaf_along_its_axis_and_even_across() {
        let dipole = Antenna { is_dipole: true, around_db: Vec::new(), ..antenna() };
        let up = Mount::new(dipole.clone(), 0.0, 0.0, 0.0);
        assert!((up.gain_db([1.0, 0.0, 0.0]) - 2.0).abs() < 1e-9);
        assert!((up.gain_db([0.0, 0.0, -1.0]) - (2.0 + NULL_DB)).abs() < 1e-9);
        // Lying on its side, its null points where it was tilted to.
        let right = Mount::new(dipole, 90.0, 90.0, 0.0);
        assert!((right.gain_db([0.0, 1.0, 0.0]) - (2.0 + NULL_DB)).abs() < 1e-9);
        assert!((right.gain_db([0.0, 0.0, 1.0]) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_pattern_turns_with_its_antenna_clockwise() {
        let ahead = Mount::new(antenna(), 0.0, 0.0, 0.0);
        assert!((ahead.gain_db([1.0, 0.0, 0.0]) - 2.0).abs() < 1e-9);
        assert!((ahead.gain_db([0.0, 1.0, 0.0]) + 8.0).abs() < 1e-9);
        assert!((ahead.gain_db([-1.0, 0.0, 0.0]) + 18.0).abs() < 1e-9);
        let turned = Mount::new(antenna(), 0.0, 0.0, 90.0);
        assert!((turned.gain_db([0.0, 1.0, 0.0]) - 2.0).abs() < 1e-9);
        assert!((turned.gain_db([1.0, 0.0, 0.0]) + 8.0).abs() < 1e-9);
        let between = [0.5_f64.sqrt(), 0.5_f64.sqrt(), 0.0];
        assert!((ahead.gain_db(between) + 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_table_along_the_axis_is_read_from_its_upper_end() {
        let along = vec![-30.0, 0.0, -6.0];
        let antenna = Antenna { along_db: along, around_db: Vec::new(), ..antenna() };
        let mount = Mount::new(antenna, 0.0, 0.0, 0.0);
        assert!((mount.gain_db([0.0, 0.0, 1.0]) + 28.0).abs() < 1e-9);
        assert!((mount.gain_db([1.0, 0.0, 0.0]) - 2.0).abs() < 1e-9);
        assert!((mount.gain_db([0.0, 0.0, -1.0]) + 4.0).abs() < 1e-9);
    }
}
