//! Slot matrices: refused with file and line or read, bounded by their text, the same when they are
//! written and read again, and fit for a link.

#![no_main]

use std::sync::Arc;

use netem::{
    Duration, Instant, Link, LinkModel, LinkRate, LossModel, SlotClock, SlotLoss, SlotMatrix,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let matrix = match SlotMatrix::parse(text, "fuzz.slots") {
        Ok(matrix) => Arc::new(matrix),
        Err(error) => {
            assert!(error.to_string().starts_with("fuzz.slots:"), "{error}");
            return;
        }
    };
    assert!(matrix.rows().len() * matrix.slots() <= text.len());
    assert_eq!(SlotMatrix::parse(&matrix.to_text(), "again").as_ref(), Ok(&*matrix));
    for row in matrix.rows().iter().take(3) {
        let mut slots = SlotLoss::of_matrix("", &matrix, Some((&row.from, &row.to)));
        slots.region = matrix.slot() * 2;
        let clock = SlotClock { slot: matrix.slot(), small_bytes: 200 };
        let loss = LossModel { slots: Some(slots), ..LossModel::default() };
        let rate = LinkRate::Slots(clock);
        let mut link =
            Link::new(&LinkModel { rate, loss, retries: 15, ..LinkModel::default() }, 1, "link");
        for packet in 0..20 {
            let at = Instant::ZERO + Duration::from_micros(packet * packet * 900);
            let verdict = link.handle_packet(at, 100 + packet as usize * 70);
            assert_eq!(verdict.dropped.is_some(), verdict.deliveries.is_empty());
        }
    }
});
