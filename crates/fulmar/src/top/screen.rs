//! What is drawn, from the top: who there is, what is wrong, the peers, the chosen one's paths and
//! traffic, events.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row as TableRow, Sparkline, Table};

use super::Choice;
use crate::status::{PathReport, PeerReport, milliseconds, parts, rate, vehicle_words};
use crate::watch::{BUCKET, History, Rank, Row, Seen, key};

/// How many things that are wrong are told, each in as many lines as it takes.
const WRONG_LINES: usize = 3;
/// Lines of a path: its figures, what is wrong with it, of one line where that suffices, and the
/// pictures.
const PATH_LINES: u16 = 3;
/// The least top of a picture of delays, in tenths of a millisecond, and of losses, in percent.
const LEAST_DELAY: u64 = 200;
const LEAST_LOSS: u64 = 10;

/// Draws everything; where the chosen peer is gone, the first one is shown.
pub(super) fn draw(frame: &mut Frame<'_>, daemons: &BTreeMap<String, Seen>, choice: &Choice) {
    let area = frame.area();
    let (peers, chosen) = choice.peers(daemons);
    let wrong = wrong_lines(daemons, area.width);
    let listed = list_height(area.height, peers.len());
    let path_lines = peers
        .get(chosen)
        .map_or(0, |row| row.peer.paths.iter().map(|path| path_height(path, area.width)).sum());
    let class_lines = peers.get(chosen).map_or(0, |row| {
        let used = row.peer.classes.iter().filter(|class| class.submitted + class.delivered > 0);
        let used = used.count() as u16;
        if used > 0 { used + 1 } else { 0 }
    });
    let vehicle_lines = peers.get(chosen).map_or(0, |row| row.peer.vehicles.len() as u16);
    let [head, troubles, list, vehicles, paths, classes, events, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(wrong.len() as u16),
        Constraint::Length(listed),
        Constraint::Max(vehicle_lines),
        Constraint::Max(path_lines),
        Constraint::Max(class_lines),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Line::styled(heading(daemons), bold()), head);
    frame.render_widget(Paragraph::new(wrong), troubles);
    draw_peers(frame, list, &peers, chosen);
    if let Some(row) = peers.get(chosen) {
        let lines = row.peer.vehicles.iter().map(|vehicle| Line::raw(vehicle_words(vehicle)));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), vehicles);
        draw_paths(frame, paths, row);
        draw_classes(frame, classes, row.peer);
    }
    draw_events(frame, events, daemons);
    frame.render_widget(footer(choice), foot);
}

/// A list of peers takes a third of the screen at most, and one line where there is but one.
fn list_height(height: u16, peers: usize) -> u16 {
    let most = (height / 3).max(2);
    (peers as u16).saturating_add(1).min(most)
}

fn heading(daemons: &BTreeMap<String, Seen>) -> String {
    let of = |(name, seen): (&String, &Seen)| match &seen.report {
        Some(report) => {
            let connected = report.peers.iter().filter(|peer| peer.connected).count();
            let all = report.peers.len();
            format!("{name}: {} {}, {connected} of {all} connected", report.role, report.version)
        }
        None => format!("{name}: does not answer"),
    };
    format!("fulmar  {}", daemons.iter().map(of).collect::<Vec<_>>().join("  "))
}

/// Breaks a line that is longer than the screen is wide between its words.
fn broken(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    parts(text, width.into()).into_iter().map(|part| Line::styled(part, style)).collect()
}

/// A path has as many lines as it takes to say what is wrong with it.
fn path_height(path: &PathReport, width: u16) -> u16 {
    PATH_LINES - 1 + parts(&trouble_text(path), width.into()).len() as u16
}

fn trouble_text(path: &PathReport) -> String {
    format!("  {}", path.trouble)
}

