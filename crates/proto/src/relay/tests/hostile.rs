//! What strangers, echoes and insiders can do to a group.

use std::collections::BTreeSet;

use units::{Instant, Rate};

use super::super::frame::{self, Body, State};
use super::super::keys::{Boot, GroupKey};
use super::super::*;
use super::field::{Field, GROUP, Listener, MS, name};
use super::{PUBLISHED, RANKED, SECOND};

type Log = Vec<(NodeName, Hop, Vec<u8>)>;

/// Returns all that a node counts but what it refused and how often it answered.
fn figures(field: &Field, at: usize) -> (RelaySentReceived, Relayed, usize) {
    let name = field.posts[at].name;
    let status = field.status(name.side, name.number);
    ((status.sent, status.received, status.open), status.relayed, field.posts[at].came.len())
}

type RelaySentReceived = (Sent, Received, usize);

/// Gives every frame of a log to every node, by the hop that `hop` says; returns what each node
/// refused besides.
fn attack(field: &mut Field, log: &Log, change: impl Fn(&mut Vec<u8>), cross: bool) -> Refusals {
    let sum = |field: &Field| {
        let mut sum = [0; REFUSALS.len()];
        for post in &field.posts {
            let refused = field.status(post.name.side, post.name.number).refused;
            REFUSALS.iter().for_each(|reason| sum[*reason as usize] += refused.of(*reason));
        }
        sum
    };
    let before = sum(field);
    let figures_before: Vec<_> = (0..field.posts.len()).map(|at| figures(field, at)).collect();
    for (_, hop, bytes) in log {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        for to in 0..field.posts.len() {
            let hop = match (hop, cross) {
                (Hop::Wire, false) | (Hop::Radio, true) => Hop::Wire,
                (Hop::Wire, true) | (Hop::Radio, false) => Hop::Radio,
            };
            field.give(to, hop, &bytes);
        }
    }
    let figures_after: Vec<_> = (0..field.posts.len()).map(|at| figures(field, at)).collect();
    assert_eq!(figures_before, figures_after, "an attack changes nothing");
    let after = sum(field);
    let mut refused = Refusals::default();
    for reason in REFUSALS {
        (before[reason as usize]..after[reason as usize]).for_each(|_| refused.count(reason));
    }
    refused
}

/// Flies a transfer in which a relay of each side starts again; returns what was on wire and radio.
fn flown(form: RelayForm) -> (Field, Log) {
    let mut field = Field::new(form, [2, 2], 10.0, 7);
    field.log = Some(Vec::new());
    field.run(SECOND);
    field.offer(Side::Ground, 100, 1_000);
    field.offer(Side::Air, 100, 150);
    field.run(SECOND);
    field.start(field.at(Side::Ground, 1));
    field.start(field.at(Side::Air, 1));
    field.run(SECOND);
    let sent = field.offer(Side::Ground, 100, 1_000);
    field.run(5 * SECOND);
    assert!(sent.is_subset(&field.came(Side::Air)));
    let log = field.log.take().expect("it was kept");
    (field, log)
}

#[test]
fn a_replayed_generation_changes_nothing() {
    for form in [RANKED, PUBLISHED] {
        let (mut field, log) = flown(form);
        let refused = attack(&mut field, &log, |_| {}, false);
        for reason in [
            Refusal::Replay,
            Refusal::EarlierBoot,
            Refusal::Reflected,
            Refusal::Misdirected,
            Refusal::Overheard,
        ] {
            assert!(refused.of(reason) > 100, "{form:?} {reason:?} {}", refused.of(reason));
        }
        for reason in [Refusal::BadCode, Refusal::CrossHop, Refusal::Malformed, Refusal::Stale] {
            assert_eq!(refused.of(reason), 0, "{form:?} {reason:?}");
        }
    }
}

#[test]
fn a_frame_moved_to_the_other_hop_changes_nothing() {
    let (mut field, log) = flown(RANKED);
    let refused = attack(&mut field, &log, |_| {}, true);
    assert_eq!(refused.of(Refusal::CrossHop), (log.len() * field.posts.len()) as u64);
    // The hop's bit is inside the code.
    let refused = attack(&mut field, &log, |bytes| bytes[1] ^= 2, true);
    assert!(refused.of(Refusal::BadCode) > 100);
    assert_eq!(refused.of(Refusal::Replay), 0);
}

