//! A figure that experiments give, declared once: its name in results, its title in tables, and
//! what several runs of it make together.
//!
//! The lists of `fulmar-lab list`, tables, CSV, the pooling of seeds and windows, and what errors
//! do to a figure follow from the declaration. Its unit is in its name (`_ms`, `_mbps`), as JSON
//! has it.

use serde_json::{Value, json};

use crate::report::{merged, rounded_option};
use crate::statistics::{maximum, mean};

/// A figure of an experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Its name in results.
    pub(crate) key: &'static str,
    /// The object that it stands in, such as `up`; none where it is the result's own.
    within: Option<&'static str>,
    title: &'static str,
    pooling: Pooling,
    /// Whether it says what was asked for, which nothing that happens changes.
    pub(crate) is_exact: bool,
    /// Whether it is a share, which is also stated without what is in doubt.
    pub(crate) is_share: bool,
    /// Whether it is one measured figure over another.
    pub(crate) is_ratio: bool,
    /// Whether only runs in real time have it.
    pub(crate) is_of_emu: bool,
}

/// What several runs' figures make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooling {
    /// What they have in common.
    Same,
    Sum,
    Mean,
    Worst,
}

impl Figure {
    /// Declares what is the same in all runs that are pooled: a name, a point, or a figure that its
    /// experiment pools itself.
    pub(crate) const fn new(key: &'static str, title: &'static str) -> Self {
        let pooling = Pooling::Same;
        let (is_exact, is_share, is_ratio, is_of_emu) = (false, false, false, false);
        Self { key, within: None, title, pooling, is_exact, is_share, is_ratio, is_of_emu }
    }

    /// Declares what adds up.
    pub(crate) const fn sum(key: &'static str, title: &'static str) -> Self {
        Self { pooling: Pooling::Sum, ..Self::new(key, title) }
    }

    /// Declares a figure of which several runs have a mean.
    pub(crate) const fn mean(key: &'static str, title: &'static str) -> Self {
        Self { pooling: Pooling::Mean, ..Self::new(key, title) }
    }

    /// Declares a figure of which the worst run counts.
    pub(crate) const fn worst(key: &'static str, title: &'static str) -> Self {
        Self { pooling: Pooling::Worst, ..Self::new(key, title) }
    }

    /// Declares a share, of which several runs have a mean.
    pub(crate) const fn share(key: &'static str, title: &'static str) -> Self {
        Self { is_share: true, ..Self::mean(key, title) }
    }

    /// The same figure, which says what was asked for.
    pub(crate) const fn exact(self) -> Self {
        Self { is_exact: true, ..self }
    }

    /// The same figure, which is one measured figure over another.
    pub(crate) const fn ratio(self) -> Self {
        Self { is_ratio: true, ..self }
    }

    /// The same figure, which only runs in real time have.
    pub(crate) const fn of_emu(self) -> Self {
        Self { is_of_emu: true, ..self }
    }

    /// The same figure under a title that suits its neighbours in a table.
    pub(crate) const fn titled(self, title: &'static str) -> Self {
        Self { title, ..self }
    }

    /// The same figure of an object within the result, such as a direction.
    pub(crate) const fn within(self, object: &'static str, title: &'static str) -> Self {
        Self { within: Some(object), title, ..self }
    }

    /// Returns where it stands in a result: `lost`, `up.lost`.
    pub(crate) fn path(&self) -> String {
        match self.within {
            Some(object) => format!("{object}.{}", self.key),
            None => self.key.to_owned(),
        }
    }

    /// Returns the figure as a column of a table.
    pub(crate) fn column(&self) -> (String, String) {
        (self.path(), self.title.to_owned())
    }
}

/// Pools the results of several seeds, whose figures are declared in `figures`.
pub(crate) fn pooled(figures: &[Figure], by_seed: &[(u64, Value)]) -> Value {
    let values: Vec<&Value> = by_seed.iter().map(|(_, value)| value).collect();
    let mut all = pooled_object(figures, &values);
    if by_seed.len() > 1 {
        let single = |(seed, value): &(u64, Value)| merged([json!({"seed": seed}), value.clone()]);
        all["by_seed"] = by_seed.iter().map(single).collect();
    }
    all
}

/// Pools results, as each of their figures is declared; what stands in an object within them, by
/// the same declarations.
pub(crate) fn pooled_object(figures: &[Figure], values: &[&Value]) -> Value {
    let Some(Value::Object(first)) = values.first() else { return Value::Null };
    let pooled = first.keys().map(|key| {
        let fields: Vec<&Value> = values.iter().map(|value| &value[key]).collect();
        let pooled = if fields.iter().any(|field| field.is_object()) {
            pooled_object(figures, &fields)
        } else {
            let figure = figures.iter().find(|figure| figure.key == key);
            figure.map_or(Pooling::Same, |figure| figure.pooling).of(&fields)
        };
        (key.clone(), pooled)
    });
    Value::Object(pooled.collect())
}

impl Pooling {
    /// Pools one figure. What any run cannot give, the pool cannot give either.
    fn of(self, fields: &[&Value]) -> Value {
        if self == Self::Same {
            let same = fields.windows(2).all(|pair| pair[0] == pair[1]);
            return if same { fields[0].clone() } else { Value::Null };
        }
        let counts: Option<Vec<u64>> = fields.iter().map(|field| field.as_u64()).collect();
        let numbers: Option<Vec<f64>> = fields.iter().map(|field| field.as_f64()).collect();
        match (self, counts, numbers) {
            (Self::Sum, Some(counts), _) => counts.into_iter().sum::<u64>().into(),
            (Self::Sum, None, Some(numbers)) => rounded_option(Some(numbers.iter().sum()), 6),
            (Self::Worst, _, Some(numbers)) => rounded_option(maximum(&numbers), 6),
            (_, _, Some(numbers)) => rounded_option(mean(&numbers), 6),
            (_, _, None) => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: [Figure; 4] = [
        Figure::new("scheme", "scheme"),
        Figure::sum("lost", "lost"),
        Figure::worst("gap_s", "gap s"),
        Figure::mean("p50_ms", "p50 ms"),
    ];

    #[test]
    fn runs_are_pooled_as_their_figures_are_declared() {
        let run = |lost: u64, gap: f64, p50: Option<f64>| json!({"scheme": "udp", "lost": lost, "gap_s": gap, "up": {"p50_ms": p50}, "load": lost});
        let by_seed = [(1, run(3, 0.5, Some(2.0))), (2, run(4, 0.25, Some(3.0)))];
        let all = pooled(&FIGURES, &by_seed);
        assert_eq!(
            (&all["scheme"], &all["lost"], &all["gap_s"], &all["up"]["p50_ms"]),
            (&json!("udp"), &json!(7), &json!(0.5), &json!(2.5))
        );
        assert_eq!(all["load"], Value::Null, "nobody said what several of it make");
        assert_eq!(all["by_seed"][1]["seed"], 2);
        let without = pooled(&FIGURES, &[(1, run(3, 0.5, None)), (2, run(4, 0.25, Some(3.0)))]);
        assert_eq!(without["up"]["p50_ms"], Value::Null);
    }

    #[test]
    fn a_figure_of_a_direction_keeps_its_declaration() {
        let down = FIGURES[1].within("down", "down: lost");
        assert_eq!(down.column(), ("down.lost".to_owned(), "down: lost".to_owned()));
        assert_eq!((down.key, down.pooling), ("lost", Pooling::Sum));
    }
}
