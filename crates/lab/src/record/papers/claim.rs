//! What we claim, judged: whether it is the paper's figure, reaches its bar, is ahead of others.

use super::shelf::{Shelf, Told};
use super::verdict::{Tone, Verdict};
use super::{Claim, Papers};
use crate::record::Figure;
use crate::record::row::Row;

/// A difference from the paper that nobody would call agreement, of a figure without an interval.
const FAR: f64 = 0.1;

/// A claim with its figure.
pub(super) struct Judged<'a> {
    pub(super) claim: &'a Claim,
    /// None where the record has none.
    pub(super) own: Option<&'a Row>,
    pub(super) verdict: Verdict,
}

/// Judges every claim.
pub(super) fn all<'a>(papers: &'a Papers, shelf: &'a Shelf) -> Vec<Judged<'a>> {
    papers.claim.iter().map(|claim| judge(papers, claim, shelf)).collect()
}

fn judge<'a>(papers: &'a Papers, claim: &'a Claim, shelf: &'a Shelf) -> Judged<'a> {
    let found = shelf.get(&claim.record).and_then(|told| {
        let missing = || format!("the record has no {} of {} there", claim.key, claim.scheme);
        let own = claim.find(told, &claim.scheme, &claim.key).ok_or_else(missing)?;
        Ok((told, own))
    });
    let (told, (figure, own)) = match found {
        Ok(found) => found,
        Err(why) => {
            let verdict = Verdict::new(format!("not vouched for: {why}"), Tone::Bad);
            return Judged { claim, own: None, verdict };
        }
    };
    let own_parts = [Verdict::beside_paper(own), Verdict::of_bar(figure, own)];
    let mut parts: Vec<Verdict> = own_parts.into_iter().flatten().collect();
    if let Some(beside) = &claim.beside {
        let key = beside.key.as_ref().unwrap_or(&claim.key);
        for scheme in &beside.schemes {
            parts.extend(match claim.find(told, scheme, key) {
                Some((_, other)) => Verdict::of_rank(papers.way(&claim.key), own, other),
                None => Some(Verdict::new(format!("{scheme} is not in the record"), Tone::Unsure)),
            });
        }
    }
    let tone = tone(&parts, is_far(figure, own));
    Judged { claim, own: Some(own), verdict: Verdict { tone, ..Verdict::joined(&parts) } }
}

impl Claim {
    fn find<'a>(&self, told: &'a Told, scheme: &str, key: &str) -> Option<(&'a Figure, &'a Row)> {
        told.figures().find(|(figure, _)| {
            figure.scheme == scheme && figure.key == key && figure.point == self.point
        })
    }
}

/// Returns how what is said of a claim is to be taken. That others than the kernel are better is
/// said, and is no failure of the claim.
fn tone(parts: &[Verdict], is_far: bool) -> Tone {
    let is_other = |part: &Verdict| {
        part.words.starts_with("behind") && !part.words.starts_with("behind kernel_")
    };
    let has = |tone| parts.iter().any(|part| part.tone == tone && !is_other(part));
    match parts {
        [] => Tone::Silent,
        _ if is_far || has(Tone::Bad) => Tone::Bad,
        _ if has(Tone::Unsure) => Tone::Unsure,
        _ => Tone::Good,
    }
}

/// Tells whether a figure that has no interval is far from the paper's; an effect, whether it is
/// nearer to none than to the paper's.
fn is_far(figure: &Figure, row: &Row) -> bool {
    let Some((paper, now)) = row.paper.zip(row.now).filter(|_| row.interval.is_none()) else {
        return false;
    };
    match figure.no_effect {
        Some(none) => (paper - now).abs() > 0.5 * (paper - none).abs(),
        None => (now - paper).abs() > FAR * paper.abs(),
    }
}
