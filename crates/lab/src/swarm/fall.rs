//! Falls: the rate of a link that was fast becomes a few kilobits per second for a while, as at the
//! edge of a cell.
//!
//! A part of its own, drawn from random streams of its own: what else a seed draws is what it was
//! before there were falls, but for the commands, which go on until the links have been fast again
//! for a while.

use core::fmt;

use netem::{LinkModel, LinkRate, Series};
use units::{Duration, Instant, Rate, Rng};

use super::draw::{log_uniform, moment};
use super::fault::{Fault, FaultKind, Span};
use super::{DRONE, STATION};

/// Links have numbers below this.
const LINKS: usize = 9;
/// No link falls before this: the session is there as a rule, and thin links from the beginning are
/// links too.
const NOT_BEFORE: Duration = Duration::from_secs(4);
/// The least and the highest rate of a link that has fallen, in kbit/s.
const KBPS: (f64, f64) = (2.0, 500.0);
/// How long one fall lasts, in seconds.
const LASTS_S: (f64, f64) = (1.0, 60.0);
/// The same where several come in a row, and what is between them.
const EACH_OF_ROW_S: (f64, f64) = (1.0, 15.0);
const BETWEEN_S: (f64, f64) = (0.2, 10.0);
/// How long the rate of a link that flaps is one and then the other.
const FLAP: Duration = Duration::from_secs(1);
/// The rate of a link without a limit where it has not fallen.
pub(super) const UNLIMITED: Rate = Rate::from_bps(10_000_000_000);

/// A stretch in which a link is slower than it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dip {
    /// From when to when.
    pub(super) span: Span,
    /// The rate meanwhile; a link that is slower by itself stays so.
    pub(super) rate: Rate,
}

/// Draws the falls of a seed whose applications send for `traffic`, of any link that it may have,
/// and of `edge` always.
pub(super) fn draw(seed: u64, traffic: Duration, edge: usize, rng: &mut Rng) -> Vec<Fault> {
    let together = rng.chance(0.8).then(|| draw_spans(traffic, rng));
    let host = match rng.below(20) {
        0..=2 => Some(DRONE),
        3..=5 => Some(STATION),
        _ => None,
    };
    let all = rng.chance(0.6);
    let falls = (0..LINKS).filter_map(|link| {
        let mut rng = Rng::stream(seed, &format!("fall {link}"));
        let falls = rng.chance(0.5) || all || link == edge;
        let spans = together.clone().unwrap_or_else(|| draw_spans(traffic, &mut rng));
        falls.then(|| Fault::fall(link, host, &spans, &mut rng))
    });
    falls.collect()
}

/// Lets the rate of a model fall; one that changes all the time already stays as it is.
pub(super) fn put_into(model: &mut LinkModel, dips: &[Dip]) {
    let own = match model.rate {
        LinkRate::Constant(rate) => rate,
        LinkRate::Unlimited => UNLIMITED,
        _ => return,
    };
    let mut steps = vec![(Duration::ZERO, own)];
    for Dip { span: (from, to), rate } in dips {
        steps.push((from.since(Instant::ZERO), own.min(*rate)));
        steps.push((to.since(Instant::ZERO), own));
    }
    if let Ok(series) = Series::from_steps(steps, None, "falls") {
        model.rate = LinkRate::Csv { path: String::new(), series: series.into() };
    }
}

/// Draws when a link is slow: once, several times, or every other second.
fn draw_spans(traffic: Duration, rng: &mut Rng) -> Vec<Span> {
    let mut at = moment(rng, traffic) + NOT_BEFORE;
    let seconds =
        |rng: &mut Rng, (least, most)| Duration::from_secs_f64(log_uniform(rng, least, most));
    let mut spans = Vec::new();
    match rng.below(4) {
        0 => {
            for _ in 0..2 + rng.below(3) {
                let end = at + seconds(rng, EACH_OF_ROW_S);
                spans.push((at, end));
                at = end + seconds(rng, BETWEEN_S);
            }
        }
        1 => {
            let end = at + seconds(rng, LASTS_S);
            while at < end {
                spans.push((at, at + FLAP));
                at += FLAP * 2;
            }
        }
        _ => spans.push((at, at + seconds(rng, LASTS_S))),
    }
    spans
}

impl Fault {
    /// Draws to which rates a link falls.
    fn fall(link: usize, host: Option<usize>, spans: &[Span], rng: &mut Rng) -> Self {
        let mut rate = || Rate::from_bps((log_uniform(rng, KBPS.0, KBPS.1) * 1e3) as u64);
        // A link that flaps does so between two rates.
        let one = rate();
        let flaps = spans.len() > 1 && spans.iter().all(|(from, to)| to.since(*from) == FLAP);
        let dips =
            spans.iter().map(|span| Dip { span: *span, rate: if flaps { one } else { rate() } });
        let dips: Vec<Dip> = dips.collect();
        let end = spans.last().map_or(Instant::ZERO, |span| span.1);
        let begin = spans.first().map_or(Instant::ZERO, |span| span.0);
        Self { link: Some(link), host, span: (begin, end), kind: FaultKind::Fall(dips) }
    }
}

impl fmt::Display for Dip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.span.0.as_secs_f64(), self.span.1.as_secs_f64());
        write!(f, "{:.1} kbit/s {from:.3} to {to:.3} s", self.rate.as_bps() as f64 / 1e3)
    }
}
