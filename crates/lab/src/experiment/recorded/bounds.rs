//! The bounds of one window, each way, as figures beside those of the schemes; `reachable` says
//! what each of them bounds.

use netem::Scenario;
use serde_json::{Value, json};

use super::reachable::{Capacity, Demand, Idle, Plan, capacities, wire_bits};
use crate::experiment::streams::figures::{LATE_S, VIDEO_LIMIT_S};
use crate::experiment::streams::workload::{PlannedPacket, Workload};
use crate::report::rounded;
use crate::statistics::longest_gap;
use crate::testbed::{Direction, Recording, Stream};

/// A message that comes within this time ends a gap, late as it is: control's time to live.
const GAP_LIMIT_S: f64 = 2.0;
/// How far beyond the workload the links are followed, for what is sent at its end.
const BEYOND_S: f64 = 2.5;

/// The bounds of control, in the order of their strictness; `reachable` says what each means.
const NAMES: [&str; 4] = ["single", "any_time", "edf", "edf_copies"];

/// What could have been reached over a window's links.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    seconds: f64,
    /// In the order of [`Direction::BOTH`].
    ways: [Way; 2],
}

/// One direction.
#[derive(Clone, Debug)]
struct Way {
    /// How many links are alive in each second.
    alive: Vec<usize>,
    /// When control messages were sent, seconds.
    sent: Vec<f64>,
    /// Each control message's delay by the bounds called [`NAMES`], none where it does not arrive.
    delays: [Vec<Option<f64>>; NAMES.len()],
    /// The greatest share of video within its limit, where there is video.
    video: Option<f64>,
}

impl Bounds {
    /// Computes the bounds of a workload.
    pub(super) fn new(
        scenario: &Scenario,
        workload: &Workload,
        recording: &Recording,
    ) -> Result<Self, String> {
        let way = |direction| {
            let links = capacities(scenario, direction, workload.seconds + BEYOND_S)?;
            Ok::<_, String>(Way::new(
                &links,
                &workload.plan(direction, recording),
                workload.seconds,
            ))
        };
        let ways = [way(Direction::Up)?, way(Direction::Down)?];
        Ok(Self { seconds: workload.seconds, ways })
    }

    /// Returns one result for each bound.
    pub(crate) fn results(&self) -> Vec<Value> {
        let result = |(number, name): (usize, &&str)| {
            let of =
                |direction: Direction| self.ways[direction as usize].figures(number, self.seconds);
            json!({
                "scheme": "bound",
                "case": name,
                "up": of(Direction::Up),
                "down": of(Direction::Down),
            })
        };
        NAMES.iter().enumerate().map(result).collect()
    }

    /// Returns for how many seconds how many links are alive in a direction.
    pub(crate) fn alive(&self, direction: Direction) -> Value {
        let alive = &self.ways[direction as usize].alive;
        let count = |is: fn(usize) -> bool| alive.iter().filter(|links| is(**links)).count();
        json!({
            "seconds_alive_2": count(|links| links >= 2),
            "seconds_alive_1": count(|links| links == 1),
            "seconds_alive_0": count(|links| links == 0),
        })
    }

    /// Returns how many links are alive in each second of a direction.
    pub(super) fn alive_by_second(&self, direction: Direction) -> &[usize] {
        &self.ways[direction as usize].alive
    }

    /// Returns when the control messages were sent that no copy brings in time.
    pub(super) fn unreachable(&self, direction: Direction) -> impl Iterator<Item = f64> {
        let way = &self.ways[direction as usize];
        let missed = way.sent.iter().zip(&way.delays[1]).filter(|(_, delay)| is_missed(**delay));
        missed.map(|(sent, _)| *sent)
    }
}

