//! What changes in a file when peers come, go, or are called otherwise.

use std::collections::BTreeSet;

use proto::PublicKey;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value, value};

/// The sections that are about a peer.
const ABOUT_PEERS: [&str; 4] = ["path", "mavlink", "control", "message"];
/// The longest name that a peer is given.
const LONGEST_NAME: usize = 32;

/// A peer as it stands in a file.
pub(crate) struct NewPeer<'n> {
    pub(crate) name: &'n str,
    pub(crate) key: &'n PublicKey,
    /// The file of its pre-shared key.
    pub(crate) secret_file: &'n str,
    /// Its addresses in the tunnel; empty where there are none.
    pub(crate) allowed: &'n [String],
}

/// Tells whether a peer may be called so: what a file, a shell and a folder take without a thought.
pub(crate) fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= LONGEST_NAME
        && text.bytes().all(is_plain)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Makes a name of a text that may be none, such as a host's.
pub(crate) fn name_of(text: &str) -> String {
    let odd = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
    let name = text.replace(odd, "-");
    let name = name.trim_start_matches(['-', '_', '.']);
    match name.char_indices().nth(LONGEST_NAME - 4) {
        Some((end, _)) => name[..end].to_owned(),
        None if name.is_empty() => "drone".into(),
        None => name.to_owned(),
    }
}

/// Lists the peers' names, in their order.
pub(crate) fn peer_names(document: &DocumentMut) -> Vec<String> {
    let tables = tables(document, "peer");
    tables.iter().filter_map(|peer| Some(peer.get("name")?.as_str()?.to_owned())).collect()
}

/// Lists the files of pre-shared keys that a file names.
pub(super) fn secret_files(document: &DocumentMut) -> Vec<String> {
    let tables = tables(document, "peer");
    let file = |peer: &Table| Some(peer.get("preshared_key_file")?.as_str()?.to_owned());
    tables.iter().filter_map(file).collect()
}

/// Puts a peer into a file, in the place of the one of the same name or key if there is one.
/// Sections without `peer` stay with whom they were of. Returns the endpoints that were made for
/// it, after those of the first peer.
pub(crate) fn put_peer(document: &mut DocumentMut, peer: &NewPeer<'_>) -> Vec<String> {
    let (key, first) = (peer.key.to_string(), peer_names(document).into_iter().next());
    let known = tables(document, "peer");
    let text = |table: &Table, key: &str| table.get(key).and_then(Item::as_str).map(str::to_owned);
    let is_it = |known: &Table| {
        text(known, "public_key").as_ref() == Some(&key)
            || text(known, "name").as_deref() == Some(peer.name)
    };
    let place = known.iter().position(is_it);
    let called = place.and_then(|place| text(&known[place], "name"));
    if let Some(old) = called.filter(|old| old != peer.name) {
        // It was found by its key: no other peer has the name.
        let _ = rename_peer(document, &old, peer.name);
    }
    let is_new = place.is_none();
    if let (true, Some(only)) = (is_new && known.len() == 1, &first) {
        name_peer_of_sections(document, only);
    }
    let peers = sections(document, "peer");
    if is_new {
        peers.push(Table::new());
    }
    let Some(table) = peers.get_mut(place.unwrap_or(peers.len() - 1)) else { return Vec::new() };
    set(table, "name", peer.name);
    set(table, "public_key", &key);
    set(table, "preshared_key_file", peer.secret_file);
    if !peer.allowed.is_empty() {
        set_list(table, "allowed_addresses", peer.allowed);
    }
    match first {
        Some(first) if is_new => copy_endpoints(document, &first, peer.name),
        _ => Vec::new(),
    }
}

/// Takes a peer out of a file, with what is about it; what is about the last one waits for the
/// next. Returns how many other sections went.
///
/// # Errors
/// When there is no such peer.
pub(crate) fn remove_peer(document: &mut DocumentMut, name: &str) -> Result<usize, String> {
    let names = peer_names(document);
    if !names.iter().any(|known| known == name) {
        return Err(no_such_peer(name, &names));
    }
    let is_its = |table: &Table, key: &str| table.get(key).and_then(Item::as_str) == Some(name);
    sections(document, "peer").retain(|peer| !is_its(peer, "name"));
    let mut removed = 0;
    for list in ABOUT_PEERS.into_iter().filter(|list| has(document, list)).collect::<Vec<_>>() {
        let tables = sections(document, list);
        if names.len() == 1 {
            tables.iter_mut().for_each(|table| _ = table.remove("peer"));
            continue;
        }
        let before = tables.len();
        tables.retain(|table| !is_its(table, "peer"));
        removed += before - tables.len();
    }
    for list in ["peer"].into_iter().chain(ABOUT_PEERS) {
        if has(document, list) && sections(document, list).is_empty() {
            document.remove(list);
        }
    }
    Ok(removed)
}

