//! Writes a scenario as TOML, so that a run records what it ran.
//!
//! Everything is written out in full per direction, so that the text does not depend on defaults,
//! and reads back as the same scenario. Keys that stand for one field come from the reader's
//! tables. Trace files are named, not included.

use super::fields::{self, AIR, BURST, CLOCK, Field, MEDIUM, QUEUE, SLOT, SLOTS, millis};
use super::{Broadcast, HostModel, LinkPair, NEIGHBOURS, Radio, RadioMatrix, Scenario};
use crate::link::{
    Delay, GilbertElliott, LinkModel, LinkRate, LossModel, Outage, OutageMode, QueueLimit,
    SlotLoss, StateChange,
};
use core::fmt::Display;
use std::fmt::Write as _;
use units::{Duration, Instant, Rate};

pub(super) fn scenario(scenario: &Scenario) -> String {
    let mut out = Writer(String::new());
    out.text("name", &scenario.name);
    out.pair("seconds", scenario.seconds);
    out.pair("seed", scenario.seed);
    if scenario.resolve_neighbours {
        out.text("neighbours", fields::word(&NEIGHBOURS, true));
    }
    for host in &scenario.hosts {
        out.host(host);
    }
    for medium in &scenario.media {
        out.head("[[medium]]");
        out.text("name", &medium.name);
        out.fields(&MEDIUM, medium);
    }
    for group in &scenario.groups {
        out.head("[[group]]");
        out.text("name", &group.name);
        if let Some(burst) = &group.burst {
            out.burst("group", burst);
        }
        out.outages("group", &group.outages);
    }
    for link in &scenario.links {
        out.link(link, scenario);
    }
    for broadcast in &scenario.broadcasts {
        out.broadcast(broadcast, scenario);
    }
    for radio in &scenario.radios {
        out.radio(radio, scenario);
    }
    out.0
}

struct Writer(String);

impl Writer {
    fn head(&mut self, head: &str) {
        self.line(format_args!("\n{head}"));
    }

    fn pair(&mut self, key: &str, value: impl Display) {
        self.line(format_args!("{key} = {value}"));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.pair(key, quoted(value));
    }

    /// Writes the keys of a table.
    fn fields<M: Clone>(&mut self, fields: &[Field<M>], model: &M) {
        for (key, value) in fields::written(fields, model) {
            self.pair(key, value);
        }
    }

