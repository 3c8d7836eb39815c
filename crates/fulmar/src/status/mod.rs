//! What `fulmar status` shows: one report for people and scripts, taken by the daemon, sent over a
//! local socket as one JSON object, and laid out as a table by the other end.

mod advice;
mod client;
mod endpoint_words;
mod field;
mod layout;
mod record;
mod relay;
mod reliability;
mod schema;
mod server;
mod strangers;
mod table;
mod vehicle;
mod words;

pub(crate) use advice::{path_trouble, peer_trouble, version_words};
#[cfg(fuzzing)]
pub(crate) use client::parse;
pub(crate) use client::{explain, fetch, find_socket, make_harmless, reload, sockets};
pub(crate) use endpoint_words::{EndpointWords, Whose};
pub(crate) use field::{Field, Kind, Section, fields, list, section};
pub(crate) use layout::{ENDLESS, columns, parts};
pub(crate) use record::RecordReport;
pub(crate) use relay::{RelayMemberReport, RelayReport};
pub(crate) use reliability::reliability_reports;
pub(crate) use schema::*;
pub(crate) use server::{Answer, Lists, StatusServer};
pub(crate) use strangers::StrangersReport;
pub(crate) use table::{milliseconds, rate, span, table};
pub(crate) use vehicle::vehicle_words;
pub(crate) use words::{call_words, reliability_word, state_word};
