//! Schemes of anybody's: programs that `--scheme-command` starts at both hosts. After Pantheon,
//! whose schemes are commands too [Yan et al. 2018].
//!
//! ```text
//! NAME=COMMAND            at both hosts
//! NAME@drone=COMMAND      at the drone; NAME@station likewise. A name may have several
//!
//! {udp_in} {udp_out}      datagrams: where the program takes them, where it hands them over
//! {tcp_in} {tcp_out}      the drone's connection: where it is taken, where the station's is awaited
//! {tunnel}                a network interface that the program makes has this address
//! ```
//! Which of the three a scheme names is what it carries. How the programs are started, and what
//! they are handed, is `testbed/command.rs`; docs/your-own-scheme.md is for who writes one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;

use super::{About, Scheme};
use crate::testbed::links::Side;

/// The longest name, characters.
const NAME_MAX: usize = 24;
/// Placeholders of a link, which a number may follow: that of the first is 1, or none.
const OF_LINK: [&str; 3] = ["address", "peer", "interface"];
/// The others.
const WORDS: [&str; 9] =
    ["side", "port", "port2", "udp_in", "udp_out", "tcp_in", "tcp_out", "tunnel", "tunnel_peer"];

/// Why each scheme that failed did, by its name; of the run that is under way.
static FAILED: Mutex<BTreeMap<&'static str, String>> = Mutex::new(BTreeMap::new());

/// A command as it is given: whose it is, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemeCommand {
    pub(crate) name: String,
    /// The host that it runs at; none is both.
    side: Option<Side>,
    pub(crate) text: String,
}

/// A scheme that consists of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandScheme(&'static Plan);

#[derive(Debug, PartialEq, Eq)]
struct Plan {
    name: &'static str,
    carries: Carries,
    commands: Vec<SchemeCommand>,
}

/// What programs are handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Datagrams, at a local port for each stream.
    Datagrams,
    /// Connections, at one local port.
    Connections,
    /// Packets, through an interface of theirs.
    Tunnel,
}

impl SchemeCommand {
    /// Reads `NAME[@SIDE]=COMMAND`.
    ///
    /// # Errors
    /// Says what of it is wrong.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let (whose, text) =
            text.split_once('=').ok_or("NAME=COMMAND, or NAME@drone=COMMAND and its like")?;
        let (name, side) = match whose.split_once('@') {
            None => (whose, None),
            Some((name, side)) => {
                let side = Side::BOTH.into_iter().find(|known| known.name() == side);
                (name, Some(side.ok_or("behind @ stands drone or station")?))
            }
        };
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_lowercase())
            || !name.chars().all(fits)
            || name.len() > NAME_MAX
        {
            return Err(format!(
                "{name:?}: a name has a to z, 0 to 9, _ and -, a letter first, {NAME_MAX} at most"
            ));
        }
        if Scheme::from_str(name, false).is_ok() {
            return Err(format!("{name}: the lab has a scheme of this name: take another"));
        }
        if text.trim().is_empty() {
            return Err(format!("{name}: the command is empty"));
        }
        let command = Self { name: name.to_owned(), side, text: text.to_owned() };
        command.filled(|word| is_known(word).then(String::new)).map(|_| command)
    }

    /// Returns the command with its placeholders filled in.
    ///
    /// # Errors
    /// Names a placeholder that nothing is known for.
    pub(crate) fn filled(&self, of: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let (mut filled, mut rest) = (String::new(), &self.text[..]);
        while let Some((before, behind)) = rest.split_once('{') {
            filled += before;
            let word = behind.split_once('}').filter(|(word, _)| is_word(word));
            match word {
                // A variable of the shell's is the shell's.
                Some((word, after)) if !before.ends_with('$') => {
                    filled += &of(word).ok_or_else(|| {
                        format!(
                            "{}: {{{word}}}: there is no such placeholder here; there are {}, and \
                             {} with the number of a link behind them where it is not the first",
                            self.name,
                            WORDS.join(", "),
                            OF_LINK.join(", ")
                        )
                    })?;
                    rest = after;
                }
                _ => {
                    filled.push('{');
                    rest = behind;
                }
            }
        }
        Ok(filled + rest)
    }

    /// Tells whether it runs at a host.
    pub(crate) fn is_at(&self, side: Side) -> bool {
        self.side.is_none_or(|own| own == side)
    }

    /// Tells whether it names a placeholder.
    pub(crate) fn names(&self, word: &str) -> bool {
        self.text.contains(&format!("{{{word}}}"))
    }
}