    fn line(&mut self, line: core::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn host(&mut self, host: &HostModel) {
        self.head("[[host]]");
        self.text("name", &host.name);
        self.pair("clock_offset_ms", host.clock.offset_ns as f64 / 1e6);
        self.pair("clock_skew_ppm", host.clock.skew_ppb as f64 / 1e3);
        for step in &host.clock.steps {
            self.head("[[host.clock_step]]");
            self.pair("at_s", seconds(step.at.since(Instant::ZERO)));
            self.pair("by_ms", step.by_ns as f64 / 1e6);
        }
    }

    fn link(&mut self, link: &LinkPair, scenario: &Scenario) {
        self.head("[[link]]");
        self.text("name", &link.name);
        let ends = [&scenario.hosts[link.a].name, &scenario.hosts[link.b].name];
        self.pair("between", list(&ends));
        for (end, model) in [(ends[0], &link.up), (ends[1], &link.down)] {
            let table = &format!("link.from_{end}");
            self.head(&format!("[{table}]"));
            self.sender(model);
            self.air(model);
            self.clock(table, &model.rate);
            self.loss_tables(table, &model.loss);
            self.outages(table, &model.outages);
        }
    }

    fn broadcast(&mut self, broadcast: &Broadcast, scenario: &Scenario) {
        self.head("[[broadcast]]");
        self.text("name", &broadcast.name);
        self.text("from", &scenario.hosts[broadcast.from].name);
        let name = |receiver: &super::Receiver| &scenario.hosts[receiver.host].name;
        self.pair("to", list(&broadcast.receivers.iter().map(name).collect::<Vec<_>>()));
        self.sender(&broadcast.sender);
        let shared = &broadcast.sender.outages;
        self.air(&broadcast.sender);
        self.clock("broadcast", &broadcast.sender.rate);
        self.loss_tables("broadcast", &broadcast.sender.loss);
        self.outages("broadcast", shared);
        for receiver in &broadcast.receivers {
            self.head("[[broadcast.receiver]]");
            self.text("host", name(receiver));
            self.air(&receiver.model);
            self.loss_tables("broadcast.receiver", &receiver.model.loss);
            // A receiver's outages begin with those of the whole broadcast.
            let own = receiver.model.outages.strip_prefix(shared.as_slice());
            self.outages("broadcast.receiver", own.unwrap_or(&receiver.model.outages));
        }
    }

    fn radio(&mut self, radio: &Radio, scenario: &Scenario) {
        self.head("[[radio]]");
        self.text("name", &radio.name);
        let name = |&host: &usize| &scenario.hosts[host].name;
        self.pair("hosts", list(&radio.hosts.iter().map(name).collect::<Vec<_>>()));
        self.sender(&radio.model);
        self.air(&radio.model);
        self.clock("radio", &radio.model.rate);
        self.loss_tables("radio", &radio.model.loss);
        if let Some(RadioMatrix { path, names, small_bytes, region, .. }) = &radio.matrix {
            self.head("[radio.matrix]");
            self.text("file", path);
            self.pair("names", list(&names.iter().collect::<Vec<_>>()));
            self.pair("small_bytes", small_bytes);
            self.pair("region_ms", millis(*region));
        }
        self.outages("radio", &radio.model.outages);
    }

    fn sender(&mut self, model: &LinkModel) {
        match &model.rate {
            LinkRate::Unlimited => {}
            LinkRate::Constant(rate) => self.pair("rate_mbps", rate.as_mbps()),
            LinkRate::Deliveries { path, .. } => self.text("delivery_file", path),
            LinkRate::Csv { path, series } if path.is_empty() => {
                let step = |(start, rate): (Duration, Rate)| {
                    format!("[{}, {}]", seconds(start), rate.as_mbps())
                };
                let steps: Vec<String> = series.steps().map(step).collect();
                self.pair("rate_steps", format!("[{}]", steps.join(", ")));
                if let Some(every) = series.period() {
                    self.pair("rate_every_s", seconds(every));
                }
            }
            LinkRate::Csv { path, .. } => self.text("rate_csv", path),
            // A table, which has to come after the keys.
            LinkRate::Slots(_) => {}
        }
        if model.retries > 0 {
            self.pair("retries", model.retries);
        }
        if !model.backoff.is_zero() {
            self.pair("backoff_us", model.backoff.as_micros());
        }
        self.queue(&model.queue);
        if let Some(medium) = &model.medium {
            self.text("medium", medium);
        }
        if !model.blocks.is_empty() {
            let words: Vec<_> = model.blocks.iter().map(|it| it.word().to_owned()).collect();
            self.pair("blocks", list(&words.iter().collect::<Vec<_>>()));
        }
        if let Some(span) = &model.blocks_during {
            self.pair("blocks_from_s", seconds(span.start));
            if span.end < Duration::MAX {
                self.pair("blocks_until_s", seconds(span.end));
            }
        }
    }

    fn queue(&mut self, limit: &QueueLimit) {
        if *limit == QueueLimit::UNLIMITED {
            self.text("queue", "unlimited");
        }
        self.fields(&QUEUE, limit);
    }

    /// Writes the keys of the air that are no tables; tables have to come after them.
    fn air(&mut self, model: &LinkModel) {
        match &model.delay {
            Delay::Fixed(delay) => self.pair("delay_ms", millis(*delay)),
            Delay::File { path, interval, .. } => {
                self.text("delay_file", path);
                self.pair("delay_interval_ms", millis(*interval));
            }
            Delay::Csv { path, .. } => self.text("delay_csv", path),
        }
        self.fields(&AIR, model);
        if let Some(csv) = &model.loss.csv {
            self.text("loss_csv", &csv.path);
        }
        self.pair("groups", list(&model.groups.iter().collect::<Vec<_>>()));
    }

    fn clock(&mut self, table: &str, rate: &LinkRate) {
        if let LinkRate::Slots(clock) = rate {
            self.head(&format!("[{table}.slots]"));
            self.fields(&CLOCK, clock);
        }
    }

    fn loss_tables(&mut self, table: &str, loss: &LossModel) {
        if let Some(burst) = &loss.burst {
            self.burst(table, burst);
        }
        if let Some(slots) = &loss.slots {
            self.head(&format!("[{table}.slot_loss]"));
            self.slots(slots);
        }
    }

    fn slots(&mut self, slots: &SlotLoss) {
        match &slots.matrix {
            None => {
                self.text("file", &slots.path);
                self.fields(&SLOT, slots);
            }
            Some(row) => {
                self.text("matrix", &slots.path);
                if let Some((from, to)) = &row.pair {
                    self.text("from", from);
                    self.text("to", to);
                }
            }
        }
        self.fields(&SLOTS, slots);
    }

    fn burst(&mut self, table: &str, burst: &GilbertElliott) {
        self.head(&format!("[{table}.burst_loss]"));
        match burst.change {
            StateChange::PerPacket { to_bad, to_good } => {
                self.pair("to_bad", to_bad);
                self.pair("to_good", to_good);
            }
            StateChange::OverTime { good, bad } => {
                self.pair("good_ms", millis(good));
                self.pair("bad_ms", millis(bad));
            }
        }
        self.fields(&BURST, burst);
    }

    fn outages(&mut self, table: &str, outages: &[Outage]) {
        for outage in outages {
            self.head(&format!("[[{table}.outage]]"));
            self.pair("start_s", seconds(outage.start.since(Instant::ZERO)));
            self.pair("seconds", seconds(outage.duration));
            match outage.mode {
                OutageMode::Drop => self.text("mode", "drop"),
                OutageMode::Hold { queue } => {
                    self.text("mode", "hold");
                    if let Some(limit) = queue {
                        self.queue(&limit);
                    }
                }
            }
        }
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e9
}

fn list(names: &[&String]) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    format!("[{}]", names.join(", "))
}

/// Writes a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
