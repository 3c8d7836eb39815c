//! Flies a course: where the aircraft is in each slot, which way its nose points, and how fast it
//! goes over ground.
//!
//! ```text
//! s = w·u + √(V² − (w·r)²)     speed over ground; V: airspeed, w: wind, u: along the leg, r: to its right
//! ```
//! The nose points into the wind as far as it takes to stay on the leg. Turns take no time: a
//! corner that matters is flown by more waypoints. Gusts and the distance from the leg are
//! processes that forget themselves after [`GUST_S`] and [`STRAY_M`].

use units::Rng;

/// After how long a gust has fallen to 1/e of its correlation, seconds.
const GUST_S: f64 = 10.0;
/// After what way the distance from the leg has, metres.
const STRAY_M: f64 = 200.0;
/// The share of the airspeed that gusts leave: a leg has an end.
const WIND_SHARE_MAX: f64 = 0.9;

/// Where an aircraft is to fly, and the wind.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// Speed through the air, m/s.
    pub(crate) airspeed_mps: f64,
    /// How often it flies around; a part of a lap ends on the way.
    pub(crate) laps: f64,
    /// How far it is from the leg, standard deviation, metres.
    pub(crate) stray_m: f64,
    /// What moves the air.
    pub(crate) wind: Wind,
    /// The corners of a lap; behind the last comes the first.
    pub(crate) waypoints: Vec<Waypoint>,
    /// The line of the file that says how often.
    pub(crate) line: usize,
}

/// What moves the air.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wind {
    /// Where it comes from, degrees of a compass.
    pub(crate) from_deg: f64,
    /// Its mean, m/s.
    pub(crate) speed_mps: f64,
    /// How far it is from its mean, standard deviation, m/s.
    pub(crate) gust_mps: f64,
}

/// A corner of a lap.
#[derive(Clone, Debug)]
pub(crate) struct Waypoint {
    pub(crate) east_m: f64,
    pub(crate) north_m: f64,
    /// Above the ground.
    pub(crate) height_m: f64,
    /// The region that the leg from here on is in.
    pub(crate) region: Option<String>,
}

/// Where the aircraft is in the middle of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fix {
    pub(crate) east_m: f64,
    pub(crate) north_m: f64,
    pub(crate) height_m: f64,
    /// Where its nose points, radians of a compass.
    pub(crate) heading: f64,
    /// Over ground, m/s.
    pub(crate) speed_mps: f64,
    /// The leg that it is on, by the waypoint where that begins, and the lap, both from 0.
    pub(crate) leg: usize,
    pub(crate) lap: usize,
}

impl Waypoint {
    /// Returns whether there is no leg between two waypoints, but a metre at most.
    pub(crate) fn is_near(&self, other: &Self) -> bool {
        (self.east_m - other.east_m).hypot(self.north_m - other.north_m) < 1.0
    }
}

impl Course {
    /// Flies it; returns where the aircraft is in each slot.
    ///
    /// # Errors
    /// When it takes more than `most` slots: how many seconds that is.
    pub(crate) fn fly(&self, slot_s: f64, seed: u64, most: usize) -> Result<Vec<Fix>, String> {
        let mut legs = Legs::of(self);
        let (mut gusts, mut strays) =
            (Rng::stream(seed, "flight gusts"), Rng::stream(seed, "flight strays"));
        let (mut gust, mut stray) = (gusts.normal(), strays.normal());
        let gust_kept = (-slot_s / GUST_S).exp();
        let mut fixes = Vec::new();
        loop {
            let (_, before_mps) = self.speed(legs.bearing(), gust);
            if !legs.advance(0.5 * before_mps * slot_s) {
                break;
            }
            // In the middle of the slot it may be on the next leg.
            let (heading, speed_mps) = self.speed(legs.bearing(), gust);
            let half = 0.5 * speed_mps * slot_s;
            if fixes.len() == most {
                let seconds = most as f64 * slot_s;
                return Err(format!("the flight takes longer than {seconds:.0} s ({most} slots)"));
            }
            fixes.push(legs.fix(heading, speed_mps, stray * self.stray_m));
            legs.advance(half);
            gust = next(gust, gust_kept, &mut gusts);
            stray = next(stray, (-2.0 * half / STRAY_M).exp(), &mut strays);
        }
        Ok(fixes)
    }

    /// Returns where the nose points and how fast the aircraft goes over ground along a bearing,
    /// radians of a compass and m/s.
    fn speed(&self, bearing: f64, gust: f64) -> (f64, f64) {
        let airspeed = self.airspeed_mps;
        let most = (WIND_SHARE_MAX * airspeed).max(self.wind.speed_mps);
        let wind = (self.wind.speed_mps + gust * self.wind.gust_mps).clamp(0.0, most);
        // Where the air goes, against the bearing.
        let angle = self.wind.from_deg.to_radians() + core::f64::consts::PI - bearing;
        let (along, across) = (wind * angle.cos(), wind * angle.sin());
        let ahead = (airspeed.powi(2) - across.powi(2)).max(0.0).sqrt();
        (bearing - across.atan2(ahead), along + ahead)
    }
}

