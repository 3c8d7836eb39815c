//! Traces that a scenario names: what is read is fit for a link.
//!
//! The first byte chooses the reader, the second its interval.

#![no_main]

use std::sync::Arc;

use netem::{
    CsvLoss, Delay, DeliveryTrace, Duration, Instant, Link, LinkModel, LinkRate, LossModel, Series,
    SlotClock, SlotLoss, SlotTrace, Table,
};

/// Packets that are sent over the link.
const PACKETS: u64 = 50;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&[reader, interval], text)) = bytes.split_first_chunk::<2>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let interval = Duration::from_micros(1 + u64::from(interval) * 397);
    if let Some(model) = model(reader, interval, text) {
        try_out(&model);
    }
});

fn model(reader: u8, interval: Duration, text: &str) -> Option<LinkModel> {
    let (mut model, path) = (LinkModel::default(), String::new());
    match reader % 7 {
        0 => {
            let trace = Arc::new(DeliveryTrace::parse(text, "t").ok()?);
            model.rate = LinkRate::Deliveries { path, trace };
        }
        1 => {
            let series = Arc::new(Series::delays(text, "t", interval).ok()?);
            model.delay = Delay::File { path, interval, series };
        }
        2 => {
            let series = Arc::new(Series::delays_csv(text, "t").ok()?);
            model.delay = Delay::Csv { path, series };
        }
        3 => {
            let series = Arc::new(Series::rates_csv(text, "t").ok()?);
            model.rate = LinkRate::Csv { path, series };
        }
        4 => {
            let series = Arc::new(Series::losses_csv(text, "t").ok()?);
            model.loss.csv = Some(CsvLoss { path, series });
        }
        5 => {
            let trace = Arc::new(SlotTrace::parse(text, "t").ok()?);
            let region = interval * 7;
            let slots = SlotLoss { path, matrix: None, trace, slot: interval, small_bytes: 300, region };
            model.loss = LossModel { slots: Some(slots), ..LossModel::default() };
            if reader >= 128 {
                model.rate = LinkRate::Slots(SlotClock { slot: interval, small_bytes: 300 });
                model.retries = u64::from(reader - 128);
            }
        }
        _ => {
            let read = if reader < 128 { Table::from_csv } else { Table::from_columns };
            let table = read(text, "t").ok()?;
            for column in table.header() {
                assert_eq!(table.texts(column).map(|rows| rows.len()), Ok(table.len()));
                let _ = table.numbers(column);
            }
            return None;
        }
    }
    Some(model)
}

fn try_out(model: &LinkModel) {
    let mut link = Link::new(model, 1, "link");
    for packet in 0..PACKETS {
        let at = Instant::from_micros(packet * packet * 700);
        let verdict = link.handle_packet(at, 1 + packet as usize * 30);
        assert_eq!(verdict.dropped.is_some(), verdict.deliveries.is_empty());
        assert!(verdict.deliveries.iter().all(|delivery| delivery.at >= at));
    }
}
