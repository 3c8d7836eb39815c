//! What is worth telling a pilot of the links of one vehicle, and when: no sockets and no MAVLink
//! here.
//!
//! ```text
//! silent for STAYS looks            WARNING "wifi is lost, 2 links left: lte, sat"
//!   and one link is left            ERROR "wifi is lost, one link left: lte"
//!   and none is left                CRITICAL "no link works"
//!   which all fell at one moment    CRITICAL "both links: it is the station's own line"
//! its autopilot silent              CRITICAL "autopilot: ttyAMA0 says nothing"
//! another drone's vehicle of its    CRITICAL "bravo's vehicle is number 1 too"
//!   number at one ground station
//! works again for RETURNS looks     NOTICE "wifi up, flying on wifi, lte"; at once where no other
//!                                   works
//! FLAPS silences within a minute    WARNING "wifi comes and goes", then nothing of it until it
//!                                   stays for a minute
//! all that work lose much, or no    WARNING "only just enough: lte loses 23 %", once a minute at
//!                                   most
//!   room is left, for JUST looks
//! ```
//! A look is taken once a second and says one thing at most, the worst. That links which were never
//! there do not work is no news.

use std::collections::{BTreeMap, VecDeque};

use proto::{Duration, Instant, PathId};

use crate::endpoints::{LONGEST_TEXT, Severity};

/// Looks in a row that a link must be silent at before that is said: one would be a moment's
/// silence.
const STAYS: u32 = 2;
/// Looks in a row that it must work at before it is back.
const RETURNS: u32 = 4;
/// Silences within [`MINUTE`] after which a link comes and goes.
const FLAPS: usize = 3;
/// How far back they count; how long it must stay then; and how often the same trouble is told.
const MINUTE: Duration = Duration::from_secs(60);
/// How long after it was told that nothing works, or what is wrong with the autopilot, that is told
/// again at the earliest.
const LOST_AGAIN: Duration = Duration::from_secs(15);
/// Looks in a row at which what works is only just enough.
const JUST: u32 = 5;
/// The longest name of a link where all do not fit: names begin with what tells them apart.
const SHORT_NAME: usize = 9;
/// Begins each text, since the vehicle's own stand beside it.
const OPENING: &str = "Fulmar: ";
/// Links that are remembered: those of a session, and as many that have gone.
const LINKS: usize = 2 * proto::MAX_PATHS;

/// The links of a vehicle at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// There is little room left in the session's queue.
    pub(super) is_full: bool,
    /// All links have fallen at one moment, and with them whatever else this end reaches.
    pub(super) is_own_line: bool,
    /// What is wrong with the autopilot, in a few words.
    pub(super) autopilot: Option<String>,
    /// A vehicle's number, and who has a vehicle of that number as well, which the ground station
    /// cannot tell apart.
    pub(super) twin: Option<(u8, String)>,
    pub(super) links: Vec<Seen>,
}

/// A link at one moment.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) path: PathId,
    pub(super) name: String,
    pub(super) works: bool,
    /// The share that it loses, where that is much.
    pub(super) loses: Option<f64>,
}

/// What was seen of a vehicle's links, and what the pilot knows.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Watch {
    links: BTreeMap<PathId, Link>,
    /// The pilot was told that nothing works.
    is_lost: bool,
    lost_told: Option<Instant>,
    /// What the pilot was told of the autopilot.
    autopilot: Option<String>,
    autopilot_told: Option<Instant>,
    /// What the pilot was told of another vehicle of the same number.
    twin: Option<(u8, String)>,
    just: u32,
    just_told: Option<Instant>,
}

/// A link that has worked.
#[derive(Debug)]
struct Link {
    name: String,
    /// What the pilot believes.
    works: bool,
    /// Looks in a row at which it was otherwise.
    otherwise: u32,
    /// When it went silent, lately.
    silences: VecDeque<Instant>,
    /// Since when it works, where it was said that it comes and goes.
    unsteady: Option<Option<Instant>>,
    /// Something of it is to be said.
    news: bool,
}