impl CommandScheme {
    /// Makes schemes of commands, in the order in which their names come.
    ///
    /// # Errors
    /// Names a scheme that has no command at a host, or to which nothing could be handed.
    pub(crate) fn of(commands: &[SchemeCommand]) -> Result<Vec<Self>, String> {
        let mut names: Vec<&str> = Vec::new();
        for command in commands.iter().filter(|command| !command.name.is_empty()) {
            if !names.contains(&&command.name[..]) {
                names.push(&command.name);
            }
        }
        let scheme = |name: &&str| {
            let own = commands.iter().filter(|command| command.name == **name);
            let commands: Vec<SchemeCommand> = own.cloned().collect();
            let carries = carries(&commands).map_err(|why| format!("{name}: {why}"))?;
            // Names of schemes are for ever; a program is told of few.
            let name = Box::leak((*name).to_owned().into_boxed_str());
            Ok(Self(Box::leak(Box::new(Plan { name, carries, commands }))))
        };
        names.iter().map(scheme).collect()
    }

    /// Returns how the scheme is named and explained.
    pub(crate) const fn about(self) -> About {
        About {
            name: self.0.name,
            meaning: "somebody's own, by its commands",
            help: "somebody's own, by its commands",
        }
    }

    /// Returns what its programs are handed.
    pub(crate) const fn carries(self) -> Carries {
        self.0.carries
    }

    /// Returns its commands at a host.
    pub(crate) fn commands(self, side: Side) -> impl Iterator<Item = &'static SchemeCommand> {
        self.0.commands.iter().filter(move |command| command.is_at(side))
    }

    /// Notes why it has failed; the first reason counts. From then on it is not started any more,
    /// and has no figures in this run.
    pub(crate) fn fail(self, why: String) {
        failed().entry(self.0.name).or_insert(why);
    }

    /// Notes it where what is sent is a TCP connection, and its programs take datagrams.
    pub(crate) fn ask_for_connections(self) {
        if self.carries() == Carries::Datagrams {
            self.fail(
                "what is sent is a TCP connection, and its commands take datagrams: {tcp_in} and \
                 {tcp_out}, or {tunnel}, take it"
                    .to_owned(),
            );
        }
    }

    /// Tells whether it has failed.
    pub(crate) fn has_failed(self) -> bool {
        failed().contains_key(self.0.name)
    }

    /// Returns why it has failed, where it has.
    pub(crate) fn failure(self) -> Option<String> {
        failed().get(self.0.name).cloned()
    }
}

/// Forgets which schemes have failed, and returns why each did.
pub(crate) fn take_failures() -> BTreeMap<&'static str, String> {
    std::mem::take(&mut *failed())
}

/// Takes a placeholder of a link apart: its word, and the link's place.
pub(crate) fn link_of(word: &str) -> Option<(&str, usize)> {
    let bare = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &word[bare.len()..];
    let place =
        if number.is_empty() { Some(0) } else { number.parse::<usize>().ok()?.checked_sub(1) };
    Some((bare, place?)).filter(|(bare, _)| OF_LINK.contains(bare))
}