/// Says what is wrong, the worst first, each whole.
fn wrong_lines(daemons: &BTreeMap<String, Seen>, width: u16) -> Vec<Line<'static>> {
    let mut told: Vec<(String, Style)> = daemons
        .values()
        .filter(|seen| !seen.trouble.is_empty())
        .map(|seen| (format!("✖ {}", seen.trouble), style(Rank::Lost)))
        .collect();
    let rows = crate::watch::rows(daemons);
    for row in rows.iter().filter(|row| row.rank < Rank::Notice) {
        let text = format!("{} {}: {}", mark(row.rank), row.peer.name, row.reason());
        told.push((text, style(row.rank)));
    }
    if told.len() > WRONG_LINES {
        let more = told.len() - (WRONG_LINES - 1);
        told.truncate(WRONG_LINES - 1);
        told.push((format!("  and {more} more"), style(Rank::Warning)));
    }
    let mut lines: Vec<_> =
        told.into_iter().flat_map(|(text, style)| broken(&text, width, style)).collect();
    if lines.is_empty() && !rows.is_empty() {
        lines.push(Line::styled("✔ nothing is wrong", style(Rank::Well)));
    }
    lines
}

fn draw_peers(frame: &mut Frame<'_>, area: Rect, peers: &[Row<'_>], chosen: usize) {
    let room = area.height.saturating_sub(1) as usize;
    // The chosen one is always in sight.
    let first = (chosen + 1).saturating_sub(room);
    let mut lines = vec![Line::styled(format!("peers ({})", peers.len()), bold())];
    for (place, row) in peers.iter().enumerate().skip(first).take(room) {
        let pointer = if place == chosen { "▸" } else { " " };
        let paths: Vec<String> = row.peer.paths.iter().map(brief).collect();
        let name = format!("{pointer} {} {:<16} ", mark(row.rank), row.peer.name);
        let name_style = if place == chosen {
            style(row.rank).add_modifier(Modifier::BOLD)
        } else {
            style(row.rank)
        };
        lines.push(Line::from(vec![Span::styled(name, name_style), Span::raw(paths.join("  "))]));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Shows a path in two words.
fn brief(path: &PathReport) -> String {
    match path.state.as_str() {
        "active" => format!("{} {}", path.name, path.srtt_ms.map_or("–".into(), milliseconds)),
        state => format!("{} {state}", path.name),
    }
}

fn draw_paths(frame: &mut Frame<'_>, area: Rect, row: &Row<'_>) {
    let mut top = area.y;
    for path in &row.peer.paths {
        let height = path_height(path, area.width);
        if top + height > area.bottom() {
            break;
        }
        let part = Rect { y: top, height, ..area };
        draw_path(frame, part, path, row.seen.histories.get(&key(row.peer, path)));
        top += height;
    }
}

fn draw_path(frame: &mut Frame<'_>, area: Rect, path: &PathReport, history: Option<&History>) {
    let works = path.state == "active";
    let figures = format!(
        "  rtt {}  loss {:.0} % out, {:.0} % in  out {}  in {}",
        path.srtt_ms.filter(|_| works).map_or("–".into(), milliseconds),
        path.loss_percent,
        path.loss_in_percent,
        rate(path.out_mbps),
        rate(path.in_mbps),
    );
    let rank = if works { Rank::Well } else { Rank::Lost };
    let by_tcp = if path.carrier == "tcp" { " by tcp" } else { "" };
    let name = format!("{}{by_tcp} {}", path.name, path.state);
    let first = Line::from(vec![Span::styled(name, style(rank)), Span::raw(figures)]);
    let trouble = broken(&trouble_text(path), area.width, style(Rank::Warning));
    let [first_area, trouble_area, picture] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(area);
    frame.render_widget(first, first_area);
    frame.render_widget(Paragraph::new(trouble), trouble_area);
    let [delay_word, delay, loss_word, loss] = Layout::horizontal([
        Constraint::Length(8),
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Fill(1),
    ])
    .areas(picture);
    frame.render_widget(Line::raw("  delay "), delay_word);
    frame.render_widget(Line::raw(" loss "), loss_word);
    let tenths = |ms: f64| (ms * 10.0) as u64;
    let Some(history) = history else { return };
    let delays = newest(history, delay.width, |history| {
        history.buckets().map(|bucket| bucket.delay_ms().map(tenths)).collect()
    });
    let losses = newest(history, loss.width, |history| {
        history.buckets().map(|bucket| bucket.loss_percent().map(u64::from)).collect()
    });
    draw_spark(frame, delay, delays, LEAST_DELAY, Color::Cyan);
    draw_spark(frame, loss, losses, LEAST_LOSS, Color::Red);
}

/// Returns as many of the newest figures as there are columns.
fn newest(
    history: &History,
    columns: u16,
    figures: impl Fn(&History) -> Vec<Option<u64>>,
) -> Vec<Option<u64>> {
    let mut figures = figures(history);
    figures.drain(..figures.len().saturating_sub(columns as usize));
    figures
}

fn draw_spark(
    frame: &mut Frame<'_>,
    area: Rect,
    figures: Vec<Option<u64>>,
    least: u64,
    colour: Color,
) {
    let top = figures.iter().flatten().copied().max().unwrap_or(0).max(least);
    let picture = Sparkline::default()
        .data(figures)
        .max(top)
        .absent_value_symbol("·")
        .style(Style::new().fg(colour));
    frame.render_widget(picture, area);
}

fn draw_classes(frame: &mut Frame<'_>, area: Rect, peer: &PeerReport) {
    let delay = |value: Option<f64>| value.map_or("–".into(), milliseconds);
    let used = peer.classes.iter().filter(|class| class.submitted + class.delivered > 0);
    let rows = used.map(|class| {
        TableRow::new([
            class.class.clone(),
            class.submitted.to_string(),
            class.dropped.to_string(),
            class.delivered.to_string(),
            class.late.to_string(),
            delay(class.delay_p50_ms),
            delay(class.delay_p99_ms),
        ])
    });
    let head = ["class", "sent", "dropped", "received", "late", "median", "99 %"];
    let widths = [11, 11, 9, 11, 8, 9, 9].map(Constraint::Length);
    frame.render_widget(Table::new(rows, widths).header(TableRow::new(head).style(bold())), area);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, daemons: &BTreeMap<String, Seen>) {
    let room = area.height.saturating_sub(1) as usize;
    let mut events: Vec<_> =
        daemons.values().flat_map(|seen| seen.events.iter().rev().take(room)).collect();
    events.sort_by(|one, other| other.time.cmp(&one.time).then(other.seq.cmp(&one.seq)));
    let mut lines = vec![Line::styled("events (times in UTC)", bold())];
    for event in events.into_iter().take(room) {
        let is_warning = event.level == "warning";
        let rank = if is_warning { Rank::Warning } else { Rank::Away };
        let names = [event.peer.as_str(), event.path.as_str()];
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        // Of 2026-11-24T15:18:57.123Z, the time.
        let time = event.time.get(11..19).unwrap_or_default();
        let text = format!("{time} {} {}", names.join(" "), event.text);
        lines.push(Line::styled(text, style(rank)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn footer(choice: &Choice) -> Line<'static> {
    let minutes = BUCKET.as_secs();
    if choice.is_typing {
        return Line::styled(format!("/{}▏ Enter keeps, Esc ends", choice.filter), bold());
    }
    let filter = match choice.filter.as_str() {
        "" => String::new(),
        filter => format!("  only “{filter}” (Esc: all)"),
    };
    let keys = format!("q quit  ↑↓ choose  / filter  one column of a picture: {minutes} s{filter}");
    Line::styled(keys, Style::new().add_modifier(Modifier::DIM))
}

fn mark(rank: Rank) -> &'static str {
    match rank {
        Rank::Lost => "✖",
        Rank::Warning => "▲",
        Rank::Notice => "●",
        Rank::Well => "✔",
        Rank::Away => "○",
    }
}

fn style(rank: Rank) -> Style {
    match rank {
        Rank::Lost => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Rank::Warning | Rank::Notice => Style::new().fg(Color::Yellow),
        Rank::Well => Style::new().fg(Color::Green),
        Rank::Away => Style::new(),
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::status::{ClassReport, Report, VehicleReport};

    fn station(count: usize) -> BTreeMap<String, Seen> {
        let path = |name: &str, state: &str| PathReport {
            name: name.into(),
            state: state.into(),
            srtt_ms: Some(23.4),
            ..PathReport::default()
        };
        let mut peers: Vec<PeerReport> = (0..count)
            .map(|number| PeerReport {
                name: format!("drone-{number}"),
                connected: true,
                paths: vec![path("wlan0", "active"), path("wwan0", "active")],
                classes: vec![ClassReport {
                    class: "control".into(),
                    submitted: 5,
                    ..ClassReport::default()
                }],
                ..PeerReport::default()
            })
            .collect();
        let last = peers.last_mut().unwrap();
        last.trouble = "only one path works: nothing is left if it fails".into();
        last.vehicles = vec![VehicleReport { system: 3, mode: "RTL".into(), ..Default::default() }];
        last.paths[0].state = "suspected".into();
        last.paths[0].trouble = "silent for 4.2 s: dead or out of range".into();
        let mut histories = BTreeMap::new();
        for path in &last.paths {
            let history: &mut History = histories.entry(key(last, path)).or_default();
            (0..90).for_each(|second| history.add(Duration::from_secs(second), path));
        }
        let report = Report { role: "station".into(), peers, ..Report::default() };
        let seen = Seen { report: Some(Arc::new(report)), histories, ..Seen::default() };
        [("station".into(), seen)].into()
    }

    fn shown(daemons: &BTreeMap<String, Seen>, choice: &Choice, size: (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| draw(frame, daemons, choice)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn at_80_by_24_what_is_wrong_its_paths_and_its_traffic_are_in_sight() {
        let text = shown(&station(30), &Choice::default(), (80, 24));
        for told in [
            "▲ drone-29: only one path works",
            "▸ ▲ drone-29",
            "vehicle 3: RTL, disarmed",
            "wlan0 suspected",
            "silent for 4.2 s",
            "wwan0 active  rtt 23 ms",
            "delay",
            "control",
            "q quit",
        ] {
            assert!(text.contains(told), "{told}\n{text}");
        }
        assert!(text.contains('▁') || text.contains('█'), "a picture\n{text}");
    }

    #[test]
    fn no_size_and_no_number_of_peers_is_too_much() {
        for size in [(1, 1), (5, 3), (20, 8), (80, 24), (300, 100)] {
            shown(&BTreeMap::new(), &Choice::default(), size);
            shown(&[("gone".into(), Seen::default())].into(), &Choice::default(), size);
            shown(&station(1), &Choice::default(), size);
            shown(&station(1_000), &Choice::default(), size);
        }
    }

    #[test]
    fn keys_choose_filter_and_end() {
        let daemons = station(30);
        let mut choice = Choice::default();
        let mut press = |code| choice.take(KeyEvent::new(code, KeyModifiers::NONE), &daemons);
        assert!(!press(KeyCode::Down) && !press(KeyCode::Down) && !press(KeyCode::Up));
        assert_eq!(choice.id.as_deref(), Some("station/drone-0"));
        let mut press = |code| choice.take(KeyEvent::new(code, KeyModifiers::NONE), &daemons);
        ['/', 'q', '2'].into_iter().for_each(|typed| assert!(!press(KeyCode::Char(typed))));
        press(KeyCode::Backspace);
        press(KeyCode::Backspace);
        ['E', '-', '2', '7'].into_iter().for_each(|typed| assert!(!press(KeyCode::Char(typed))));
        press(KeyCode::Enter);
        assert_eq!(choice.filter, "e-27");
        assert!(shown(&daemons, &choice, (80, 24)).contains("▸ ✔ drone-27"));
        let mut press = |code| choice.take(KeyEvent::new(code, KeyModifiers::NONE), &daemons);
        assert!(!press(KeyCode::Esc) && press(KeyCode::Char('q')));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(Choice::default().take(interrupt, &daemons));
    }
}
