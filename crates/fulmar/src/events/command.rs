//! `fulmar events`: a line for each event, for people and scripts.

use std::path::{Path, PathBuf};

use clap::Args;
use proto::Duration;
use sys::print::{Reader, print, print_while_read, tell};

use super::{EVENTS, EventReport, Follower, socket_beside};
use crate::status::{columns, explain, fetch, find_socket, list};

/// How often a daemon that is gone is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
  fulmar events                               follow what happens
  fulmar events --all --json | jq -c 'select(.level == \"warning\")'
  fulmar events --json | while read -r event; do …; done

Without --all it begins with what happens next. A daemon keeps its newest 4,096 events; where earlier ones are missing, an \
event `lost` says how many. When the daemon ends, the command says so and waits for the next one; the field `run` tells them \
apart. It ends on Ctrl-C, and when nobody reads it any more.";

/// The arguments of `fulmar events`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "fulmar events --help has examples.")]
pub(crate) struct EventsArguments {
    /// The daemon's socket, that of `fulmar status`; needed where several daemons run on one host.
    #[arg(short, long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one JSON object on each line.
    #[arg(long)]
    json: bool,
    /// Begin with the events that the daemon has kept.
    #[arg(short, long)]
    all: bool,
    /// End with the last event that has happened: for a look back.
    #[arg(long, requires = "all")]
    no_follow: bool,
    /// List every field of --json and every event; asks no daemon.
    #[arg(long, conflicts_with_all = ["socket", "json", "all", "no_follow"])]
    fields: bool,
}

/// Prints events until interrupted, or until nobody reads them.
///
/// # Errors
/// When there is no daemon at first.
pub(crate) fn run(arguments: EventsArguments) -> Result<(), String> {
    if arguments.fields {
        return print(fields().trim_end());
    }
    let socket = arguments.socket.clone().map_or_else(find_socket, Ok)?;
    let now = fetch(&socket).map_err(|error| explain(&socket, &error))?;
    let place = socket_beside(&socket);
    let mut follower = Follower::connect(&socket).map_err(|error| explain(&place, &error))?;
    // Events before this number are not shown, and those after that one are not waited for.
    let mut begin = if arguments.all { 1 } else { now.events + 1 };
    let end = if arguments.no_follow { now.events } else { u64::MAX };
    let mut is_gone = false;
    loop {
        match follower.next().map_err(|error| explain(&place, &error))? {
            Some(event) => {
                is_gone = false;
                if event.seq >= begin
                    && print_while_read(shown(&event, arguments.json)?)? == Reader::Gone
                    || event.seq >= end
                {
                    return Ok(());
                }
            }
            None => {
                if !is_gone {
                    tell(format_args!(
                        "fulmar: {}: the daemon has ended, or too many follow it; waiting",
                        socket.display()
                    ));
                }
                (begin, is_gone) = (1, true);
                follower = wait_for(&socket);
            }
        }
    }
}

/// Lists the fields of an event and its words.
pub(crate) fn fields() -> String {
    let mut text = String::new();
    list(&mut text, "event", &EventReport::SECTION);
    text += "\nthe words of `event`\n";
    let rows: Vec<_> =
        EVENTS.iter().map(|(word, what)| vec![(*word).into(), (*what).into()]).collect();
    text + &columns(&rows)
}

fn wait_for(socket: &Path) -> Follower {
    loop {
        std::thread::sleep(LOOK_AGAIN.into());
        if let Ok(follower) = Follower::connect(socket) {
            return follower;
        }
    }
}

fn shown(event: &EventReport, json: bool) -> Result<String, String> {
    if json {
        return serde_json::to_string(event).map_err(|error| error.to_string());
    }
    let mark = if event.level == "warning" { "!" } else { " " };
    let about: Vec<&str> = [event.peer.as_str(), event.path.as_str()]
        .into_iter()
        .filter(|name| !name.is_empty())
        .collect();
    let about = if about.is_empty() { String::new() } else { format!("{}: ", about.join(" ")) };
    Ok(format!("{} {mark} {about}{}", event.time, event.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_events_are_those_that_there_are() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/watch.md");
        let text = std::fs::read_to_string(file).unwrap();
        assert!(
            text.contains(&fields()),
            "docs/watch.md: put in what `fulmar events --fields` prints"
        );
    }
}
