//! Readers of traces on arbitrary text: they never panic, and what they read is fit for use.

use fulmar_netem::{
    Delay, DeliveryTrace, Duration, Instant, Link, LinkModel, LinkRate, LossModel, Series,
    SlotLoss, SlotMatrix, SlotTrace, Table,
};
use proptest::prelude::*;
use std::sync::Arc;

/// Lines of numbers as they might stand in a trace, and of what should not.
fn lines() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        "[0-9]{1,4}",
        "[0-9]{1,20}",
        "-?[0-9]{1,3}\\.[0-9]{1,9}",
        "[01]{1,20}",
        Just("# note".to_owned()),
        Just("1e308".to_owned()),
        Just("inf".to_owned()),
        Just("NaN".to_owned()),
        Just("\"1".to_owned()),
        "\\PC{0,6}",
    ];
    let row = prop::collection::vec(number, 1..3).prop_map(|fields| fields.join(","));
    prop::collection::vec(row, 0..20).prop_map(|rows| rows.join("\n"))
}

/// Sends a few packets over the link and checks that each is decided about.
fn try_out(model: LinkModel) {
    let mut link = Link::new(&model, 1, "link");
    for i in 0..50 {
        let at = Instant::from_micros(i * i * 700);
        let verdict = link.handle_packet(at, 1 + i as usize * 30);
        assert_eq!(verdict.dropped.is_some(), verdict.deliveries.is_empty());
        assert!(verdict.deliveries.iter().all(|delivery| delivery.at >= at));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn delivery_traces(text in lines()) {
        if let Ok(trace) = DeliveryTrace::parse(&text, "t") {
            let rate = LinkRate::Deliveries { path: String::new(), trace: Arc::new(trace) };
            try_out(LinkModel { rate, ..LinkModel::default() });
        }
    }

    #[test]
    fn delay_files(text in lines(), interval in 1_u64..100_000_000) {
        let interval = Duration::from_nanos(interval);
        if let Ok(series) = Series::delays(&text, "t", interval) {
            let delay = Delay::File { path: String::new(), interval, series: Arc::new(series) };
            try_out(LinkModel { delay, ..LinkModel::default() });
        }
    }

    #[test]
    fn rate_tables(text in lines()) {
        if let Ok(series) = Series::rates_csv(&format!("time_s,rate_mbps\n{text}"), "t") {
            let rate = LinkRate::Csv { path: String::new(), series: Arc::new(series) };
            try_out(LinkModel { rate, ..LinkModel::default() });
        }
    }

    #[test]
    fn slot_traces(text in lines(), slot in 1_u64..100_000_000, region in 0_u64..1_000_000_000) {
        if let Ok(trace) = SlotTrace::parse(&text, "t") {
            let slots = Some(SlotLoss {
                path: String::new(),
                matrix: None,
                trace: Arc::new(trace),
                slot: Duration::from_nanos(slot),
                small_bytes: 300,
                region: Duration::from_nanos(region),
            });
            try_out(LinkModel { loss: LossModel { slots, ..LossModel::default() }, ..LinkModel::default() });
        }
    }

    #[test]
    fn slot_matrices(head in "[0-9]{1,3}(\\.[0-9]{1,7})?", rows in prop::collection::vec("[ab] [bc] [01]{3}", 0..4)) {
        let text = format!("slot_ms {head}\n{}", rows.join("\n"));
        match SlotMatrix::parse(&text, "t") {
            Ok(matrix) => assert_eq!(SlotMatrix::parse(&matrix.to_text(), "t"), Ok(matrix)),
            Err(error) => assert!(error.to_string().starts_with("t:"), "{}", error),
        }
    }

    #[test]
    fn tables(text in lines()) {
        for table in [Table::from_csv(&text, "t"), Table::from_columns(&text, "t")].into_iter().flatten() {
            let _ = table.numbers("1");
        }
    }
}
