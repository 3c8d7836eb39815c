//! What editing leaves as it was, and what it leaves behind.

use super::sections::{NewPeer, is_name, name_of, put_peer, remove_peer, rename_peer};
use super::*;

/// A folder with a station's file and key; what the file says after its head.
pub(crate) fn station(more: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let secret = StaticSecret::generate([1; 32]);
    keys::write_new(&folder.path().join("station.key"), &secret).unwrap();
    let file = folder.path().join("station.toml");
    let head = "# ours\nrole = \"station\" # always\nprivate_key_file = \"station.key\"\n\
                listen = [{ address = \"0.0.0.0:14700\" }]\n";
    fs::write(&file, format!("{head}{more}")).unwrap();
    (folder, file)
}

fn key(seed: u8) -> proto::PublicKey {
    StaticSecret::generate([seed; 32]).public()
}

fn add(file: &Path, name: &str, seed: u8) -> Vec<String> {
    let mut editing = Editing::begin(file).unwrap();
    let secret_file =
        editing.write_secret(name, &StaticSecret::generate([seed + 100; 32])).unwrap();
    let (key, allowed) = (key(seed), [format!("10.77.0.{seed}/32")]);
    let peer = NewPeer { name, key: &key, secret_file: &secret_file, allowed: &allowed };
    let copied = put_peer(&mut editing.document, &peer);
    editing.finish().unwrap();
    copied
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // It stays, as a lock that others may wait for has to.
    names.retain(|name| name != ".fulmar.lock");
    names.sort();
    names
}

