//! Structured log lines on standard error: text for people, JSON for machines.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::config::LogConfig;

/// The log, whose level and format may change.
#[derive(Clone)]
pub(crate) struct Log {
    json: Arc<AtomicBool>,
    level: reload::Handle<LevelFilter, Registry>,
}

/// A line in one format or the other.
struct Line {
    json: Arc<AtomicBool>,
    /// The journal adds the time itself.
    timed: bool,
    text_format: Format<Full, SystemTime>,
    json_format: Format<Json, SystemTime>,
}

impl Log {
    /// Starts logging; standard output stays free for what commands print.
    pub(crate) fn start(config: &LogConfig) -> Self {
        let json = Arc::new(AtomicBool::new(config.json));
        let line = Line {
            json: Arc::clone(&json),
            timed: std::env::var_os("JOURNAL_STREAM").is_none(),
            text_format: Format::default().with_target(false).with_ansi(false),
            json_format: Format::default().with_target(false).json().flatten_event(true),
        };
        let (level, handle) = reload::Layer::new(LevelFilter::from_level(config.level));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            // A full disk costs lines, not the flight: an error about an error would end the
            // daemon.
            .log_internal_errors(false)
            .with_ansi(false)
            .event_format(line);
        tracing_subscriber::registry().with(level).with(lines).init();
        Self { json, level: handle }
    }

    /// Returns one that says nothing, for a daemon inside another program.
    pub(crate) fn silent() -> Self {
        let (_, level) = reload::Layer::new(LevelFilter::OFF);
        Self { json: Arc::default(), level }
    }

    /// Takes another level and format, for the lines that follow.
    pub(crate) fn set(&self, config: &LogConfig) {
        self.json.store(config.json, Ordering::Relaxed);
        // It fails where nothing is logged.
        let _ = self.level.reload(LevelFilter::from_level(config.level));
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match (self.json.load(Ordering::Relaxed), self.timed) {
            (true, true) => self.json_format.format_event(context, writer, event),
            (true, false) => {
                self.json_format.clone().without_time().format_event(context, writer, event)
            }
            (false, true) => self.text_format.format_event(context, writer, event),
            (false, false) => {
                self.text_format.clone().without_time().format_event(context, writer, event)
            }
        }
    }
}
