//! What a field of the report is besides its value: kind, unit, help. The macro [`section!`] makes
//! a structure, its list of fields and the way to fill it from one declaration; `schema.rs` has
//! them all.

use std::fmt::Write;

use super::{Report, columns};

/// A part of the report, such as a path.
#[derive(Debug)]
pub(crate) struct Section {
    /// What it shows, in a sentence.
    pub(crate) about: &'static str,
    /// Its fields, in the order of JSON.
    pub(crate) fields: &'static [Field],
}

/// A field of a section.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its key in JSON.
    pub(crate) name: &'static str,
    /// What kind of value it has.
    pub(crate) kind: Kind,
    /// What it says, in a sentence.
    pub(crate) help: &'static str,
}

/// The kind of a value. Where an option is empty, nothing is known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A number that only grows, and its unit.
    Counter(&'static str),
    /// A number that goes up and down, and its unit; without one it is a plain number.
    Gauge(&'static str),
    /// One of a few words, or true or false.
    State,
    /// A name, an address, a sentence, or a number that is a name.
    Text,
    /// A section.
    Part(&'static Section),
    /// A section whose fields stand among those around it.
    Flat(&'static Section),
    /// A list of sections.
    List(&'static Section),
}

/// Declares a section: `/// What it shows.` `Name of source: Type;`, then for each field
/// `/// What it says.` `name: type, kind, where from;`.
///
/// "Where from" is an expression of the source, which is a structure that `proto` or a local
/// endpoint fills; a field without one is filled in by the daemon (`daemon/report.rs`).
macro_rules! section {
    (@type $(#[doc = $about:literal])+ $name:ident;
     $($(#[doc = $help:literal])+ $(#[serde($serde:ident)])?
       $field:ident: $type:ty, $kind:expr $(, $value:expr)?;)+) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub(crate) struct $name {
            $($(#[doc = $help])+ $(#[serde($serde)])? pub(crate) $field: $type,)+
        }

        impl $name {
            /// What each field is.
            pub(crate) const SECTION: Section = Section {
                about: concat!($($about),+).trim_ascii_start(),
                fields: &[$(Field {
                    name: stringify!($field),
                    kind: $kind,
                    help: concat!($($help),+).trim_ascii_start(),
                }),+],
            };
        }
    };
    (@from $name:ident, $source:ident: $from:ty;
     $($(#[$attribute:meta])+ $field:ident: $type:ty, $kind:expr $(, $value:expr)?;)+) => {
        impl From<&$from> for $name {
            fn from($source: &$from) -> Self {
                Self { $($field: section!(@value $($value)?),)+ }
            }
        }
    };
    (@value) => { Default::default() };
    (@value $value:expr) => { $value };
    ($(#[doc = $about:literal])+ $name:ident of $source:ident: $from:ty; $($fields:tt)+) => {
        section! { @type $(#[doc = $about])+ $name; $($fields)+ }
        section! { @from $name, $source: $from; $($fields)+ }
    };
    ($(#[doc = $about:literal])+ $name:ident; $($fields:tt)+) => {
        section! { @type $(#[doc = $about])+ $name; $($fields)+ }
    };
}
pub(crate) use section;

/// Lists every field of the report, section by section: name, kind, unit, help.
pub(crate) fn fields() -> String {
    let mut text = String::new();
    list(&mut text, "", &Report::SECTION);
    text
}

/// Lists a section that stands at a place such as `peers[].`, then those within it.
pub(crate) fn list(text: &mut String, place: &str, section: &Section) {
    let heading = if place.is_empty() { "the report" } else { place.trim_end_matches('.') };
    let _ = writeln!(text, "{heading}: {}", section.about);
    let mut rows = Vec::new();
    add_rows(&mut rows, section);
    *text += &columns(&rows);
    for field in section.fields {
        let (inner, mark) = match field.kind {
            Kind::Part(inner) => (inner, ""),
            Kind::List(inner) => (inner, "[]"),
            _ => continue,
        };
        text.push('\n');
        list(text, &format!("{place}{}{mark}.", field.name), inner);
    }
}

fn add_rows(rows: &mut Vec<Vec<String>>, section: &Section) {
    for field in section.fields {
        let (kind, unit) = match field.kind {
            Kind::Counter(unit) => ("counter", unit),
            Kind::Gauge(unit) => ("gauge", unit),
            Kind::State => ("state", ""),
            Kind::Text => ("text", ""),
            Kind::Part(_) => ("section", ""),
            Kind::List(_) => ("list", ""),
            Kind::Flat(inner) => {
                add_rows(rows, inner);
                continue;
            }
        };
        rows.push([field.name, kind, unit, field.help].map(str::to_owned).to_vec());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::status::{PathReport, PeerReport};

    #[test]
    fn the_documented_fields_are_those_of_the_report() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/status.md");
        let text = std::fs::read_to_string(file).unwrap();
        assert!(
            text.contains(&fields()),
            "docs/status.md: put in what `fulmar status --fields` prints"
        );
    }

    /// Lists the figures that an exporter would give out, with the place of each.
    fn figures(place: &str, section: &Section, value: &Value) -> Vec<String> {
        let of = |field: &Field| {
            let (at, inner) = (format!("{place}.{}", field.name), &value[field.name]);
            match field.kind {
                Kind::Counter(unit) | Kind::Gauge(unit) if inner.is_number() => {
                    vec![format!("{at} = {inner} {unit}")]
                }
                Kind::Counter(_) | Kind::Gauge(_) | Kind::State | Kind::Text => Vec::new(),
                Kind::Flat(section) => figures(place, section, value),
                Kind::Part(section) => figures(&at, section, inner),
                Kind::List(section) => {
                    let items = inner.as_array().into_iter().flatten();
                    items.flat_map(|item| figures(&at, section, item)).collect()
                }
            }
        };
        section.fields.iter().flat_map(of).collect()
    }

    #[test]
    fn the_declaration_leads_to_every_figure_of_the_report() {
        let path = PathReport { mtu: 1_372, srtt_ms: Some(2.5), ..PathReport::default() };
        let mut peer = PeerReport { paths: vec![path; 2], ..PeerReport::default() };
        peer.messages.delay.decoding_ms = 4.0;
        let report = Report { peers: vec![peer], ..Report::default() };
        let found = figures("", &Report::SECTION, &serde_json::to_value(report).unwrap());
        let count = |figure: &str| found.iter().filter(|found| *found == figure).count();
        assert_eq!(count(".peers.paths.mtu = 1372 bytes"), 2);
        assert_eq!(count(".peers.paths.srtt_ms = 2.5 ms"), 2);
        assert_eq!(count(".peers.messages.decoding_ms = 4.0 ms"), 1);
    }
}
