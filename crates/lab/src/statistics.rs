//! Summary figures of samples: mean, spread, percentiles, intervals of confidence, longest gap,
//! exponential fit.
//!
//! Pure functions of slices. Nothing here knows what was measured.

/// How often a sample is drawn anew for an interval: enough that its ends are stable to two digits.
const RESAMPLES: u32 = 4_000;
/// What an interval of confidence leaves out at each of its ends.
const TAIL: f64 = 0.025;

/// Returns the arithmetic mean; none of an empty sample.
pub(crate) fn mean(sample: &[f64]) -> Option<f64> {
    (!sample.is_empty()).then(|| sample.iter().sum::<f64>() / sample.len() as f64)
}

/// Returns the standard deviation with Bessel's correction; none below two samples.
pub(crate) fn standard_deviation(sample: &[f64]) -> Option<f64> {
    if sample.len() < 2 {
        return None;
    }
    let mean = mean(sample)?;
    let squares: f64 = sample.iter().map(|x| (x - mean).powi(2)).sum();
    Some((squares / (sample.len() - 1) as f64).sqrt())
}

/// Returns the greatest value; none of an empty sample.
pub(crate) fn maximum(sample: &[f64]) -> Option<f64> {
    sample.iter().copied().reduce(f64::max)
}

/// Returns the least value; none of an empty sample.
pub(crate) fn minimum(sample: &[f64]) -> Option<f64> {
    sample.iter().copied().reduce(f64::min)
}

/// Returns the value that a share `p` of the sample does not exceed (nearest rank).
///
/// `sorted` is ascending, `p` in 0..=1; none of an empty sample.
pub(crate) fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Returns the middle value, of an even number the mean of the two in the middle; none of an empty
/// sample.
pub(crate) fn median(sample: &[f64]) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (lower, upper) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[lower] + sorted[upper]) / 2.0)
}

/// Returns two values of the sample between which the median of whatever it was drawn from lies
/// with 95 % confidence at least, whatever the distribution is: the number of values below that
/// median is binomial. None below six values, whose extremes are not far enough apart.
pub(crate) fn median_interval(sample: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let mut chance = 0.5_f64.powi(i32::try_from(n).ok()?);
    let (mut below, mut rank) = (chance, 0);
    while below <= TAIL && rank < n / 2 {
        rank += 1;
        chance *= (n - rank + 1) as f64 / rank as f64;
        below += chance;
    }
    Some((*sorted.get(rank.checked_sub(1)?)?, *sorted.get(n - rank)?))
}

/// Returns the mean of the first values of pairs over that of the second ones; none where that is
/// 0.
pub(crate) fn ratio_of_means(pairs: &[(f64, f64)]) -> Option<f64> {
    let (first, second) =
        pairs.iter().fold((0.0, 0.0), |(one, other), pair| (one + pair.0, other + pair.1));
    (second > 0.0).then(|| first / second)
}

/// Returns between which values [`ratio_of_means`] lies with 95 % confidence: what it is when pairs
/// are drawn anew from those at hand (bootstrap). None below six pairs.
pub(crate) fn ratio_of_means_interval(pairs: &[(f64, f64)]) -> Option<(f64, f64)> {
    drawn_interval(pairs, pairs.len(), ratio_of_means)
}

/// Returns between which values a figure of so many pairs lies in 95 of 100 cases, where they are
/// drawn from those at hand (bootstrap). None below six pairs.
pub(crate) fn drawn_interval(
    pairs: &[(f64, f64)],
    count: usize,
    figure: impl Fn(&[(f64, f64)]) -> Option<f64>,
) -> Option<(f64, f64)> {
    if pairs.len() < 6 {
        return None;
    }
    // Always the same stream: the same sample has the same interval.
    let mut rng = units::Rng::stream(0, "bootstrap");
    let mut drawn = || -> Vec<(f64, f64)> {
        (0..count).map(|_| pairs[rng.below(pairs.len() as u64) as usize]).collect()
    };
    let mut figures: Vec<f64> = (0..RESAMPLES).filter_map(|_| figure(&drawn())).collect();
    figures.sort_by(f64::total_cmp);
    Some((percentile(&figures, TAIL)?, percentile(&figures, 1.0 - TAIL)?))
}

/// Returns between which values the ratio of the sums of pairs lies, each bound with 99 %
/// confidence, where pairs are batches of a series whose values depend on their neighbours: misses
/// over messages of a stretch of time [Law §9.5]. None below six batches.
pub(crate) fn ratio_of_batches_interval(batches: &[(f64, f64)]) -> Option<(f64, f64)> {
    /// What the normal distribution exceeds once in a hundred times.
    const Z: f64 = 2.326_347_874;
    let n = batches.len();
    if n < 6 {
        return None;
    }
    let ratio = ratio_of_means(batches)?;
    let whole: f64 = batches.iter().map(|batch| batch.1).sum();
    let squares: f64 = batches.iter().map(|batch| (batch.0 - ratio * batch.1).powi(2)).sum();
    let error = (squares * n as f64 / (n - 1) as f64).sqrt() / whole;
    let reach = student(Z, n - 1) * error;
    Some(((ratio - reach).max(0.0), ratio + reach))
}

