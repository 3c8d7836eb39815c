//! Temporary.
pub(crate) fn get(name: &str, default: f64) -> f64 {
    use std::collections::HashMap;
    use std::sync::{Mutex, OnceLock};
    static V: OnceLock<Mutex<HashMap<String, f64>>> = OnceLock::new();
    let mut map = V.get_or_init(Default::default).lock().expect("x");
    if let Some(v) = map.get(name) { return *v; }
    let v = std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    map.insert(name.to_owned(), v);
    v
}
