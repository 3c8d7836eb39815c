//! Which paths of two records are one link, and what their clocks are to each other.
//!
//! A path has the same number at both ends of a session. The drone's name for it is the link's; a
//! station calls a path by where it comes from, which changes with the drone's address.

use std::collections::{BTreeMap, BTreeSet};

use super::view::{Role, Seen, View};

/// Samples of the two ends further apart than this do not speak of the same moment.
const TOGETHER_S: f64 = 1.0;
/// The longest name of a link: of an interface there are 15, and copies of a link are numbered.
const NAME: usize = 14;

/// A link with what each computer saw of it: the drone, the station.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) seen: [Option<Seen>; 2],
}

/// Returns the links of a flight, on the clock of the first view.
///
/// # Errors
/// When two records are not of one flight.
pub(super) fn links(views: &[View], notes: &mut Vec<String>) -> Result<Vec<Link>, String> {
    let (first, second) = match views {
        [one] => {
            let (role, other) = match one.role {
                Role::Drone => ("drone", "station"),
                Role::Station => ("station", "drone"),
            };
            notes.push(format!(
                "the {role}'s record alone: what went from {other} to {role} is assumed to take as long, as unevenly; \
                 it is lost where nothing came in by the path, else as the {role}'s daemon estimated"
            ));
            return Ok(named(of_one(one.clone())));
        }
        [first, second] => (first, shifted(first, second, notes)),
        _ => return Err("no records".to_owned()),
    };
    let (drone, station) =
        if first.role == Role::Drone { (first.clone(), second) } else { (second, first.clone()) };
    let mut links = of_one(drone);
    let before = links.len();
    for (name, seen) in station.paths {
        match partner(&links[..before], &seen) {
            Some(place) => {
                let other = &mut links[place].1[Role::Station as usize];
                match other {
                    Some(other) => other.join(seen),
                    None => *other = Some(seen),
                }
            }
            None => links.push((name, [None, Some(seen)])),
        }
    }
    if !links.iter().any(|(_, seen)| seen.iter().all(Option::is_some)) {
        return Err(
            "the two records have no moment in common: they are not of one flight, or a clock was \
             wrong; give one of them alone"
                .to_owned(),
        );
    }
    Ok(named(links))
}

/// Returns the second view on the clock of the first: daemons know how far their clocks are apart,
/// and each record says how its dates follow from its daemon's clock.
fn shifted(first: &View, second: &View, notes: &mut Vec<String>) -> View {
    let mut second = second.clone();
    // The other's clock shows `ours + offset`. Ours shows zero at second `zero` of its view.
    let by = match (first.clocks, second.clocks) {
        (Some((zero, offset)), Some((other_zero, _))) => zero - offset - other_zero,
        (Some((_, _)), None) | (None, _) => {
            notes.push(
                "the records do not say how far the clocks were apart: their dates are taken as they stand"
                    .to_owned(),
            );
            (i128::from(second.origin_ns) - i128::from(first.origin_ns)) as f64 / 1e9
        }
    };
    second.shift(by);
    second
}

type Unnamed = Vec<(String, [Option<Seen>; 2])>;

/// Returns the links that one computer saw.
fn of_one(view: View) -> Unnamed {
    let mut links: Unnamed = Vec::new();
    let mut by_id: BTreeMap<u8, usize> = BTreeMap::new();
    for (name, seen) in view.paths {
        let ids = seen.ids.clone();
        // A station knows a path by its number: it has another name when the drone's address
        // changes.
        let known = match view.role {
            Role::Drone => None,
            Role::Station => ids.iter().find_map(|id| by_id.get(id).copied()),
        };
        let place = known.unwrap_or(links.len());
        by_id.extend(ids.into_iter().map(|id| (id, place)));
        match links.get_mut(place).and_then(|(_, both)| both[view.role as usize].as_mut()) {
            Some(before) => before.join(seen),
            None => {
                let mut both = [None, None];
                both[view.role as usize] = Some(seen);
                links.push((name, both));
            }
        }
    }
    // In the order of the drone's file, as its numbers have it.
    links.sort_by_key(|(_, both)| both.iter().flatten().find_map(|seen| seen.ids.first().copied()));
    links
}

/// Returns the drone's path that had the same number at the same time, most often.
fn partner(links: &[(String, [Option<Seen>; 2])], seen: &Seen) -> Option<usize> {
    let votes = |(_, both): &(String, [Option<Seen>; 2])| {
        let Some(other) = &both[Role::Drone as usize] else { return 0 };
        if other.ids.is_disjoint(&seen.ids) {
            return 0;
        }
        let is_same = |(at, sample): &&(f64, record::schema::Path)| {
            let place = other.samples.partition_point(|(other, _)| other < at);
            let near = other.samples[place.saturating_sub(1)..].iter().take(2);
            near.into_iter()
                .any(|(other, theirs)| (other - at).abs() <= TOGETHER_S && theirs.id == sample.id)
        };
        seen.samples.iter().filter(is_same).count()
    };
    let counts: Vec<usize> = links.iter().map(votes).collect();
    let most = counts.iter().copied().max().filter(|most| *most > 0)?;
    counts.iter().position(|count| *count == most)
}

/// Gives links names that scenarios take.
fn named(links: Unnamed) -> Vec<Link> {
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for (place, (name, seen)) in links.into_iter().enumerate() {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_fit = (1..=NAME).contains(&name.len()) && name.chars().all(is_plain);
        let mut name = if is_fit { name } else { format!("path{place}") };
        while !taken.insert(name.clone()) {
            name = format!("path{place}-{}", taken.len());
        }
        all.push(Link { name, seen });
    }
    all
}
