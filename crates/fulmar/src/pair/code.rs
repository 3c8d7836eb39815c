//! The code that a station shows and a drone is given: the station's public key and addresses, and
//! a secret.
//!
//! ```text
//! FULMAR1 ‖ Bech32m(version ‖ public key ‖ secret ‖ count ‖ addresses)
//! ```
//!
//! Its alphabet has no characters that look alike, capitals are as good as small letters, and its
//! checksum finds every mistyped character (Bech32m, of Bitcoin's BIP-350).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32m, Hrp};
use proto::{Guest, PublicKey};
use zeroize::Zeroizing;

use crate::config::{Remote, is_of_one_host};

/// What every code begins with.
const PREFIX: &str = "FULMAR";
/// Characters of a code: every other one is a mistake.
const ALPHABET: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";
/// The form of what is in a code.
const VERSION: u8 = 1;
/// Addresses that a code has room for: more make it too long for a telephone's camera.
pub(super) const ADDRESSES: usize = 4;
/// The longest text that can be a code, with all that stands between its characters.
const LONGEST: usize = 8_192;
/// Characters between two blanks, for people who read a code out.
const GROUP: usize = 5;
/// Groups of a line.
const LINE: usize = 10;
/// The most lines that a code is looked for in: more than one with the longest addresses takes.
const LINES: usize = 64;

/// Before an address: what it is.
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const NAME: u8 = 1;

/// A pairing code.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) station: PublicKey,
    pub(crate) secret: Zeroizing<[u8; 16]>,
    /// Where the station may be found; one at least.
    pub(crate) addresses: Vec<Remote>,
}

impl Code {
    /// Returns who a drone with this code is while it is paired.
    pub(crate) fn guest(&self) -> Guest {
        Guest::of_code(&self.secret, &self.station)
    }

    /// Writes the code in one piece.
    ///
    /// # Errors
    /// Where the addresses are longer than a code may be.
    pub(crate) fn text(&self) -> Result<Zeroizing<String>, String> {
        let mut bytes = Zeroizing::new(vec![VERSION]);
        bytes.extend(self.station.0);
        bytes.extend(*self.secret);
        bytes.push(self.addresses.len() as u8);
        for address in &self.addresses {
            match address {
                Remote::Address(SocketAddr::V4(at)) => {
                    bytes.push(IPV4);
                    bytes.extend(at.ip().octets());
                }
                Remote::Address(SocketAddr::V6(at)) => {
                    bytes.push(IPV6);
                    bytes.extend(at.ip().octets());
                }
                Remote::Name(host, _) => {
                    bytes.extend([NAME, host.len() as u8]);
                    bytes.extend(host.bytes());
                }
            }
            bytes.extend(address.port().to_be_bytes());
        }
        let text = bech32::encode_upper::<Bech32m>(Hrp::parse_unchecked(PREFIX), &bytes);
        text.map(Zeroizing::new).map_err(|_| "the addresses are too long for a code".into())
    }

    /// Reads the code in a text that may have more in it: what people write above it, and what
    /// `fulmar pair` says below it where its output was saved.
    ///
    /// # Errors
    /// As [`Code::read`].
    pub(crate) fn find(text: &str) -> Result<Self, String> {
        let begins =
            |line: &str| plain(line).strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('1'));
        let lines: Vec<&str> = text.lines().skip_while(|line| !begins(line)).collect();
        let found = (1..=lines.len().min(LINES)).find_map(|count| {
            let plain = plain(&lines[..count].concat());
            is_whole(&plain).then(|| Self::read(&plain))
        });
        // Where none is whole, what is there tells which place is wrong.
        let rest = Zeroizing::new(lines.join("\n"));
        found.unwrap_or_else(|| Self::read(if lines.is_empty() { text } else { &rest }))
    }

    /// Reads a code, whatever stands between its characters.
    ///
    /// # Errors
    /// Say what is wrong, and where, in words that follow "the code".
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err("is too long: no code has so many characters".into());
        }
        let plain = plain(text);
        let Some(body) = plain.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('1')) else {
            return Err(format!("does not begin with {PREFIX}1: is its beginning missing?"));
        };
        let odd = body.chars().position(|c| !ALPHABET.contains(c));
        if let Some(at) = odd {
            let c = body.chars().nth(at).unwrap_or_default().escape_debug();
            let place = place(PREFIX.len() + 1 + at);
            return Err(format!("has \"{c}\" in {place}: no code has B, I, O, 1 or signs there"));
        }
        let checked = CheckedHrpstring::new::<Bech32m>(&plain).map_err(|_| mistyped(&plain))?;
        let bytes = Zeroizing::new(checked.byte_iter().collect::<Vec<u8>>());
        Self::of_bytes(&bytes).ok_or_else(|| "is of another version of Fulmar".into())
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let [VERSION] = *take::<1>(&mut rest)? else { return None };
        let station = PublicKey(*take::<32>(&mut rest)?);
        let secret = Zeroizing::new(*take::<16>(&mut rest)?);
        let [count] = *take::<1>(&mut rest)?;
        let addresses: Option<Vec<Remote>> = (0..count).map(|_| address(&mut rest)).collect();
        let addresses = addresses.filter(|all| (1..=ADDRESSES).contains(&all.len()))?;
        (rest.is_empty() && !station.is_weak()).then_some(Self { station, secret, addresses })
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({} at {:?})", self.station, self.addresses)
    }
}

