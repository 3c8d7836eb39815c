//! Whoever has a code is enrolled once, and whoever lies is not.

use std::fs;

use proto::{Guest, StaticSecret};

use super::*;
use crate::edit::tests::station;

const SECRET: [u8; 16] = [9; 16];
const TUNNEL: &str = "[tunnel]\naddress = [\"10.77.0.1/29\", \"fd00:77::1/64\"]\n";

struct Scene {
    register: Register,
    file: PathBuf,
    folder: tempfile::TempDir,
}

impl Scene {
    /// A station with a code for each of `names`; the secret of each is its number after the first
    /// one's.
    fn new(more: &str, replace: bool, names: &[Option<&str>]) -> Self {
        let (folder, file) = station(more);
        let tickets = names.iter().enumerate().map(|(number, name)| {
            Ticket::new(name.map(str::to_owned), guest(number).secret.public())
        });
        let register = Register::new(&file, replace, tickets.collect());
        Self { register, file, folder }
    }

    fn say(&mut self, ticket: usize, message: &Message) -> Outcome {
        self.hear(ticket, &message.text())
    }

    fn hear(&mut self, ticket: usize, text: &str) -> Outcome {
        let used = Used { from: "192.0.2.7:1".into(), at: "12:00:00Z".into() };
        self.register.handle(ticket, text, &used)
    }

    fn ask(&mut self, ticket: usize, drone: u8, name: &str) -> Result<Offer, String> {
        match self.say(ticket, &request(ticket, drone, name)).answer {
            Some(Message::Offer(offer)) => Ok(offer),
            Some(Message::Refused { why }) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    fn enrol(&mut self, ticket: usize, drone: u8, name: &str) -> Offer {
        let offer = self.ask(ticket, drone, name).unwrap();
        assert_eq!(self.say(ticket, &Message::Confirm).answer, Some(Message::Done));
        offer
    }

    fn peers(&self) -> Vec<(String, PublicKey)> {
        let config = load(&self.file).unwrap();
        config.peers.into_iter().map(|peer| (peer.name, peer.key)).collect()
    }
}

fn secret(seed: u8) -> StaticSecret {
    StaticSecret::generate([seed; 32])
}

fn guest(ticket: usize) -> Guest {
    let mut code = SECRET;
    code[0] += ticket as u8;
    Guest::of_code(&code, &secret(1).public())
}

fn request(ticket: usize, drone: u8, name: &str) -> Message {
    let (drone, station) = (secret(drone), secret(1).public());
    Message::Request(Request::new(&drone, &station, &guest(ticket), name.into(), true))
}

#[test]
fn a_code_counts_once_and_a_repeat_is_answered_the_same_way() {
    let mut scene = Scene::new(TUNNEL, false, &[None]);
    let offer = scene.ask(0, 2, "drone").unwrap();
    assert_eq!(scene.peers(), [], "nothing is written before the drone holds the offer");
    assert_eq!(scene.ask(0, 2, "other").unwrap(), offer);
    assert!(scene.ask(0, 3, "drone").unwrap_err().contains("is being used by another"));

    let confirmed = scene.say(0, &Message::Confirm);
    assert_eq!(confirmed.answer, Some(Message::Done));
    assert!(matches!(confirmed.news, Some(News::Enrolled { .. })), "{:?}", confirmed.news);
    assert_eq!(scene.peers(), [("drone".to_owned(), secret(2).public())]);
    let text = fs::read_to_string(&scene.file).unwrap();
    assert_eq!(scene.ask(0, 2, "drone").unwrap(), offer);
    let again = scene.say(0, &Message::Confirm);
    assert_eq!((again.answer, again.news), (Some(Message::Done), None));
    let why = scene.ask(0, 3, "drone").unwrap_err();
    assert!(why.contains("used by drone") && why.contains("192.0.2.7:1 at 12:00:00Z"), "{why}");
    assert!(why.contains("fulmar peers remove drone"), "{why}");
    assert_eq!(fs::read_to_string(&scene.file).unwrap(), text);

    assert!(!scene.register.tickets()[0].is_settled());
    for _ in 0..2 {
        assert_eq!(scene.say(0, &Message::Finished).answer, Some(Message::Farewell));
        assert!(scene.register.tickets()[0].is_settled());
    }
    assert!(scene.ask(0, 3, "drone").unwrap_err().contains("used by drone"));

    let config = load(&scene.file).unwrap();
    let shared = config.peers[0].preshared_key.as_ref().unwrap();
    assert_eq!(**shared, offer.secret().unwrap().to_bytes());
}

#[test]
fn of_drones_that_race_with_one_code_exactly_one_is_enrolled_whatever_the_order() {
    for order in 0..64_u32 {
        let mut scene = Scene::new(TUNNEL, false, &[None]);
        let mut confirmed = Vec::new();
        for step in 0..6 {
            let drone = 2 + (order >> step & 1) as u8;
            if scene.ask(0, drone, "drone").is_ok() {
                assert_eq!(scene.say(0, &Message::Confirm).answer, Some(Message::Done));
                confirmed.push(drone);
            }
        }
        confirmed.dedup();
        assert_eq!(confirmed, [2 + (order & 1) as u8]);
        assert_eq!(scene.peers(), [("drone".to_owned(), secret(confirmed[0]).public())]);
    }
}

#[test]
fn every_drone_has_a_name_and_addresses_of_its_own_until_there_are_none() {
    let mut scene = Scene::new(TUNNEL, false, &[None; 7]);
    let mut offers = Vec::new();
    for ticket in 0..5 {
        // Some have only been offered when the next one comes.
        let drone = 2 + ticket as u8;
        offers.push(match ticket % 2 {
            0 => scene.enrol(ticket, drone, "drone"),
            _ => scene.ask(ticket, drone, "drone").unwrap(),
        });
    }
    let names: Vec<_> = offers.iter().map(|offer| offer.name.as_str()).collect();
    assert_eq!(names, ["drone", "drone-2", "drone-3", "drone-4", "drone-5"]);
    let addresses: Vec<_> = offers.iter().map(|offer| offer.addresses[0].to_string()).collect();
    assert_eq!(addresses[..2], ["10.77.0.2/29", "10.77.0.3/29"]);
    assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), 5);
    assert_eq!(offers[0].addresses[1].to_string(), "fd00:77::2/64");
    assert_eq!(offers[0].station_addresses[0].to_string(), "10.77.0.1/29");
    assert!(
        scene.ask(5, 20, "drone").unwrap_err().contains("no address of 10.77.0.0/29 is free")
            || scene.ask(5, 20, "drone").unwrap_err().contains("is free")
    );
    let config = load(&scene.file).unwrap();
    let allowed: Vec<_> = config.peers[1].allowed.iter().map(IpNet::to_string).collect();
    assert_eq!(allowed, ["10.77.0.4/32", "fd00:77::4/128"]);
}