fn failed() -> MutexGuard<'static, BTreeMap<&'static str, String>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Finds out what programs are handed, which their placeholders say.
fn carries(commands: &[SchemeCommand]) -> Result<Carries, String> {
    if let Some(side) =
        Side::BOTH.into_iter().find(|side| !commands.iter().any(|command| command.is_at(*side)))
    {
        return Err(format!("it has no command at the {}", side.name()));
    }
    let named = |words: &[&str]| {
        let names = |word: &&str| commands.iter().any(|command| command.names(word));
        (words.iter().all(names), words.iter().any(names))
    };
    let kinds = [
        (Carries::Datagrams, &["udp_in", "udp_out"][..]),
        (Carries::Connections, &["tcp_in", "tcp_out"]),
        (Carries::Tunnel, &["tunnel"]),
    ];
    let some: Vec<_> = kinds.iter().filter(|(_, words)| named(words).1).collect();
    match some[..] {
        [(carries, words)] if named(words).0 => Ok(*carries),
        [(_, words)] => Err(format!("of {} it names one alone", braced(words))),
        [] => Err(format!(
            "nothing could be handed to it: its commands name neither {}, nor {}, nor {}",
            braced(kinds[0].1),
            braced(kinds[1].1),
            braced(kinds[2].1)
        )),
        _ => Err("it takes datagrams, connections or a tunnel: its commands name several".into()),
    }
}

fn braced(words: &[&str]) -> String {
    let braced: Vec<String> = words.iter().map(|word| format!("{{{word}}}")).collect();
    braced.join(" and ")
}

/// Tells whether braces are around a placeholder, known or not, and not around something of a
/// shell's.
fn is_word(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(fits)
}

fn is_known(word: &str) -> bool {
    WORDS.contains(&word) || link_of(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Result<Vec<CommandScheme>, String> {
        let commands = texts.iter().map(|text| SchemeCommand::read(text));
        CommandScheme::of(&commands.collect::<Result<Vec<_>, String>>()?)
    }

    #[test]
    fn placeholders_say_what_a_scheme_carries() {
        let all = of(&[
            "srt@drone=srt udp://:{udp_in} srt://{peer}:{port}",
            "srt@station=srt srt://:{port} udp://127.0.0.1:{udp_out}",
            "own-2=./vpn {side} {tunnel}",
            "kcp@drone=client {tcp_in}",
            "kcp@station=server {tcp_out}",
        ])
        .expect("sound schemes");
        let told: Vec<_> = all.iter().map(|one| (one.about().name, one.carries())).collect();
        assert_eq!(
            told,
            [
                ("srt", Carries::Datagrams),
                ("own-2", Carries::Tunnel),
                ("kcp", Carries::Connections)
            ]
        );
        assert_eq!(
            (all[0].commands(Side::Drone).count(), all[1].commands(Side::Drone).count()),
            (1, 1)
        );
    }

    #[test]
    fn what_is_wrong_with_a_command_is_said() {
        for (texts, why) in [
            (&["srt"][..], "NAME=COMMAND"),
            (&["Srt=x {tunnel}"], "a name has"),
            (&["=x {tunnel}"], "a name has"),
            (&["udp=x {tunnel}"], "the lab has a scheme"),
            (&["a@ground=x {tunnel}"], "drone or station"),
            (&["a= "], "is empty"),
            (&["a=x {prot}"], "{prot}: there is no such placeholder"),
            (&["a=x {peer0}"], "{peer0}: there is no such placeholder"),
            (&["a@drone=x {tunnel}"], "no command at the station"),
            (&["a=x {peer}"], "nothing could be handed"),
            (&["a=x {udp_in}"], "one alone"),
            (&["a=x {tcp_in} {tcp_out} {tunnel}"], "name several"),
        ] {
            let said = of(texts).expect_err("it is wrong");
            assert!(said.contains(why), "{texts:?}: {said}");
        }
    }

    #[test]
    fn placeholders_are_filled_and_the_shells_braces_are_left() {
        let command = SchemeCommand::read("a=x {peer2} ${y} '{\"k\": 1}' {tunnel}").expect("sound");
        let filled = command.filled(|word| Some(word.to_uppercase()));
        assert_eq!(filled.as_deref(), Ok("x PEER2 ${y} '{\"k\": 1}' TUNNEL"));
        assert_eq!(
            (link_of("peer"), link_of("address3")),
            (Some(("peer", 0)), Some(("address", 2)))
        );
        assert_eq!((link_of("port"), link_of("peer0")), (None, None));
    }
}