/// Puts blanks between the characters of a code, and ends of lines.
pub(super) fn grouped(text: &str) -> Zeroizing<String> {
    let mut shown = Zeroizing::new(String::with_capacity(2 * text.len()));
    for (at, c) in text.chars().enumerate() {
        if at > 0 && at % (GROUP * LINE) == 0 {
            shown.push('\n');
        } else if at > 0 && at % GROUP == 0 {
            shown.push(' ');
        }
        shown.push(c);
    }
    shown
}

/// Returns the characters of a code without what stands between them.
fn plain(text: &str) -> Zeroizing<String> {
    let is_between = |c: char| c.is_whitespace() || c == '-';
    let plain = text.chars().filter(|c| !is_between(*c)).map(|c| c.to_ascii_uppercase());
    Zeroizing::new(plain.collect())
}

/// Tells whether that is a code to its last character.
fn is_whole(plain: &str) -> bool {
    CheckedHrpstring::new::<Bech32m>(plain).is_ok()
}

/// Names the place of a character for somebody who has the code in groups before them.
fn place(at: usize) -> String {
    format!("group {} of line {}", at / GROUP % LINE + 1, at / (GROUP * LINE) + 1)
}

/// Says where a code is mistyped, if it is in one place, or else that it is.
fn mistyped(plain: &str) -> String {
    let body = PREFIX.len() + 1;
    for at in body..plain.len() {
        for letter in ALPHABET.chars() {
            let mut right = Zeroizing::new(plain.to_owned());
            right.replace_range(at..=at, letter.encode_utf8(&mut [0; 4]));
            if CheckedHrpstring::new::<Bech32m>(&right).is_ok() {
                let first = at / GROUP * GROUP;
                let group = |text: &str| text.chars().skip(first).take(GROUP).collect::<String>();
                let (is, would) = (group(plain), group(&right));
                return format!(
                    "is mistyped in {}: {is}, which would be right as {would}",
                    place(at)
                );
            }
        }
    }
    "is mistyped, or not whole: its checksum is wrong".into()
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

fn address(rest: &mut &[u8]) -> Option<Remote> {
    let [kind] = *take::<1>(rest)?;
    let ip: IpAddr = match kind {
        IPV4 => (*take::<4>(rest)?).into(),
        IPV6 => (*take::<16>(rest)?).into(),
        NAME => {
            let [length] = *take::<1>(rest)?;
            let (name, left) = rest.split_at_checked(length.into())?;
            *rest = left;
            let name = std::str::from_utf8(name).ok()?;
            let port = u16::from_be_bytes(*take::<2>(rest)?);
            let remote = format!("{name}:{port}").parse().ok()?;
            return matches!(remote, Remote::Name(..) if port != 0).then_some(remote);
        }
        _ => return None,
    };
    let port = u16::from_be_bytes(*take::<2>(rest)?);
    (port != 0 && !ip.is_unspecified() && is_of_one_host(ip))
        .then(|| Remote::Address((ip, port).into()))
}

#[cfg(test)]
pub(super) mod tests {
    use proto::StaticSecret;

    use super::*;

    pub(in crate::pair) fn code(addresses: &[&str]) -> Code {
        Code {
            station: StaticSecret::generate([7; 32]).public(),
            secret: Zeroizing::new([9; 16]),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn a_code_is_read_back_however_it_is_written() {
        let all = ["192.0.2.1:14700", "[2001:db8::5]:1", "station.example.org:65535"];
        for addresses in [&all[..1], &all[1..2], &all[2..], &all[..]] {
            let code = code(addresses);
            let text = code.text().unwrap();
            assert_eq!(Code::read(&text).as_ref(), Ok(&code));
            assert_eq!(Code::read(&grouped(&text)).as_ref(), Ok(&code));
            let odd = format!("  {}\r\n", text.to_lowercase().replace("q", "q-"));
            assert_eq!(Code::read(&odd).as_ref(), Ok(&code));
        }
        assert!(!format!("{:?}", code(&all)).contains("9, 9"), "its secret does not print");
    }

    #[test]
    fn every_mistyped_character_is_found_and_its_group_is_told() {
        let text = code(&["192.0.2.1:14700"]).text().unwrap();
        for at in 7..text.len() {
            let other = if text.as_bytes()[at] == b'Q' { "P" } else { "Q" };
            let mut wrong = text.to_string();
            wrong.replace_range(at..=at, other);
            let error = Code::read(&wrong).unwrap_err();
            assert!(error.starts_with(&format!("is mistyped in {}", place(at))), "{error}");
        }
        let odd = text.replacen(&text[12..13], "O", 1);
        assert!(Code::read(&odd).unwrap_err().contains("has \"O\" in group"));
        for nonsense in ["", "FULMAR", "FULMAR1", "hello", &text[..60], &"FULMAR1Q".repeat(2_000)] {
            assert!(Code::read(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_code_is_found_in_what_pair_printed_when_its_output_was_saved() {
        let code = code(&["192.0.2.1:14700", "station.example.org:65535"]);
        let text = code.text().unwrap();
        let shown = grouped(&text);
        let said = "\
on the drone: fulmar pair CODE, with what is above; valid for 10 minutes, once. Ctrl-C ends it
2026-11-25 12:00:00 a drone comes from 192.0.2.9:40000
2026-11-25 12:00:01 alpha is enrolled, from 192.0.2.9:40000; its key is AAAA=
  in the tunnel: 10.77.0.2";
        for around in [
            format!("{}\n{said}\n", *shown),
            format!("# alpha\n{}\n\n{said}", *shown),
            format!("The code for alpha:\n\n  {}\n", shown.to_lowercase()),
            format!("{}\r\n{said}", *text),
        ] {
            assert_eq!(Code::find(&around).as_ref(), Ok(&code), "{around}");
        }
        // A mistake is told as without the rest.
        let mut wrong = shown.to_string();
        wrong.replace_range(12..13, if &shown[12..13] == "Q" { "P" } else { "Q" });
        let error = Code::find(&wrong).unwrap_err();
        assert!(error.starts_with("is mistyped in group 3 of line 1"), "{error}");
        assert!(Code::find(&format!("{wrong}\n{said}")).is_err());
        let odd = Code::find("# alpha\nhello\n").unwrap_err();
        assert!(odd.starts_with("does not begin with FULMAR1"), "{odd}");
        assert!(Code::find("").is_err());
    }

    #[test]
    fn what_no_station_writes_is_refused() {
        let good = code(&["192.0.2.1:14700"]);
        let bytes = |change: &dyn Fn(&mut Vec<u8>)| {
            let checked = good.text().unwrap();
            let checked = CheckedHrpstring::new::<Bech32m>(&checked).unwrap();
            let mut bytes = checked.byte_iter().collect();
            change(&mut bytes);
            bytes
        };
        assert!(Code::of_bytes(&bytes(&|_| {})).is_some());
        type Change<'c> = &'c dyn Fn(&mut Vec<u8>);
        let changes: [Change<'_>; 10] = [
            &|bytes| bytes[0] = 2,
            &|bytes| bytes[1..33].fill(0),
            &|bytes| bytes[49] = 0,
            &|bytes| bytes[49] = 2,
            &|bytes| bytes[50] = 9,
            &|bytes| bytes.push(0),
            &|bytes| bytes.truncate(56),
            &|bytes| bytes[55..57].fill(0),
            &|bytes| bytes[51..55].copy_from_slice(&[224, 0, 0, 5]),
            &|bytes| bytes[51..55].fill(255),
        ];
        for (number, change) in changes.iter().enumerate() {
            assert!(Code::of_bytes(&bytes(change)).is_none(), "change {number}");
        }
    }
}