impl Way {
    fn new(links: &[Capacity], plan: &[PlannedPacket], seconds: f64) -> Self {
        let of = |stream| plan.iter().filter(move |packet| packet.stream == stream);
        let demands = |stream| -> Vec<Demand> {
            let demand = |packet: &PlannedPacket| Demand {
                sent_s: packet.at.as_secs_f64(),
                bits: wire_bits(packet.len),
            };
            of(stream).map(demand).collect()
        };
        let control = demands(Stream::Control);
        let bits = control.first().map_or(wire_bits(0), |demand| demand.bits);
        let idle: Vec<Idle> = links.iter().map(|link| Idle::new(link, bits)).collect();
        let best = |delay: fn(&Idle, f64) -> Option<f64>| -> Vec<Option<f64>> {
            let of = |demand: &Demand| {
                idle.iter().filter_map(|link| delay(link, demand.sent_s)).reduce(f64::min)
            };
            control.iter().map(of).collect()
        };
        let all: Vec<&Capacity> = links.iter().collect();
        let delays = [
            best(Idle::at_once),
            best(Idle::any_time),
            served(&all, &control),
            copied(links, &control),
        ];
        Self {
            alive: alive(&idle, seconds),
            sent: control.iter().map(|demand| demand.sent_s).collect(),
            delays,
            video: video(&all, Stream::ALL.map(demands)),
        }
    }

    fn figures(&self, number: usize, seconds: f64) -> Value {
        let delays = &self.delays[number];
        let missed = delays.iter().filter(|delay| is_missed(**delay)).count();
        let mut arrivals: Vec<f64> = self
            .sent
            .iter()
            .zip(delays)
            .filter_map(|(sent, delay)| Some(sent + delay.filter(|delay| *delay <= GAP_LIMIT_S)?))
            .collect();
        arrivals.sort_by(f64::total_cmp);
        let share = missed as f64 / delays.len().max(1) as f64;
        let mut figures = json!({
            "control_sent": delays.len(),
            "control_missed": missed,
            "control_miss_share": rounded(share, 6),
            "control_gap_s": rounded(longest_gap(&arrivals, 0.0, seconds, None), 6),
        });
        if let (Some(video), "edf") = (self.video, NAMES[number]) {
            figures["video_share_250ms"] = json!(rounded(video, 5));
        }
        figures
    }
}

/// Tells whether a message is lost or late.
fn is_missed(delay: Option<f64>) -> bool {
    delay.is_none_or(|delay| delay > LATE_S)
}

/// Counts the links alive in each second.
fn alive(links: &[Idle], seconds: f64) -> Vec<usize> {
    let mut count = vec![0; seconds as usize];
    for link in links {
        for (count, alive) in count.iter_mut().zip(link.alive(seconds, LATE_S)) {
            *count += usize::from(alive);
        }
    }
    count
}

/// Sends each message once, over whatever links; those that cannot be in time go where they still
/// come within [`GAP_LIMIT_S`].
fn served(links: &[&Capacity], demands: &[Demand]) -> Vec<Option<f64>> {
    let mut plan = Plan::new(links);
    let mut delays = plan.serve(demands, LATE_S);
    let late: Vec<usize> = (0..delays.len()).filter(|number| delays[*number].is_none()).collect();
    let rest: Vec<Demand> = late.iter().map(|number| demands[*number]).collect();
    for (number, delay) in late.into_iter().zip(plan.serve(&rest, GAP_LIMIT_S)) {
        delays[number] = delay;
    }
    delays
}

/// Sends a copy of each message over each link.
fn copied(links: &[Capacity], demands: &[Demand]) -> Vec<Option<f64>> {
    let of_links: Vec<_> = links.iter().map(|link| served(&[link], demands)).collect();
    let first =
        |number: usize| of_links.iter().filter_map(|delays| delays[number]).reduce(f64::min);
    (0..demands.len()).map(first).collect()
}

