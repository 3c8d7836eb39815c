//! The arguments of `fulmar pair`.

use std::path::PathBuf;

use clap::Args;
use proto::Duration;

use crate::config::Remote;

/// The headings of its help.
const STATION: &str = "At the station";
const DRONE: &str = "On the drone";

/// What `fulmar pair --help` ends with.
pub(crate) const LONG: &str = "\
Both ends need a file with role and private_key_file (fulmar keygen), the station also a [[listen]], and its daemon
running; neither needs a [[peer]].

  station$ sudo fulmar pair                      shows a code and its QR symbol, and waits
  drone$   sudo fulmar pair FULMAR1...           blanks and small letters do not matter
  drone$   sudo fulmar pair --picture photo.jpg  a picture of the symbol
  drone$   sudo fulmar pair --file code.txt      the text, on a stick
  station$ ssh drone sudo fulmar pair - < code.txt

Each file gets the other's key, a secret that only these two share, a name, addresses in the tunnel where the station
has one, and on the drone a [[path]] for each link that reached the station. Comments stay. The daemons take it over.

  station$ sudo fulmar pair --list names.txt --out codes     a code for each name, in codes/NAME.txt and .png
  station$ sudo fulmar pair --address station.example.org:14700

A code is a key until it is used: whoever has it first is enrolled. It counts once, and the station says by whom it
was used; fulmar peers lists and removes. docs/pairing.md has the rest.";

/// What to pair, and how.
#[derive(Debug, Default, Args)]
pub(crate) struct PairArguments {
    /// The station's code, whole or in groups; - reads it from standard input.
    #[arg(value_name = "CODE", help_heading = DRONE)]
    pub(super) code: Vec<String>,
    /// Read the code from a text file.
    #[arg(long, value_name = "FILE", help_heading = DRONE, conflicts_with = "code")]
    pub(super) file: Option<PathBuf>,
    /// Read the code from a picture of its QR symbol, PNG or JPEG.
    #[arg(long, value_name = "FILE", help_heading = DRONE, conflicts_with_all = ["code", "file"])]
    pub(super) picture: Option<PathBuf>,
    /// Take no address in the tunnel.
    #[arg(long, help_heading = DRONE)]
    pub(super) no_tunnel: bool,
    /// Look for the station for so long; 2m without it.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = DRONE)]
    pub(super) wait: Option<Duration>,

    /// Where drones find this station, up to four, such as station.example.org:14700; without it
    /// the addresses of this host's interfaces.
    #[arg(long, value_name = "ADDRESS", value_parser = remote, help_heading = STATION)]
    pub(super) address: Vec<Remote>,
    /// How long the code is valid, 24h at most; 10m without it, 4h for a list.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = STATION)]
    pub(super) valid: Option<Duration>,
    /// Draw the QR symbol into this PNG file, too.
    #[arg(long, value_name = "FILE", help_heading = STATION, conflicts_with = "list")]
    pub(super) png: Option<PathBuf>,
    /// Draw the QR symbol into this SVG file, too.
    #[arg(long, value_name = "FILE", help_heading = STATION, conflicts_with = "list")]
    pub(super) svg: Option<PathBuf>,
    /// Make a code for each name in this file, one on a line; # begins a comment.
    #[arg(long, value_name = "FILE", help_heading = STATION, conflicts_with = "name")]
    pub(super) list: Option<PathBuf>,
    /// Write the list's codes into this folder, as NAME.txt and NAME.png, instead of printing them.
    #[arg(long, value_name = "FOLDER", help_heading = STATION, requires = "list")]
    pub(super) out: Option<PathBuf>,
    /// Stay until the time is over, and tell who tries a used code.
    #[arg(long, help_heading = STATION)]
    pub(super) stay: bool,

    /// The name of the drone; without it that of its host.
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Let a new drone take the place of the peer of that name; on the drone, let a new station
    /// take the old one's.
    #[arg(long)]
    pub(super) replace: bool,
    /// The configuration; without it /etc/fulmar/station.toml or drone.toml.
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print JSON: at the station an object on a line for each event, on the drone one object.
    #[arg(long)]
    pub(super) json: bool,
}

impl PairArguments {
    /// Whether there is a code to be used, and none to be shown.
    pub(super) fn is_for_drone(&self) -> bool {
        !self.code.is_empty() || self.file.is_some() || self.picture.is_some()
    }

    /// Returns an argument that the other end has.
    pub(super) fn misplaced(&self) -> Option<&'static str> {
        let of_drone = [("--no-tunnel", self.no_tunnel), ("--wait", self.wait.is_some())];
        let of_station = [
            ("--address", !self.address.is_empty()),
            ("--valid", self.valid.is_some()),
            ("--png", self.png.is_some()),
            ("--svg", self.svg.is_some()),
            ("--list", self.list.is_some()),
            ("--stay", self.stay),
        ];
        let others = if self.is_for_drone() { &of_station[..] } else { &of_drone };
        others.iter().find(|(_, is_given)| *is_given).map(|(name, _)| *name)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err("a time has a unit: 90s, 10m or 4h".into()),
    };
    let seconds = digits.parse::<u32>().ok().map(|count| u64::from(count) * unit);
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "1s at least, and 24h at most".into())
}

fn remote(text: &str) -> Result<Remote, String> {
    let what =
        "an address or name with a port, such as 203.0.113.5:14700 or station.example.org:14700";
    let remote: Result<Remote, ()> = text.parse();
    let fits = |remote: &Remote| {
        remote.port() != 0 && remote.address().is_none_or(|at| !at.ip().is_unspecified())
    };
    remote.ok().filter(fits).ok_or_else(|| what.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_a_bound() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("24h"), Ok(Duration::from_secs(86_400)));
        for odd in ["", "10", "m", "0m", "25h", "1.5h", "-1s", "99999999999h", "10 m", "1d"] {
            assert!(duration(odd).is_err(), "{odd}");
        }
        for odd in ["", "a", "0.0.0.0:1", "192.0.2.1", "192.0.2.1:0"] {
            assert!(remote(odd).is_err(), "{odd}");
        }
    }
}