#[test]
fn a_forged_or_altered_frame_changes_nothing() {
    let (mut field, log) = flown(RANKED);
    let last = |bytes: &mut Vec<u8>| *bytes.last_mut().expect("a code") ^= 1;
    let direction = |bytes: &mut Vec<u8>| bytes[1] ^= 4;
    let counter = |bytes: &mut Vec<u8>| bytes[14] ^= 1;
    let sender = |bytes: &mut Vec<u8>| bytes[2] ^= 3;
    let changes: [fn(&mut Vec<u8>); 4] = [last, direction, counter, sender];
    for change in changes {
        let refused = attack(&mut field, &log, change, false);
        assert!(refused.of(Refusal::BadCode) > 100);
        // Of a boot that is not known, the code of a coded frame is not looked at.
        assert_eq!(refused.of(Refusal::Replay), 0);
    }
    let refused = attack(&mut field, &log, |bytes| bytes.truncate(15), false);
    assert_eq!(refused.of(Refusal::Malformed), (log.len() * field.posts.len()) as u64);
}

#[test]
fn forgeries_and_replays_beside_a_transfer_cost_it_nothing() {
    let time = |attacked: bool| {
        let (mut field, log) = flown(RANKED);
        let sent = field.offer(Side::Ground, 1_000, 1_300);
        let began = field.now;
        let mut left = log.iter().cycle();
        while !sent.is_subset(&field.came(Side::Air)) {
            field.run(10 * MS);
            assert!(field.now.since(began) < 60 * SECOND);
            for _ in 0..if attacked { 20 } else { 0 } {
                let (_, hop, bytes) = left.next().expect("it goes round");
                let mut forged = bytes.clone();
                forged[20] ^= 1;
                for to in 0..field.posts.len() {
                    field.give(to, *hop, bytes);
                    field.give(to, *hop, &forged);
                }
            }
        }
        field.now.since(began)
    };
    let (calm, attacked) = (time(false), time(true));
    assert!(attacked <= calm.mul_f64(1.05), "{attacked:?} after {calm:?}");
}

#[test]
fn a_relay_started_ten_times_uses_no_key_and_counter_twice() {
    let mut field = Field::new(RANKED, [2, 2], 10.0, 8);
    field.log = Some(Vec::new());
    for _ in 0..10 {
        field.offer(Side::Ground, 20, 1_000);
        field.run(300 * MS);
        field.start(field.at(Side::Ground, 1));
    }
    field.run(3 * SECOND);
    let log = field.log.take().expect("it was kept");
    let mut listener = Listener::new();
    let used =
        log.iter().map(|(_, _, bytes)| listener.header(bytes).expect("it has said its boot"));
    let used: BTreeSet<_> =
        used.map(|header| (header.sender, header.boot, header.counter)).collect();
    assert_eq!(used.len(), log.len());
    let boots = used.iter().filter(|(sender, ..)| *sender == name(Side::Ground, 1));
    assert_eq!(boots.map(|(_, boot, _)| boot).collect::<BTreeSet<_>>().len(), 11);
    assert!(log.len() > 1_000);
}

#[test]
fn two_nodes_of_one_number_are_named_and_a_restart_is_not() {
    let mut field = Field::new(RANKED, [2, 2], 10.0, 9);
    field.run(SECOND);
    field.start(field.at(Side::Ground, 1));
    field.run(2 * SECOND);
    let doubled = |field: &mut Field, side, number| {
        field.post(side, number).node.as_mut().expect("it runs").poll_doubled()
    };
    assert_eq!(doubled(&mut field, Side::Ground, 0), None);
    field.twin(Side::Ground, 1);
    field.run(2 * SECOND);
    let twice = Some(name(Side::Ground, 1));
    assert_eq!(doubled(&mut field, Side::Ground, 0), twice);
    assert_eq!(doubled(&mut field, Side::Air, 1), twice, "seen over the radio too");
    assert_eq!(doubled(&mut field, Side::Ground, 0), None, "once");
    let members = field.status(Side::Ground, 0).members;
    let named = members.iter().filter(|member| member.doubled.is_some());
    assert_eq!(named.map(|member| member.name).collect::<Vec<_>>(), [name(Side::Ground, 1)]);
}