/// Steps of a process with mean 0 and deviation 1 that keeps a share of what it was.
pub(super) fn next(before: f64, kept: f64, rng: &mut Rng) -> f64 {
    kept * before + (1.0 - kept * kept).sqrt() * rng.normal()
}

/// How far along its laps the aircraft is.
struct Legs<'c> {
    waypoints: &'c [Waypoint],
    lengths: Vec<f64>,
    /// The leg, the way along it, the lap, and the way that is left in all.
    leg: usize,
    along_m: f64,
    lap: usize,
    left_m: f64,
}

impl<'c> Legs<'c> {
    fn of(course: &'c Course) -> Self {
        let waypoints = &course.waypoints[..];
        let ends = waypoints.iter().zip(waypoints.iter().cycle().skip(1));
        let length = |(from, to): (&Waypoint, &Waypoint)| {
            (to.east_m - from.east_m).hypot(to.north_m - from.north_m)
        };
        let lengths: Vec<f64> = ends.map(length).collect();
        let left_m = course.laps * lengths.iter().sum::<f64>();
        Self { waypoints, lengths, leg: 0, along_m: 0.0, lap: 0, left_m }
    }

    fn ends(&self) -> (&Waypoint, &Waypoint) {
        (&self.waypoints[self.leg], &self.waypoints[(self.leg + 1) % self.waypoints.len()])
    }

    /// Returns where the leg leads, radians of a compass.
    fn bearing(&self) -> f64 {
        let (from, to) = self.ends();
        (to.east_m - from.east_m).atan2(to.north_m - from.north_m)
    }

    /// Goes on by some metres; false when the flight is over.
    fn advance(&mut self, metres: f64) -> bool {
        self.left_m -= metres;
        self.along_m += metres;
        while self.along_m >= self.lengths[self.leg] {
            self.along_m -= self.lengths[self.leg];
            self.leg += 1;
            if self.leg == self.waypoints.len() {
                (self.leg, self.lap) = (0, self.lap + 1);
            }
        }
        self.left_m > 0.0
    }

    fn fix(&self, heading: f64, speed_mps: f64, stray_m: f64) -> Fix {
        let (from, to) = self.ends();
        let share = self.along_m / self.lengths[self.leg];
        let part = |from: f64, to: f64| from + share * (to - from);
        let (sin, cos) = self.bearing().sin_cos();
        Fix {
            east_m: part(from.east_m, to.east_m) + stray_m * cos,
            north_m: part(from.north_m, to.north_m) - stray_m * sin,
            height_m: part(from.height_m, to.height_m),
            heading,
            speed_mps,
            leg: self.leg,
            lap: self.lap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(wind: Wind) -> Course {
        let corner = |(east_m, north_m)| Waypoint { east_m, north_m, height_m: 50.0, region: None };
        let waypoints =
            [(0.0, 0.0), (0.0, 400.0), (400.0, 400.0), (400.0, 0.0)].map(corner).to_vec();
        Course { airspeed_mps: 20.0, laps: 1.5, stray_m: 0.0, wind, waypoints, line: 1 }
    }

    #[test]
    fn headwind_slows_tailwind_hastens_and_the_nose_meets_a_wind_from_the_side() {
        let course = square(Wind { from_deg: 270.0, speed_mps: 12.0, gust_mps: 0.0 });
        let fixes = course.fly(0.01, 1, 1_000_000).unwrap();
        let on = |leg: usize| *fixes.iter().find(|fix| fix.leg == leg).unwrap();
        assert!((on(0).speed_mps - 16.0).abs() < 1e-9, "{:?}", on(0));
        assert!(
            (on(0).heading.sin() + 0.6).abs() < 1e-9,
            "to the left, into the wind: {:?}",
            on(0)
        );
        assert!((on(1).speed_mps - 32.0).abs() < 1e-9);
        assert!((on(3).speed_mps - 8.0).abs() < 1e-9);
        let seconds = 2.0 * 400.0 / 16.0 + 400.0 / 32.0 + 400.0 / 8.0 + 400.0 / 16.0 + 400.0 / 32.0;
        assert!((fixes.len() as f64 * 0.01 - seconds).abs() < 0.05, "{}", fixes.len());
        let last = fixes.last().unwrap();
        assert!((last.east_m - 400.0).abs() < 1.0 && (last.north_m - 400.0).abs() < 1.0);
        assert_eq!(last.lap, 1);
    }

    #[test]
    fn a_flight_that_takes_too_long_is_refused() {
        let error = square(Wind::default()).fly(0.01, 1, 1_000).unwrap_err();
        assert_eq!(error, "the flight takes longer than 10 s (1000 slots)");
    }

    #[test]
    fn gusts_leave_the_aircraft_some_headway() {
        let course = square(Wind { from_deg: 0.0, speed_mps: 10.0, gust_mps: 50.0 });
        let fixes = course.fly(0.01, 1, 1_000_000).unwrap();
        assert!(fixes.iter().all(|fix| fix.speed_mps >= 1.0));
    }
}
