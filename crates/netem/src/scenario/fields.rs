//! The keys that stand for one field each: one table for reading them and for writing them.
//!
//! What takes several keys together, or one of several, is in `keys.rs` and `write.rs`.

use crate::link::{GilbertElliott, JitterShape, LinkModel, QueueLimit, SlotClock, SlotLoss};
use crate::medium::MediumModel;
use toml_keys::Section;
use units::Duration;

/// A key and the field of a model `M` that it stands for.
pub(super) struct Field<M>(&'static str, Kind<M>);

/// How a field is written in a file, and where it is in the model.
enum Kind<M> {
    /// In milliseconds.
    Millis(fn(&mut M) -> &mut Duration),
    Probability(fn(&mut M) -> &mut f64),
    Flag(fn(&mut M) -> &mut bool),
    Count(fn(&mut M) -> &mut u64),
    /// A number that need not be there.
    Limit(fn(&mut M) -> &mut Option<u64>),
    Shape(fn(&mut M) -> &mut JitterShape),
}

/// What happens after transmission.
pub(super) const AIR: [Field<LinkModel>; 9] = [
    Field("jitter_ms", Kind::Millis(|model| &mut model.jitter.size)),
    Field("jitter_shape", Kind::Shape(|model| &mut model.jitter.shape)),
    Field("keep_order", Kind::Flag(|model| &mut model.keep_order)),
    Field("loss", Kind::Probability(|model| &mut model.loss.independent)),
    Field("duplicate", Kind::Probability(|model| &mut model.duplication.probability)),
    Field("duplicate_lag_ms", Kind::Millis(|model| &mut model.duplication.lag)),
    Field("reorder", Kind::Probability(|model| &mut model.reordering.probability)),
    Field("reorder_lag_ms", Kind::Millis(|model| &mut model.reordering.lag)),
    Field("corrupt", Kind::Probability(|model| &mut model.corruption)),
];

/// How much a channel with bursts loses in its two states.
pub(super) const BURST: [Field<GilbertElliott>; 2] = [
    Field("loss_good", Kind::Probability(|burst| &mut burst.loss_good)),
    Field("loss_bad", Kind::Probability(|burst| &mut burst.loss_bad)),
];

/// The slots of a transmitter.
pub(super) const CLOCK: [Field<SlotClock>; 2] = [
    Field("slot_ms", Kind::Millis(|clock| &mut clock.slot)),
    Field("small_bytes", Kind::Count(|clock| &mut clock.small_bytes)),
];

/// How long the slots of a recorded channel last, where its file does not say.
pub(super) const SLOT: [Field<SlotLoss>; 1] =
    [Field("slot_ms", Kind::Millis(|slots| &mut slots.slot))];

/// How much of a recorded channel counts for which packet.
pub(super) const SLOTS: [Field<SlotLoss>; 2] = [
    Field("small_bytes", Kind::Count(|slots| &mut slots.small_bytes)),
    Field("region_ms", Kind::Millis(|slots| &mut slots.region)),
];

/// What a queue holds.
pub(super) const QUEUE: [Field<QueueLimit>; 2] = [
    Field("queue_packets", Kind::Limit(|limit| &mut limit.packets)),
    Field("queue_bytes", Kind::Limit(|limit| &mut limit.bytes)),
];

/// A medium on which links take turns.
pub(super) const MEDIUM: [Field<MediumModel>; 2] = [
    Field("gap_ms", Kind::Millis(|medium| &mut medium.gap)),
    Field("ack_ms", Kind::Millis(|medium| &mut medium.acknowledgement)),
];

/// The words for how jitter is distributed.
const SHAPES: [(&str, JitterShape); 3] = [
    ("uniform", JitterShape::Uniform),
    ("normal", JitterShape::Normal),
    ("exponential", JitterShape::Exponential),
];

/// Reads the keys that are there into a model; the others leave it as it was.
pub(super) fn read<M>(section: &Section<'_>, fields: &[Field<M>], model: &mut M) {
    for Field(key, kind) in fields {
        match kind {
            Kind::Millis(of) => set(of(model), section.millis(key)),
            Kind::Probability(of) => set(of(model), section.probability(key)),
            Kind::Flag(of) => set(of(model), section.flag(key)),
            Kind::Count(of) => set(of(model), section.number(key, 0..=u64::MAX)),
            Kind::Limit(of) => {
                set(of(model), section.number(key, 0..=u64::MAX).map(Some));
            }
            Kind::Shape(of) => set(of(model), section.choice(key, &SHAPES)),
        }
    }
}

/// Returns every key with its value as a file has it; limits that are not there are left out.
pub(super) fn written<M: Clone>(fields: &[Field<M>], model: &M) -> Vec<(&'static str, String)> {
    // The table leads to fields that may be changed, so it is asked about a copy.
    let mut model = model.clone();
    let mut write = |Field(key, kind): &Field<M>| {
        let value = match kind {
            Kind::Millis(of) => millis(*of(&mut model)).to_string(),
            Kind::Probability(of) => of(&mut model).to_string(),
            Kind::Flag(of) => of(&mut model).to_string(),
            Kind::Count(of) => of(&mut model).to_string(),
            Kind::Limit(of) => (*of(&mut model))?.to_string(),
            Kind::Shape(of) => format!("\"{}\"", word(&SHAPES, *of(&mut model))),
        };
        Some((*key, value))
    };
    fields.iter().filter_map(&mut write).collect()
}

/// Returns the word that stands for a value.
pub(super) fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| *word)
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
