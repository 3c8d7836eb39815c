//! IP packets of the tunnel: the selector looks inside whatever it is given.
#![no_main]

use proto::select::{Direction, Selector, SelectorConfig};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for direction in [Direction::ToVehicle, Direction::FromVehicle] {
        let mut selector = Selector::new(&SelectorConfig::default(), direction);
        // Twice: the second time flows and sources are known.
        let first = selector.select_packet(bytes).is_some();
        assert_eq!(selector.select_packet(bytes).is_some(), first);
    }
});