#[test]
fn who_replays_many_boots_causes_few_challenges() {
    let mut field = Field::new(RANKED, [1, 1], 10.0, 10);
    field.run(SECOND);
    let group = GroupKey::new(GROUP);
    field.log = Some(Vec::new());
    let at = field.at(Side::Ground, 0);
    for step in 0..10_000_u64 {
        let sender = name(Side::Ground, 2 + (step % 60) as u8);
        let mut frame = Vec::new();
        let body = Body::State(State::default());
        let mut boot = Boot::new(sender, &group, step);
        assert!(boot.seal(Hop::Wire, Side::Ground, &body, &mut frame));
        field.give(at, Hop::Wire, &frame);
        if step % 100 == 99 {
            field.run(10 * MS);
        }
    }
    let log = field.log.take().expect("it was kept");
    let challenge = |bytes: &[u8]| matches!(frame::read_body(bytes), Ok(Body::Challenge(_)));
    let count = log.iter().filter(|(_, _, bytes)| challenge(bytes)).count();
    assert!((50..=32 + 100).contains(&count), "{count} in a second");
    // Those of the past do not keep out one that is new.
    field.start(field.at(Side::Ground, 1));
    field.run(500 * MS);
    let sent = field.offer(Side::Ground, 10, 1_000);
    field.run(SECOND);
    assert_eq!(field.came(Side::Air), sent);
}

#[test]
fn a_wrong_combination_by_a_key_holder_harms_what_it_is_in_and_nothing_else() {
    let mut field = Field::new(RANKED, [2, 2], 10.0, 11);
    field.run(SECOND);
    let (mut listener, mut count) = (Listener::new(), 0);
    field.hears = Box::new(|shot| shot.from.number == shot.to.number);
    // Relay 2 in the air has the key, and changes one in ten of what it passes on.
    field.insider = Box::new(move |hop, bytes| {
        let Some(header) = listener.header(bytes) else { return };
        let is_liar = header.sender == name(Side::Air, 2) && hop == Hop::Wire && bytes.len() > 400;
        count += u32::from(is_liar);
        if is_liar && u32::is_multiple_of(count, 10) {
            listener.change(&header, 500, bytes);
        }
    });
    let sent = field.offer(Side::Ground, 1_000, 1_000);
    field.run(20 * SECOND);
    let came = field.came(Side::Air);
    let wrong = came.difference(&sent).count();
    assert!(wrong > 0, "the liar was heard");
    assert!(came.intersection(&sent).count() >= 1_000 - 4 * wrong && came.len() <= 1_000);
    // What is wrong is as long as what was sent, or hardly begins like it: the session's tag fails
    // on it.
    assert!(field.post(Side::Ground, 0).offered.is_empty());
}

#[test]
fn an_answer_that_was_held_back_proves_nothing() {
    let at = Instant::from_millis;
    let said = |node: &mut RelayNode, ms| {
        let (mut all, mut buf) = (Vec::new(), Vec::new());
        while node.poll_transmit(at(ms), Hop::Wire, &mut buf) {
            all.push(buf.clone());
        }
        all
    };
    for (held_ms, is_proved) in [(0, true), (1_900, true), (2_100, false)] {
        let roles = [
            RelayRole::Gateway { form: RelayForm::Ranked { f: None }, k: 4 },
            RelayRole::Relay { number: 1, rate: Rate::from_mbps(5.0) },
        ];
        let start = |(life, role)| {
            let config =
                RelayConfig { side: Side::Ground, role, group_key: [1; 32], entropy: [life; 32] };
            RelayNode::new(config, at(1_000)).expect("a role that there is")
        };
        let [mut gateway, mut relay] = [(1, roles[0]), (2, roles[1])].map(start);
        for frame in said(&mut gateway, 1_000) {
            relay.handle_frame(at(1_000), Hop::Wire, &frame);
        }
        for frame in said(&mut relay, 1_000) {
            gateway.handle_frame(at(1_000), Hop::Wire, &frame);
        }
        let later = 1_000 + held_ms;
        for frame in said(&mut gateway, 1_000) {
            relay.handle_frame(at(later), Hop::Wire, &frame);
        }
        assert_eq!(!relay.status(at(later)).members.is_empty(), is_proved, "after {held_ms} ms");
    }
}