#[test]
fn peers_come_and_go_and_the_rest_of_the_file_stays_as_it_was() {
    let more = "\n# QGroundControl\n[[mavlink]]\nname = \"gcs\" # here\nkind = \"udp-client\"\n\
                address = \"127.0.0.1:14550\"\n\n[log]\nlevel = \"debug\" # loud\n# the end\n";
    let (folder, file) = station(more);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::read_to_string(&file).unwrap();

    assert!(add(&file, "one", 2).is_empty());
    let first = fs::read_to_string(&file).unwrap();
    for line in before.lines() {
        assert!(first.contains(line), "{line} is gone:\n{first}");
    }
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let secret = folder.path().join("one.psk");
    assert_eq!(secret.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    assert_eq!(add(&file, "two", 3), ["two-gcs"], "each drone reaches the ground station");
    let config = load(&file).unwrap();
    assert_eq!((config.peers.len(), config.endpoints.len()), (2, 2));
    assert_eq!(config.endpoints.iter().map(|at| at.peer).collect::<Vec<_>>(), [0, 1]);

    let mut editing = Editing::begin(&file).unwrap();
    rename_peer(&mut editing.document, "one", "uno").unwrap();
    assert!(rename_peer(&mut editing.document, "two", "uno").unwrap_err().contains("already"));
    assert!(rename_peer(&mut editing.document, "two", "a b").unwrap_err().contains("cannot be"));
    let unknown = rename_peer(&mut editing.document, "tow", "x").unwrap_err();
    assert!(unknown.contains("there are uno, two"), "{unknown}");
    editing.finish().unwrap();
    assert_eq!(load(&file).unwrap().peers[0].name, "uno");

    for (name, others) in [("two", 1), ("uno", 0)] {
        let mut editing = Editing::begin(&file).unwrap();
        assert_eq!(remove_peer(&mut editing.document, name).unwrap(), others);
        editing.finish().unwrap();
    }
    assert_eq!(names(&folder), ["station.key", "station.toml"], "no secret is left");
    let after = fs::read_to_string(&file).unwrap();
    for line in before.lines() {
        assert!(after.contains(line), "{line} is gone:\n{after}");
    }
    assert!(add(&file, "three", 4).is_empty(), "the endpoint waits for the next peer");
    assert_eq!(load(&file).unwrap().endpoints.len(), 1);
}

#[test]
fn a_peer_is_replaced_by_name_and_by_key_and_its_old_secret_goes() {
    let (folder, file) = station("");
    add(&file, "one", 2);
    add(&file, "one", 3);
    let config = load(&file).unwrap();
    assert_eq!((config.peers.len(), config.peers[0].key), (1, key(3)));
    assert_eq!(names(&folder), ["one-2.psk", "station.key", "station.toml"]);
    add(&file, "other", 3);
    let config = load(&file).unwrap();
    assert_eq!((config.peers.len(), config.peers[0].name.as_str()), (1, "other"));
}

/// Another configuration in the folder of a station, with what its file says of peers.
fn neighbour(station: &Path, peers: &str) -> PathBuf {
    let file = station.with_file_name("north.toml");
    let text = fs::read_to_string(station).unwrap().replace("14700", "14701");
    fs::write(&file, format!("{text}{peers}")).unwrap();
    file
}

fn peer_with(seed: u8, secret_file: &str) -> String {
    let key = key(seed);
    format!(
        "[[peer]]\nname = \"n{seed}\"\npublic_key = \"{key}\"\npreshared_key_file = \"{secret_file}\"\n"
    )
}

fn remove(file: &Path, name: &str) -> Vec<String> {
    let mut editing = Editing::begin(file).unwrap();
    remove_peer(&mut editing.document, name).unwrap();
    editing.finish().unwrap()
}

#[test]
fn secrets_of_other_daemons_in_the_folder_are_neither_replaced_nor_removed() {
    let (folder, station) = station("");
    let north = neighbour(&station, "");
    add(&station, "alpha", 2);
    let secret = fs::read(folder.path().join("alpha.psk")).unwrap();
    add(&north, "alpha", 3);
    assert_eq!(fs::read(folder.path().join("alpha.psk")).unwrap(), secret, "it is the station's");
    assert!(remove(&north, "alpha").is_empty());
    assert_eq!(names(&folder), ["alpha.psk", "north.toml", "station.key", "station.toml"]);

    // Names that end alike are others.
    let (north, drone) = (neighbour(&station, &peer_with(7, "alpha.psk")), "pha");
    add(&station, drone, 7);
    assert!(remove(&station, drone).is_empty());
    fs::remove_file(&north).unwrap();

    // As a peer that is called so would have it: the key of a group of relays.
    fs::write(folder.path().join("relay.psk"), "a group's").unwrap();
    add(&station, "relay", 4);
    assert_eq!(fs::read(folder.path().join("relay.psk")).unwrap(), b"a group's");

    // One file for two daemons, also by another name of it, and in a text that is no configuration
    // yet.
    std::os::unix::fs::symlink("alpha.psk", folder.path().join("link.psk")).unwrap();
    for text in [peer_with(5, "alpha.psk"), peer_with(5, "link.psk"), "# alpha.psk".into()] {
        neighbour(&station, &text);
        let before = fs::read(&station).unwrap();
        assert_eq!(remove(&station, "alpha"), ["alpha.psk"], "it says what it leaves:\n{text}");
        assert_eq!(fs::read(folder.path().join("alpha.psk")).unwrap(), secret);
        fs::write(&station, before).unwrap();
    }
    fs::remove_file(&north).unwrap();
    assert_eq!(remove(&station, "alpha"), ["alpha.psk"], "a link leads to it");
    fs::remove_file(folder.path().join("link.psk")).unwrap();
    assert!(folder.path().join("alpha.psk").exists());
    // A name that some file mentions is not given away, even where no such file exists.
    neighbour(&station, "# beta.psk");
    add(&station, "beta", 6);
    assert!(!folder.path().join("beta.psk").exists());
}

#[test]
fn two_edits_that_are_on_disk_do_not_take_each_others_place() {
    let (folder, file) = station("");
    let stage = |name: &str, seed: u8| {
        let mut editing = Editing::begin(&file).unwrap();
        let secret = StaticSecret::generate([seed + 100; 32]);
        let secret_file = editing.write_secret("ground", &secret).unwrap();
        let key = key(seed);
        let peer = NewPeer { name, key: &key, secret_file: &secret_file, allowed: &[] };
        put_peer(&mut editing.document, &peer);
        (editing.stage().unwrap(), keys::encode(&secret))
    };
    // What a killed process left is in nobody's way.
    fs::write(file.with_file_name(".station.toml.new"), "left").unwrap();
    let ((first, secret), (second, _)) = (stage("first", 2), stage("second", 3));
    first.take_over().unwrap();
    assert!(second.take_over().unwrap_err().contains("edited by somebody else"));
    let config = load(&file).unwrap();
    assert_eq!(config.peers[0].key, key(2));
    let shared = proto::PublicKey(*config.peers[0].preshared_key.clone().unwrap()).to_string();
    assert_eq!(shared, secret, "with its own secret");
    assert_eq!(names(&folder), ["ground.psk", "station.key", "station.toml"]);
}

#[test]
fn an_edit_that_is_wrong_late_or_given_up_changes_nothing() {
    let (folder, file) = station("");
    add(&file, "one", 2);
    let before = fs::read_to_string(&file).unwrap();
    let files = names(&folder);

    let mut editing = Editing::begin(&file).unwrap();
    let secret_file = editing.write_secret("two", &StaticSecret::generate([5; 32])).unwrap();
    let own = StaticSecret::generate([1; 32]).public();
    let peer = NewPeer { name: "two", key: &own, secret_file: &secret_file, allowed: &[] };
    put_peer(&mut editing.document, &peer);
    assert!(editing.finish().unwrap_err().contains("is our own"));
    assert_eq!(
        (fs::read_to_string(&file).unwrap(), names(&folder)),
        (before.clone(), files.clone())
    );

    let mut editing = Editing::begin(&file).unwrap();
    rename_peer(&mut editing.document, "one", "uno").unwrap();
    let staged = editing.stage().unwrap();
    fs::write(&file, format!("{before}# edited\n")).unwrap();
    assert!(staged.take_over().unwrap_err().contains("edited by somebody else"));
    assert_eq!((load(&file).unwrap().peers[0].name.as_str(), names(&folder)), ("one", files));

    fs::write(&file, "role = 1").unwrap();
    assert!(Editing::begin(&file).err().unwrap().contains("station.toml:1: role"));
}

#[test]
fn an_inline_list_of_peers_is_kept() {
    let peer = format!("peer = [{{ name = \"one\", public_key = \"{}\" }}]\n", key(2));
    let (_folder, file) = station(&format!("{peer}status.socket = \"/nowhere/station.sock\"\n"));
    add(&file, "two", 3);
    let config = load(&file).unwrap();
    let names: Vec<_> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn names_fit_files_and_shells() {
    for good in ["drone-1", "a", "7.x_y"] {
        assert!(is_name(good) && name_of(good) == good, "{good}");
    }
    for bad in ["", "-rf", ".hidden", "a/b", "a b", "ü", "a\nb", &"x".repeat(33)] {
        assert!(!is_name(bad) && is_name(&name_of(bad)), "{bad} → {}", name_of(bad));
    }
}