impl Watch {
    /// Takes a look; returns what the pilot is to be told.
    pub(super) fn look(&mut self, now: Instant, look: &Look) -> Option<(Severity, String)> {
        let seen = |path: PathId| look.links.iter().find(|seen| seen.path == path);
        // A vehicle without a session has the links that it had.
        self.links.retain(|path, _| look.links.is_empty() || seen(*path).is_some());
        let was_known = !self.links.is_empty();
        for seen in look.links.iter().filter(|seen| seen.works) {
            if self.links.len() < LINKS {
                self.links.entry(seen.path).or_insert_with(|| Link::new(seen.name.clone()));
            }
        }
        if self.links.is_empty() {
            return None;
        }
        for (path, link) in &mut self.links {
            if let Some(seen) = seen(*path) {
                link.name.clone_from(&seen.name);
            }
            link.look(now, seen(*path).is_some_and(|seen| seen.works));
        }
        self.rely_on_what_works(look);
        if !was_known && !self.is_lost {
            self.links.values_mut().for_each(|link| link.news = false);
            let text = said(|short| format!("flying on {}", self.listed(short)));
            return Some((Severity::Info, text));
        }
        let told = self.lost_or_found(now, look).or_else(|| self.autopilot_news(now, look));
        let told = told.or_else(|| self.twin_news(look));
        told.or_else(|| self.news()).or_else(|| self.just_enough(now, look))
    }

    /// Where nothing else is left, what works now counts, however short that has been.
    fn rely_on_what_works(&mut self, look: &Look) {
        if self.links.values().any(|link| link.works) {
            return;
        }
        for seen in look.links.iter().filter(|seen| seen.works) {
            if let Some(link) = self.links.get_mut(&seen.path) {
                (link.works, link.otherwise) = (true, 0);
            }
        }
    }

    /// Says that nothing works, or that something does again.
    fn lost_or_found(&mut self, now: Instant, look: &Look) -> Option<(Severity, String)> {
        let is_lost = self.links.values().all(|link| !link.works);
        let recent = self.lost_told.is_some_and(|at| now.since(at) < LOST_AGAIN);
        if is_lost == self.is_lost || (is_lost && recent) {
            return None;
        }
        self.is_lost = is_lost;
        self.links.values_mut().for_each(|link| link.news = false);
        if is_lost {
            self.lost_told = Some(now);
            let text = match (look.is_own_line, self.links.len()) {
                (true, 2) => "both links: it is the station's own line",
                (true, 3..) => "all links: it is the station's own line",
                _ => "no link works, vehicle not reached",
            };
            return Some((Severity::Critical, said(|_| text.into())));
        }
        let text = said(|short| format!("back, flying on {}", self.listed(short)));
        Some((Severity::Notice, text))
    }

    /// Says that the autopilot is not heard, or is again; where no link works nobody knows.
    fn autopilot_news(&mut self, now: Instant, look: &Look) -> Option<(Severity, String)> {
        let recent = self.autopilot_told.is_some_and(|at| now.since(at) < LOST_AGAIN);
        let is_news = self.autopilot != look.autopilot;
        if self.is_lost || !is_news || (recent && look.autopilot.is_some()) {
            return None;
        }
        self.autopilot.clone_from(&look.autopilot);
        if self.autopilot.is_some() {
            self.autopilot_told = Some(now);
        }
        Some(match &look.autopilot {
            Some(trouble) => (Severity::Critical, said(|_| format!("autopilot: {trouble}"))),
            None => (Severity::Notice, said(|_| "the autopilot is heard again".into())),
        })
    }

    /// Says that another vehicle has the same number.
    fn twin_news(&mut self, look: &Look) -> Option<(Severity, String)> {
        if self.twin == look.twin {
            return None;
        }
        self.twin.clone_from(&look.twin);
        let (system, other) = self.twin.as_ref()?;
        let text =
            said(|short| format!("{}'s vehicle is number {system} too", shortened(other, short)));
        Some((Severity::Critical, text))
    }

    /// Says which links went silent or are back.
    fn news(&mut self) -> Option<(Severity, String)> {
        let is_told = |link: &&Link| link.news;
        let unsteady = self.links.values().find(|link| link.news && link.unsteady.is_some());
        let told = match unsteady {
            Some(link) => {
                let name = &link.name;
                let text = said(|short| match link.works {
                    true => format!("{} is steady again", shortened(name, short)),
                    false => format!("{} comes and goes", shortened(name, short)),
                });
                let severity = if link.works { Severity::Notice } else { Severity::Warning };
                Some((severity, text))
            }
            None if self.links.values().any(|link| link.news && !link.works) => {
                let lost = || self.links.values().filter(is_told).filter(|link| !link.works);
                let left = self.links.values().filter(|link| link.works).count();
                let text = said(|short| {
                    let are = if lost().count() == 1 { "is" } else { "are" };
                    let left = match left {
                        1 => "one link left".into(),
                        left => format!("{left} links left"),
                    };
                    let works =
                        if short { String::new() } else { format!(": {}", self.listed(short)) };
                    format!("{} {are} lost, {left}{works}", names(lost(), short))
                });
                Some((if left == 1 { Severity::Error } else { Severity::Warning }, text))
            }
            None if self.links.values().any(|link| link.news) => {
                let up = |short| names(self.links.values().filter(is_told), short);
                let text =
                    said(|short| format!("{} up, flying on {}", up(short), self.listed(short)));
                Some((Severity::Notice, text))
            }
            None => None,
        };
        for link in self.links.values_mut().filter(|link| link.news) {
            link.news = false;
            if link.works {
                link.unsteady = None;
            }
        }
        told
    }