/// Calls a peer otherwise, wherever the file speaks of it.
///
/// # Errors
/// When there is no such peer, or the name is taken or none.
pub(crate) fn rename_peer(document: &mut DocumentMut, old: &str, new: &str) -> Result<(), String> {
    let names = peer_names(document);
    if !names.iter().any(|known| known == old) {
        return Err(no_such_peer(old, &names));
    }
    if names.iter().any(|known| known == new) {
        return Err(format!("there is a peer \"{new}\" already"));
    }
    if !is_name(new) {
        return Err(format!("\"{}\" cannot be a name: {NAME_RULE}", new.escape_debug()));
    }
    for (list, key) in [("peer", "name")].into_iter().chain(ABOUT_PEERS.map(|list| (list, "peer")))
    {
        if !has(document, list) {
            continue;
        }
        for table in sections(document, list).iter_mut() {
            if table.get(key).and_then(Item::as_str) == Some(old) {
                set(table, key, new);
            }
        }
    }
    Ok(())
}

/// What names are made of.
pub(crate) const NAME_RULE: &str =
    "1 to 32 letters, digits, \"-\", \"_\" and \".\", the first one a letter or digit";

/// Sets a key of a section to a text; its comments stay.
pub(crate) fn set(table: &mut Table, key: &str, text: &str) {
    put(table, key, text.into());
}

/// Sets a key of a section to a list of texts.
pub(crate) fn set_list(table: &mut Table, key: &str, texts: &[String]) {
    put(table, key, Value::Array(texts.iter().map(String::as_str).collect::<Array>()));
}

/// Returns the sections of a list, which is made where there is none. A list of inline tables
/// becomes one of sections.
pub(crate) fn sections<'d>(document: &'d mut DocumentMut, list: &str) -> &'d mut ArrayOfTables {
    let item = document.entry(list).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    if !item.is_array_of_tables() {
        let inline = std::mem::take(item);
        let tables = inline.into_array_of_tables().unwrap_or_default();
        *item = Item::ArrayOfTables(tables);
        if let Some(mut key) = document.key_mut(list) {
            key.leaf_decor_mut().clear();
        }
    }
    let item = document.entry(list).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    item.as_array_of_tables_mut().expect("it was made one")
}

/// Returns copies of the sections of a list, whichever way they are written.
pub(crate) fn tables(document: &DocumentMut, list: &str) -> Vec<Table> {
    let item = document.get(list).cloned().unwrap_or_default();
    let tables = item.into_array_of_tables().unwrap_or_default();
    tables.into_iter().collect()
}

/// Whether a file has sections of a list.
pub(crate) fn has(document: &DocumentMut, list: &str) -> bool {
    document.contains_key(list)
}

/// Says that there is no such peer, and which there are.
pub(crate) fn no_such_peer(name: &str, names: &[String]) -> String {
    let known: Vec<_> = names.iter().map(String::as_str).collect();
    let meant = toml_keys::did_you_mean(name, &known);
    match known.is_empty() {
        true => format!("there is no peer \"{name}\": the file has none"),
        false => format!("there is no peer \"{name}\"; there are {}{meant}", known.join(", ")),
    }
}

/// Lets sections that leave it open say whose they are: of the only peer.
fn name_peer_of_sections(document: &mut DocumentMut, only: &str) {
    for list in ABOUT_PEERS.into_iter().filter(|list| has(document, list)).collect::<Vec<_>>() {
        for table in sections(document, list).iter_mut() {
            if !table.contains_key("peer") {
                set(table, "peer", only);
            }
        }
    }
}

/// Gives a peer the MAVLink endpoints of another one that can be there twice: those that speak to
/// an address.
fn copy_endpoints(document: &mut DocumentMut, from: &str, to: &str) -> Vec<String> {
    if !has(document, "mavlink") {
        return Vec::new();
    }
    let endpoints = sections(document, "mavlink");
    let text = |table: &Table, key: &str| table.get(key).and_then(Item::as_str).map(str::to_owned);
    let taken: BTreeSet<_> = endpoints.iter().filter_map(|table| text(table, "name")).collect();
    let mut copies = Vec::new();
    for table in endpoints.iter() {
        let is_its = text(table, "peer").as_deref() == Some(from);
        let Some(name) = text(table, "name").filter(|_| is_its) else { continue };
        if text(table, "kind").as_deref() != Some("udp-client") {
            continue;
        }
        let rest = name.strip_prefix(from).and_then(|rest| rest.strip_prefix('-'));
        let name = format!("{to}-{}", rest.unwrap_or(&name));
        if taken.contains(&name) {
            continue;
        }
        let mut copy = Table::new();
        for (key, item) in table.iter() {
            copy.insert(key, item.clone());
        }
        set(&mut copy, "name", &name);
        set(&mut copy, "peer", to);
        copies.push((name, copy));
    }
    copies
        .into_iter()
        .map(|(name, copy)| {
            endpoints.push(copy);
            name
        })
        .collect()
}

fn put(table: &mut Table, key: &str, mut new: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => _ = table.insert(key, value(new)),
    }
}
