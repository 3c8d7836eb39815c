//! Structured log lines on standard error: text for people, JSON for machines.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;

use crate::config::LogConfig;

/// Starts logging; standard output stays free for what commands print.
pub(crate) fn start(config: &LogConfig) {
    let lines = fmt()
        .with_max_level(LevelFilter::from_level(config.level))
        .with_writer(std::io::stderr)
        // A full disk costs lines, not the flight: an error about an error would end the daemon.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(false);
    // The journal adds the time itself.
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    match (config.json, journal) {
        (true, true) => lines.json().flatten_event(true).without_time().init(),
        (true, false) => lines.json().flatten_event(true).init(),
        (false, true) => lines.without_time().init(),
        (false, false) => lines.init(),
    }
}