    /// Says that what works is only just enough.
    fn just_enough(&mut self, now: Instant, look: &Look) -> Option<(Severity, String)> {
        let working: Vec<&Seen> = look.links.iter().filter(|seen| seen.works).collect();
        let all_lose = !working.is_empty() && working.iter().all(|seen| seen.loses.is_some());
        let is_just = !working.is_empty() && (all_lose || look.is_full);
        self.just = if is_just { self.just + 1 } else { 0 };
        let recent = self.just_told.is_some_and(|at| now.since(at) < MINUTE);
        if self.just < JUST || recent {
            return None;
        }
        self.just_told = Some(now);
        let best = working.iter().min_by(|one, other| {
            one.loses.partial_cmp(&other.loses).unwrap_or(std::cmp::Ordering::Equal)
        });
        let text = said(|short| match best.and_then(|best| Some((best, best.loses?))) {
            Some((best, loses)) if all_lose => {
                let percent = (loses * 100.0).round();
                format!("only just enough: {} loses {percent} %", shortened(&best.name, short))
            }
            _ => format!("only just enough: {} full", self.listed(short)),
        });
        Some((Severity::Warning, text))
    }

    /// Lists the links that work.
    fn listed(&self, short: bool) -> String {
        names(self.links.values().filter(|link| link.works), short)
    }
}

impl Link {
    fn new(name: String) -> Self {
        let (silences, unsteady) = (VecDeque::new(), None);
        Self { name, works: true, otherwise: 0, silences, unsteady, news: true }
    }

    fn look(&mut self, now: Instant, works: bool) {
        while self.silences.front().is_some_and(|at| now.since(*at) >= MINUTE) {
            self.silences.pop_front();
        }
        if let Some(steady_since) = &mut self.unsteady {
            *steady_since = steady_since.or(Some(now)).filter(|_| works);
        }
        let is_steady = |since: Option<Instant>| since.is_some_and(|at| now.since(at) >= MINUTE);
        let is_steady = self.unsteady.is_none_or(is_steady);
        if works == self.works {
            self.otherwise = 0;
            // That it was relied on is no news any more.
            self.unsteady.take_if(|_| works && is_steady && !self.news);
            return;
        }
        self.otherwise += 1;
        if self.otherwise < if works { RETURNS } else { STAYS } || (works && !is_steady) {
            return;
        }
        (self.works, self.otherwise, self.news) = (works, 0, true);
        if works {
            return;
        }
        self.silences.push_back(now);
        if self.unsteady.is_some() {
            // It was said already that it comes and goes.
            self.news = false;
        } else if self.silences.len() >= FLAPS {
            self.unsteady = Some(None);
        }
    }
}

/// Returns a text as it is told where nobody else tells anything.
pub(super) fn said_of(text: &str) -> &str {
    text.strip_prefix(OPENING).unwrap_or(text)
}

/// Makes a text that fits: with short names where the whole ones do not.
fn said(text: impl Fn(bool) -> String) -> String {
    let long = format!("{OPENING}{}", text(false));
    if long.len() <= LONGEST_TEXT {
        return long;
    }
    let short: String = format!("{OPENING}{}", text(true));
    let cut = (0..=LONGEST_TEXT.min(short.len())).rev().find(|at| short.is_char_boundary(*at));
    short[..cut.unwrap_or(0)].to_owned()
}

/// Lists links by name; more than two by their number, where it has to be short.
fn names<'l>(links: impl Iterator<Item = &'l Link>, short: bool) -> String {
    let names: Vec<&str> = links.map(|link| link.name.as_str()).collect();
    match names.as_slice() {
        [] => "nothing".into(),
        all if short && all.len() > 1 => format!("{} links", all.len()),
        all => all.iter().map(|name| shortened(name, short)).collect::<Vec<_>>().join(", "),
    }
}

