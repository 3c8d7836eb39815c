//! Moments of inertia of a quadcopter that carries n network interfaces.
//!
//! ```text
//! I_xx = 2/5·M_T·R_C² + 2·L²·m_r                                            (15)
//! I_yy = 2/5·M_T·R_C² + 2·L²·m_r
//! I_zz = 2/5·M_T·R_C² + 4·L²·m_r
//! with n interfaces of mass m_i: M_T → M_T + (n−1)·m_i and                  (16)
//! m_r → m_r + ⌊n/4⌋·m_i (x),  m_r + ⌊(n+2)/4⌋·m_i (y),  m_r + ⌊n/2⌋·m_i (z)
//! ```
//! Source: [ConClone §4.4]. Units: kg, m, kg·m².
//!
//! *Deviations from the paper*
//! 1. m_r is not printed; 0.03 kg reproduces all twelve entries of Table 1.

use crate::Check;

/// A quadcopter; [`Vehicle::default`] is the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vehicle {
    /// L, distance from the centre of mass to a rotor, metres [ConClone §4.4].
    pub arm_m: f64,
    /// R_C, radius of the central body, metres [ConClone §4.4].
    pub body_radius_m: f64,
    /// M_T, mass of the whole vehicle with one interface, kilograms [ConClone §4.4].
    pub total_kg: f64,
    /// m_i, mass of one interface, kilograms [ConClone §4.4].
    pub interface_kg: f64,
    /// m_r, mass of one rotor with its motor, kilograms; **fitted to Table 1**, see deviation 1.
    pub rotor_kg: f64,
}

impl Default for Vehicle {
    fn default() -> Self {
        Self {
            arm_m: 0.25,
            body_radius_m: 0.07,
            total_kg: 1.013,
            interface_kg: 0.016,
            rotor_kg: 0.03,
        }
    }
}

impl Vehicle {
    /// Returns (I_xx, I_yy, I_zz) with one interface in the body, kg·m² [ConClone eq. 15].
    pub fn inertia(&self) -> [f64; 3] {
        self.with_rotors(self.total_kg, [self.rotor_kg; 3])
    }

    /// Returns (I_xx, I_yy, I_zz) with `n` interfaces, kg·m² [ConClone eq. 16].
    pub fn inertia_with_interfaces(&self, n: u32) -> [f64; 3] {
        let loaded = |interfaces: u32| self.rotor_kg + f64::from(interfaces) * self.interface_kg;
        let total = self.total_kg + (f64::from(n) - 1.0) * self.interface_kg;
        self.with_rotors(total, [loaded(n / 4), loaded((n + 2) / 4), loaded(n / 2)])
    }

    /// Returns the moments of a body of mass `total` with rotors of the given mass per axis.
    fn with_rotors(&self, total: f64, rotors: [f64; 3]) -> [f64; 3] {
        let body = 0.4 * total * self.body_radius_m.powi(2);
        let arm = self.arm_m.powi(2);
        [body + 2.0 * arm * rotors[0], body + 2.0 * arm * rotors[1], body + 4.0 * arm * rotors[2]]
    }
}

/// Compares eq. 15 and 16 with the paper's Table 1.
pub(super) fn checks() -> Vec<Check> {
    let table = [
        (1, [0.0057, 0.0057, 0.0095]),
        (2, [0.0058, 0.0078, 0.0135]),
        (3, [0.0058, 0.0078, 0.0135]),
        (4, [0.0078, 0.0078, 0.0176]),
    ];
    let mut checks = Vec::new();
    for (n, printed) in table {
        let vehicle = Vehicle::default();
        let ours = if n == 1 { vehicle.inertia() } else { vehicle.inertia_with_interfaces(n) };
        for (axis, name) in ["xx", "yy", "zz"].into_iter().enumerate() {
            let source = if n == 1 { "eq. 15" } else { "eq. 16" };
            let what = format!("Table 1: I_{name} with {n} interfaces, kg·m²");
            checks.push(Check::new(source, what, ours[axis], printed[axis], 5e-5));
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_interface_is_the_bare_vehicle() {
        let vehicle = Vehicle::default();
        assert_eq!(vehicle.inertia(), vehicle.inertia_with_interfaces(1));
    }

    #[test]
    fn table_1_is_reproduced_to_its_last_digit() {
        assert!(checks().iter().all(|check| check.agrees));
    }
}