/// Returns Jain's index of how evenly a sample is shared out: 1 where all have the same, 1/n where
/// one of n has everything [Jain §1]; none where nobody has anything.
pub(crate) fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share.powi(2)).sum();
    (squares > 0.0).then(|| sum.powi(2) / (shares.len() as f64 * squares))
}

/// Returns the longest stretch within `from..to` without any of `times`, outside `excluded`.
///
/// `times` is ascending; all in one unit. The stretches before the first and after the last time
/// count too. Where a stretch overlaps `excluded`, the pieces outside count one by one.
pub(crate) fn longest_gap(times: &[f64], from: f64, to: f64, excluded: Option<(f64, f64)>) -> f64 {
    let inside = times.iter().copied().filter(|time| (from..to).contains(time));
    let edges: Vec<f64> = core::iter::once(from).chain(inside).chain([to]).collect();
    let gaps = edges.windows(2).map(|pair| outside(pair[0], pair[1], excluded));
    gaps.fold(0.0, f64::max)
}

/// Returns the longest piece of `from..to` outside `excluded`.
pub(crate) fn outside(from: f64, to: f64, excluded: Option<(f64, f64)>) -> f64 {
    let Some((start, end)) = excluded.filter(|(start, end)| from < *end && *start < to) else {
        return to - from;
    };
    (start - from).max(to - end).max(0.0)
}

/// Returns the rate λ of the exponential distribution that fits best (maximum likelihood).
pub(crate) fn exponential_rate(sample: &[f64]) -> Option<f64> {
    mean(sample).filter(|mean| *mean > 0.0).map(f64::recip)
}

/// Returns the greatest distance between the sample's distribution and an exponential one.
///
/// `sorted` is ascending and of whole numbers: the distance is taken at the upper edge of each
/// step, where a discrete sample can be compared with a continuous distribution.
pub(crate) fn exponential_distance(sorted: &[f64], rate: f64) -> f64 {
    let n = sorted.len() as f64;
    let step_ends = sorted.iter().enumerate().filter(|(i, x)| sorted.get(i + 1) != Some(x));
    let distance = |(i, x): (usize, &f64)| {
        let empirical = (i + 1) as f64 / n;
        (empirical - (1.0 - (-rate * (x + 0.5)).exp())).abs()
    };
    step_ends.map(distance).fold(0.0, f64::max)
}

/// Returns between which values the mean of whatever a sample was drawn from lies with 95 %
/// confidence, by Student's t. None below six values, of which the expansion is not good enough.
pub(crate) fn mean_interval(sample: &[f64]) -> Option<(f64, f64)> {
    /// What the normal distribution exceeds once in forty times.
    const Z: f64 = 1.959_963_985;
    let (mean, spread) = (mean(sample)?, standard_deviation(sample)?);
    let reach = student(Z, sample.len() - 1) * spread / (sample.len() as f64).sqrt();
    (sample.len() >= 6).then_some((mean - reach, mean + reach))
}

