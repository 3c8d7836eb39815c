//! One set of figures out of several runs': of several seeds, of several windows.

use serde_json::{Value, json};

use crate::report::{merged, rounded_option};
use crate::statistics::{maximum, mean};

/// Pools the figures of several seeds: counts add up, gaps and maxima take the worst, the rest
/// takes the mean.
pub(crate) fn pooled(by_seed: &[(u64, Value)]) -> Value {
    let values: Vec<&Value> = by_seed.iter().map(|(_, value)| value).collect();
    let mut all = pooled_object(&values);
    if by_seed.len() > 1 {
        let single = |(seed, value): &(u64, Value)| merged([json!({"seed": seed}), value.clone()]);
        all["by_seed"] = by_seed.iter().map(single).collect();
    }
    all
}

/// Pools figures by the same rules.
pub(crate) fn pooled_object(values: &[&Value]) -> Value {
    let Some(Value::Object(first)) = values.first() else { return Value::Null };
    let pooled = first.keys().map(|key| {
        let fields: Vec<&Value> = values.iter().map(|value| &value[key]).collect();
        (key.clone(), pooled_field(key, &fields))
    });
    Value::Object(pooled.collect())
}

fn pooled_field(key: &str, fields: &[&Value]) -> Value {
    if fields.iter().any(|field| field.is_object()) {
        return pooled_object(fields);
    }
    if fields.iter().all(|field| field.is_u64()) {
        return fields.iter().filter_map(|field| field.as_u64()).sum::<u64>().into();
    }
    let numbers: Option<Vec<f64>> = fields.iter().map(|field| field.as_f64()).collect();
    match numbers {
        Some(numbers) if key.contains("gap") || key.contains("max") => {
            rounded_option(maximum(&numbers), 6)
        }
        Some(numbers) => rounded_option(mean(&numbers), 6),
        // A figure that any seed cannot give, the pool cannot give either; names are all the same.
        None if fields[0].is_string() => fields[0].clone(),
        None => Value::Null,
    }
}