fn shortened(name: &str, short: bool) -> String {
    if short { name.chars().take(SHORT_NAME).collect() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pilot of a vehicle with links of these names, one look a second.
    struct Flight {
        watch: Watch,
        names: Vec<&'static str>,
        second: u64,
        is_own_line: bool,
        autopilot: Option<&'static str>,
        twin: Option<(u8, &'static str)>,
    }

    impl Flight {
        fn new(names: &[&'static str]) -> Self {
            let (watch, names_of) = (Watch::default(), names.to_vec());
            let (is_own_line, autopilot, twin) = (false, None, None);
            let mut flight =
                Self { watch, names: names_of, second: 0, is_own_line, autopilot, twin };
            let all = vec![true; names.len()];
            let hello = flight.look(&all).unwrap();
            assert_eq!(hello, (Severity::Info, format!("Fulmar: flying on {}", names.join(", "))));
            flight
        }

        fn look(&mut self, works: &[bool]) -> Option<(Severity, String)> {
            self.look_at(works, None, false)
        }

        fn look_at(
            &mut self,
            works: &[bool],
            loses: Option<f64>,
            is_full: bool,
        ) -> Option<(Severity, String)> {
            self.second += 1;
            let seen = |(at, works): (usize, &bool)| Seen {
                path: PathId(at as u8),
                name: self.names[at].into(),
                works: *works,
                loses,
            };
            let links = works.iter().enumerate().map(seen).collect();
            let (is_own_line, autopilot) = (self.is_own_line, self.autopilot.map(str::to_owned));
            let twin = self.twin.map(|(system, other)| (system, other.to_owned()));
            let look = Look { is_full, is_own_line, autopilot, twin, links };
            let told = self.watch.look(Instant::from_millis(self.second * 1_000), &look);
            assert!(told.iter().all(|(_, text)| text.len() <= LONGEST_TEXT), "{told:?}");
            told
        }

        /// What is told within so many looks.
        fn told(&mut self, works: &[bool], looks: usize) -> Vec<(Severity, String)> {
            (0..looks).filter_map(|_| self.look(works)).collect()
        }
    }

    fn one(severity: Severity, text: &str) -> Vec<(Severity, String)> {
        vec![(severity, format!("Fulmar: {text}"))]
    }

    #[test]
    fn silence_and_return_are_told_once_each_by_how_much_is_left() {
        let mut flight = Flight::new(&["wifi", "lte", "sat"]);
        let told = flight.told(&[false, true, true], 10);
        assert_eq!(told, one(Severity::Warning, "wifi is lost, 2 links left: lte, sat"));
        let told = flight.told(&[false, false, true], 10);
        assert_eq!(told, one(Severity::Error, "lte is lost, one link left: sat"));
        let told = flight.told(&[false, false, false], 10);
        assert_eq!(told, one(Severity::Critical, "no link works, vehicle not reached"));
        assert_eq!(flight.look(&[false, true, false]).unwrap().1, "Fulmar: back, flying on lte");
        let told = flight.told(&[true, true, true], 10);
        assert_eq!(told, one(Severity::Notice, "wifi, sat up, flying on wifi, lte, sat"));
        assert!(flight.told(&[true, true, true], 100).is_empty());
    }

    #[test]
    fn a_moments_silence_is_not_told() {
        let mut flight = Flight::new(&["wifi", "lte"]);
        for _ in 0..100 {
            assert!(flight.told(&[false, true], 1).is_empty());
            assert!(flight.told(&[true, true], 3).is_empty());
        }
    }

    #[test]
    fn a_link_that_comes_and_goes_does_not_drown_the_pilot() {
        let mut flight = Flight::new(&["wifi", "lte"]);
        let mut told = Vec::new();
        for _ in 0..60 {
            told.extend(flight.told(&[false, true], 5));
            told.extend(flight.told(&[true, true], 5));
        }
        let texts: Vec<_> = told.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts[4], "Fulmar: wifi comes and goes", "{texts:?}");
        assert_eq!(texts.len(), 5, "ten minutes: {texts:?}");
        let told = flight.told(&[true, true], 120);
        assert_eq!(told, one(Severity::Notice, "wifi is steady again"));
        let told = flight.told(&[false, true], 3);
        assert_eq!(told, one(Severity::Error, "wifi is lost, one link left: lte"));
    }

    #[test]
    fn losing_the_last_link_is_told_however_often_it_comes_and_goes() {
        let mut flight = Flight::new(&["lte"]);
        let mut critical = 0;
        for _ in 0..10 {
            let told = flight.told(&[false], 10);
            critical += told.iter().filter(|(severity, _)| *severity == Severity::Critical).count();
            assert_eq!(flight.told(&[true], 10).len(), 1, "it is back");
        }
        assert_eq!(critical, 10);
        let told: Vec<_> = (0..10)
            .flat_map(|_| [flight.told(&[false], 3), flight.told(&[true], 3)].concat())
            .collect();
        assert!((6..=8).contains(&told.len()), "every 15 s at most: {told:?}");
    }

    #[test]
    fn a_link_that_comes_and_goes_is_relied_on_where_no_other_is_left() {
        let mut flight = Flight::new(&["wifi", "lte"]);
        for _ in 0..4 {
            flight.told(&[false, true], 5);
            flight.told(&[true, true], 5);
        }
        let told = flight.told(&[true, false], 10);
        assert_eq!(told, one(Severity::Error, "lte is lost, one link left: wifi"));
        let told = flight.told(&[false, false], 10);
        assert_eq!(told, one(Severity::Critical, "no link works, vehicle not reached"));
    }

    #[test]
    fn what_is_only_just_enough_is_told_once_a_minute() {
        let mut flight = Flight::new(&["wifi", "lte"]);
        let told: Vec<_> =
            (0..60).filter_map(|_| flight.look_at(&[true, true], Some(0.234), false)).collect();
        assert_eq!(told, one(Severity::Warning, "only just enough: wifi loses 23 %"));
        let told: Vec<_> =
            (0..60).filter_map(|_| flight.look_at(&[true, true], None, true)).collect();
        assert_eq!(told, one(Severity::Warning, "only just enough: wifi, lte full"));
        assert!(flight.told(&[true, true], 200).is_empty());
    }

    #[test]
    fn a_path_that_the_file_no_longer_has_goes_without_a_word() {
        let mut flight = Flight::new(&["wifi", "lte"]);
        assert!(flight.told(&[true], 10).is_empty());
        assert_eq!(flight.told(&[false], 5).len(), 1, "the last one is told");
    }

    #[test]
    fn a_silent_autopilot_is_told_while_the_links_work_and_not_every_second() {
        let mut flight = Flight::new(&["wifi", "lte"]);
        flight.autopilot = Some("ttyAMA0 says nothing");
        let told = flight.told(&[true, true], 60);
        assert_eq!(told, one(Severity::Critical, "autopilot: ttyAMA0 says nothing"));
        flight.autopilot = None;
        let told = flight.told(&[true, true], 60);
        assert_eq!(told, one(Severity::Notice, "the autopilot is heard again"));
        let mut told = 0;
        for _ in 0..60 {
            flight.autopilot = flight.autopilot.xor(Some("ttyAMA0 sends noise (baud rate?)"));
            told += flight.told(&[true, true], 1).len();
        }
        assert!((8..=9).contains(&told), "{told}: every 15 s, and that it is well between");
        flight.autopilot = None;
        flight.told(&[true, true], 1);
        assert_eq!(flight.told(&[false, false], 10).len(), 1);
        flight.autopilot = Some("ttyAMA0 is missing");
        assert!(flight.told(&[false, false], 10).is_empty(), "nobody knows");
    }

    #[test]
    fn another_vehicle_of_the_same_number_is_told_once() {
        let mut flight = Flight::new(&["wifi", "lte"]);
        flight.twin = Some((1, "bravo"));
        let told = flight.told(&[true, true], 60);
        assert_eq!(told, one(Severity::Critical, "bravo's vehicle is number 1 too"));
        flight.twin = None;
        assert!(flight.told(&[true, true], 10).is_empty());
        flight.twin = Some((1, "the-second-of-those-that-map-the-quarry"));
        let told = flight.told(&[true, true], 10);
        assert_eq!(told, one(Severity::Critical, "the-secon's vehicle is number 1 too"));
    }

    #[test]
    fn links_that_fall_at_one_moment_are_told_as_the_stations_own() {
        let mut flight = Flight::new(&["wifi", "lte"]);
        flight.is_own_line = true;
        let told = flight.told(&[false, false], 10);
        assert_eq!(told, one(Severity::Critical, "both links: it is the station's own line"));
    }

    #[test]
    fn long_names_are_cut_and_many_are_counted() {
        let mut flight = Flight::new(&["wifi-of-the-ground-station"]);
        flight.names =
            vec!["wifi-of-the-ground-station", "cellular-of-operator-one", "satellite-uplink"];
        let _ = flight.told(&[true, true, true], 10);
        let told = flight.told(&[false, true, true], 5);
        assert_eq!(told, one(Severity::Warning, "wifi-of-t is lost, 2 links left"));
    }
}