#[test]
fn a_drone_that_comes_again_keeps_its_name_and_addresses() {
    let mut scene = Scene::new(TUNNEL, false, &[None, None, Some("other")]);
    let first = scene.enrol(0, 2, "drone");
    let again = scene.enrol(1, 2, "something");
    assert_eq!((&again.name, &again.addresses), (&first.name, &first.addresses));
    assert_ne!(again.preshared_key, first.preshared_key);
    assert_eq!(scene.peers().len(), 1);
    assert!(scene.ask(2, 2, "drone").unwrap_err().contains("enrolled as drone"));
    let secrets = fs::read_dir(scene.folder.path()).unwrap();
    let secrets = secrets.filter(|file| {
        file.as_ref().is_ok_and(|file| file.path().extension().is_some_and(|end| end == "psk"))
    });
    assert_eq!(secrets.count(), 1, "the old secret is gone");
}

#[test]
fn a_name_of_the_list_is_kept_and_a_peer_is_replaced_only_where_that_is_wanted() {
    let mut scene = Scene::new("", false, &[Some("listed"), Some("listed")]);
    assert_eq!(scene.enrol(0, 2, "wish").name, "listed");
    assert!(scene.ask(1, 3, "wish").unwrap_err().contains("which is enrolled already"));
    scene.register.replace = true;
    scene.enrol(1, 3, "wish");
    assert_eq!(scene.peers(), [("listed".to_owned(), secret(3).public())]);
}

#[test]
fn a_lying_drone_is_refused_and_said_a_few_times() {
    let mut scene = Scene::new(TUNNEL, false, &[None]);
    let before = fs::read_to_string(&scene.file).unwrap();
    let Message::Request(other) = request(1, 3, "drone") else { panic!() };
    let theft = Message::Request(other).text();
    let Message::Request(honest) = request(0, 2, "drone") else { panic!() };
    let honest = Message::Request(honest).text();
    let own = secret(1).public().to_string();
    let lies = [
        theft,
        honest.replace(&secret(2).public().to_string(), &secret(3).public().to_string()),
        honest.replace(&secret(2).public().to_string(), &own),
        honest.replace("\"drone\"", "\"a\\u001b[2Jb\""),
        honest.replace("\"drone\"", &format!("\"{}\"", "n".repeat(100_000))),
        honest.replace("\"drone\"", "\"../../etc/passwd\""),
        Message::Confirm.text(),
        Message::Done.text(),
        "\u{0}\u{1}\u{2}".into(),
        "[".repeat(4_000),
    ];
    let mut told = 0;
    for round in 0..100 {
        for lie in &lies {
            let outcome = scene.hear(0, lie);
            let answer = outcome.answer.unwrap();
            assert!(matches!(&answer, Message::Refused { .. }), "{lie} was answered by {answer:?}");
            assert!(answer.text().len() < 600 && !answer.text().contains('\u{1b}'), "{answer:?}");
            told += u32::from(outcome.news.is_some());
        }
        assert!(round > 0 || told == TOLD);
    }
    assert_eq!(told, TOLD, "no more lines");
    assert_eq!(fs::read_to_string(&scene.file).unwrap(), before);
    // The name of another peer is not taken from it.
    scene.enrol(0, 2, "drone");
    assert!(scene.hear(7, &Message::Confirm.text()).answer.is_none(), "a code that is none");
}