/// Returns the share of video bytes that come in time when everything else goes first.
fn video(links: &[&Capacity], demands: [Vec<Demand>; Stream::ALL.len()]) -> Option<f64> {
    let video = &demands[Stream::Video as usize];
    if video.is_empty() {
        return None;
    }
    let mut plan = Plan::new(links);
    for stream in [Stream::Control, Stream::Live, Stream::Mavlink] {
        plan.serve(&demands[stream as usize], LATE_S);
    }
    let delays = plan.serve(video, VIDEO_LIMIT_S);
    let timely = video.iter().zip(&delays).filter(|(_, delay)| delay.is_some());
    let timely: u64 = timely.map(|(demand, _)| demand.bits).sum();
    let all: u64 = video.iter().map(|demand| demand.bits).sum();
    Some(timely as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links of 10 ms whose rate is the first for a second, then the second for a second.
    fn bounds(links: &[(f64, f64)], video_mbps: f64) -> Bounds {
        let mut text = String::new();
        for number in 0..links.len() {
            text += &format!(
                "[[link]]\nname = \"l{number}\"\nbetween = [\"drone\", \"station\"]\n\
                 delay_ms = 10\nrate_csv = \"{number}\"\n"
            );
        }
        let mut read = |file: &str| {
            let (first, second) = links[file.parse::<usize>().expect("a number")];
            Ok(format!("time_s,rate_mbps\n0,{first}\n1,{second}\n2,{second}\n"))
        };
        let scenario = Scenario::from_toml_with(&text, "s.toml", &mut read).expect("sound");
        let recording = Recording::load().expect("sound");
        let workload =
            Workload { seconds: 2.0, recording: false, video_mbps, ..Workload::default() };
        Bounds::new(&scenario, &workload, &recording).expect("both hosts are there")
    }

    fn missed(bounds: &Bounds) -> Vec<u64> {
        let down = |result: Value| result["down"]["control_missed"].as_u64().expect("a count");
        bounds.results().into_iter().map(down).collect()
    }

    #[test]
    fn a_link_of_half_the_load_is_enough_for_one_message_and_not_for_all() {
        // 50 messages a second of 149 bytes are 59.6 kbit/s.
        let half = bounds(&[(0.0298, 0.0298)], 0.0);
        let missed_of = missed(&half);
        assert_eq!(missed_of[..2], [0, 0], "one takes 40 + 10 ms");
        assert!((45..=50).contains(&missed_of[2]), "half of 100: {missed_of:?}");
        assert_eq!(missed_of[2], missed_of[3], "one link has no room for copies");
        let two = missed(&bounds(&[(0.0298, 0.0298), (0.0298, 0.0298)], 0.0));
        assert!(two[2] == 0 && two[3] > 40, "{two:?}");
    }

    #[test]
    fn where_no_link_lives_nothing_helps() {
        let bounds = bounds(&[(1.0, 0.0), (12.0, 0.001)], 0.0);
        let missed = missed(&bounds);
        assert!(missed.iter().all(|missed| *missed == 50), "{missed:?}");
        let alive = bounds.alive(Direction::Down);
        assert_eq!(
            [&alive["seconds_alive_2"], &alive["seconds_alive_1"], &alive["seconds_alive_0"]],
            [1, 0, 1]
        );
        let gap = bounds.results()[0]["down"]["control_gap_s"].as_f64().expect("a gap");
        assert!(gap > 1.0, "{gap}");
        assert_eq!(bounds.unreachable(Direction::Down).count(), 50);
    }

    #[test]
    fn video_gets_what_control_leaves() {
        let share = |links: &[(f64, f64)]| {
            let edf = bounds(links, 4.0).results()[2].clone();
            assert!(edf["up"]["video_share_250ms"].is_null());
            edf["down"]["video_share_250ms"].as_f64().expect("a share")
        };
        assert_eq!(share(&[(12.0, 12.0)]), 1.0);
        // 4 Mbit/s are 4.16 with what packets cost beside their bytes, and control takes 0.06.
        let half = share(&[(2.14, 2.14)]);
        assert!((0.5..0.62).contains(&half), "{half}");
        let both = share(&[(2.14, 2.14), (2.14, 2.14)]);
        assert!(both > 0.97, "{both}");
    }
}