/// Returns what Student's t exceeds as often as the normal distribution does `z`, by the expansion
/// around that [Abramowitz §26.7.5]; good to 1 % from five degrees of freedom on where that is once
/// in a hundred times.
fn student(z: f64, degrees: usize) -> f64 {
    let n = degrees as f64;
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    terms.iter().zip(1..).map(|(term, power)| term / n.powi(power)).sum::<f64>() + z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_a_known_sample() {
        let sample = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&sample), Some(5.0));
        assert!((standard_deviation(&sample).expect("eight samples") - 2.138).abs() < 1e-3);
        assert_eq!(maximum(&sample), Some(9.0));
        assert_eq!(percentile(&sample, 0.5), Some(4.0));
        assert_eq!(percentile(&sample, 0.99), Some(9.0));
        assert_eq!(percentile(&sample, 0.0), Some(2.0));
        assert_eq!((mean(&[]), percentile(&[], 0.5)), (None, None));
    }

    #[test]
    fn median_and_fairness_of_known_samples() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (Some(2.0), Some(2.5)));
        assert_eq!((median(&[]), jain_index(&[])), (None, None));
        assert_eq!((jain_index(&[2.0, 2.0]), jain_index(&[5.0, 0.0])), (Some(1.0), Some(0.5)));
        assert_eq!(jain_index(&[0.0, 0.0]), None);
        // The two flows of [ASRAN table 1].
        let index = jain_index(&[0.634, 1.140]).expect("two shares");
        assert!((index - 0.925).abs() < 5e-4, "{index}");
    }

    #[test]
    fn intervals_hold_the_median_as_often_as_they_say() {
        let twenty: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        // 95.9 % of the binomial distribution of 20 lie from 6 to 14 values below the median.
        assert_eq!(median_interval(&twenty), Some((6.0, 15.0)));
        assert_eq!(median_interval(&twenty[..6]), Some((15.0, 20.0)));
        assert_eq!((median_interval(&twenty[..5]), median_interval(&[])), (None, None));
        let mut rng = units::Rng::new(11);
        let mut hits = 0;
        for _ in 0..2_000 {
            let sample: Vec<f64> = (0..9).map(|_| rng.exponential(1.0)).collect();
            let (low, high) = median_interval(&sample).expect("nine values");
            hits += u32::from((low..=high).contains(&2.0_f64.ln()));
        }
        // Nine values: the second and the eighth hold 96.1 %.
        assert!((1_890..=1_950).contains(&hits), "{hits}");
    }

    #[test]
    fn ratios_of_means_have_an_interval_that_knows_of_pairs() {
        let mut rng = units::Rng::new(5);
        let both: Vec<f64> = (0..20).map(|_| rng.exponential(1.0)).collect();
        let paired: Vec<(f64, f64)> = both.iter().map(|x| (0.9 * x, *x)).collect();
        assert!((ratio_of_means(&paired).expect("twenty pairs") - 0.9).abs() < 1e-9);
        let (low, high) = ratio_of_means_interval(&paired).expect("twenty pairs");
        assert!((low - 0.9).abs() < 1e-9 && (high - 0.9).abs() < 1e-9, "what both share is gone");
        let apart: Vec<(f64, f64)> = both.iter().map(|x| (*x, rng.exponential(1.0))).collect();
        let (low, high) = ratio_of_means_interval(&apart).expect("twenty pairs");
        assert!(low < 0.8 && high > 1.2 && low > 0.2 && high < 4.0, "{low} to {high}");
        assert_eq!(ratio_of_means_interval(&apart), ratio_of_means_interval(&apart));
        assert_eq!((ratio_of_means(&[]), ratio_of_means_interval(&apart[..5])), (None, None));
    }

    #[test]
    fn batches_say_how_sure_a_share_is_although_misses_come_together() {
        const ONE_IN_HUNDRED: f64 = 2.326_347_874;
        assert!((student(ONE_IN_HUNDRED, 5) / 3.365 - 1.0).abs() < 0.01);
        assert!((student(ONE_IN_HUNDRED, 99) - 2.365).abs() < 0.001);
        assert!((student(1.959_963_985, 19) - 2.093).abs() < 0.001);
        assert_eq!(ratio_of_batches_interval(&[(1.0, 10.0); 5]), None);
        assert_eq!(ratio_of_batches_interval(&[(1.0, 10.0); 6]), Some((0.1, 0.1)));
        // Outages of 50 messages once in 1,000 on average: 5 %, in batches of 10,000.
        let mut rng = units::Rng::new(7);
        let mut outside = 0;
        for _ in 0..500 {
            let batches: Vec<(f64, f64)> = (0..40)
                .map(|_| {
                    let outages = (0..1_000).filter(|_| rng.chance(0.01)).count();
                    (outages as f64 * 50.0, 10_000.0)
                })
                .collect();
            let (low, _) = ratio_of_batches_interval(&batches).expect("forty batches");
            outside += u32::from(low > 0.05);
        }
        assert!(outside <= 12, "one in a hundred of 500: {outside}");
    }

    #[test]
    fn longest_gap_counts_edges_and_cuts_out_the_excluded_span() {
        let times = [1.0, 2.0, 5.0, 6.0];
        assert_eq!(longest_gap(&times, 0.0, 7.0, None), 3.0);
        assert_eq!(longest_gap(&times, 0.0, 10.0, None), 4.0);
        assert_eq!(longest_gap(&times, 0.0, 7.0, Some((2.5, 5.5))), 1.0);
        assert_eq!(longest_gap(&times, 0.0, 7.0, Some((4.0, 4.5))), 2.0);
        assert_eq!(longest_gap(&[], 0.0, 7.0, None), 7.0);
    }

    #[test]
    fn exponential_fit_recovers_its_rate() {
        let mut rng = units::Rng::new(3);
        let mut sample: Vec<f64> = (0..20_000).map(|_| rng.exponential(8.0).round()).collect();
        sample.sort_by(f64::total_cmp);
        let rate = exponential_rate(&sample).expect("a positive mean");
        assert!((rate - 0.125).abs() < 0.004, "{rate}");
        assert!(exponential_distance(&sample, rate) < 0.02);
    }
}
