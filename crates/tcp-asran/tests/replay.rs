//! The algorithm, step by step, as the kernel runs it.

use fulmar_tcp_asran::{Error, Event, Flavour, Snapshot, replay};

const ACK: Event = Event::Ack { packets: 1 };

/// Replays events; `None`, and a line that says why, where this machine cannot.
fn run(test: &str, flavour: Flavour, events: &[Event]) -> Option<Vec<Snapshot>> {
    match replay(flavour, events) {
        Ok(snapshots) => Some(snapshots),
        Err(error @ Error::Refused { .. }) => panic!("{error}"),
        Err(error) => {
            println!("SKIPPED: {test}: {error}");
            None
        }
    }
}

fn start(cwnd: u32, then: &[Event]) -> Vec<Event> {
    [&[Event::Start { cwnd }], then].concat()
}

fn of(cwnd: u32, ssthresh: u32, last_max_cwnd: u32) -> Snapshot {
    Snapshot { cwnd, ssthresh, last_max_cwnd }
}

#[test]
fn first_loss_is_the_base_algorithms() {
    let events = start(40, &[Event::Loss, ACK, Event::Recovered, ACK]);
    let Some(steps) = run("first_loss_is_the_base_algorithms", Flavour::Asran, &events) else {
        return;
    };
    let expected = [
        of(40, Snapshot::INFINITE, 0),
        of(20, 20, 40),
        of(20, 20, 40),
        of(20, 20, 40),
        of(20, 20, 40), // congestion avoidance: twenty ACKs make a packet
    ];
    assert_eq!(steps, expected);
}

#[test]
fn second_loss_reduces_first_and_slow_starts_back() {
    let name = "second_loss_reduces_first_and_slow_starts_back";
    let first = [Event::Loss, Event::Recovered];
    let second = [Event::Ack { packets: 2 }, Event::Loss, Event::Recovered];
    let back = [Event::Ack { packets: 25 }, Event::Ack { packets: 20 }];
    let events = start(40, &[&first[..], &second[..], &back[..]].concat());
    let Some(steps) = run(name, Flavour::Asran, &events) else { return };
    // Loss at 20: reduced to 10 while recovery lasts, then ssthresh 40 = the window of the first
    // loss.
    let second = [of(20, 20, 40), of(10, 10, 20), of(10, 40, 20)];
    assert_eq!(steps[3..6], second);
    assert_eq!(steps[6..], [of(35, 40, 20), of(40, 40, 20)]);
}

#[test]
fn window_grown_past_twice_the_last_loss_is_the_base_algorithms() {
    let name = "window_grown_past_twice_the_last_loss_is_the_base_algorithms";
    let grow = [Event::Ack { packets: 2000 }];
    let events = start(
        10,
        &[&[Event::Loss, Event::Recovered][..], &grow, &[Event::Loss, Event::Recovered]].concat(),
    );
    let Some(steps) = run(name, Flavour::Asran, &events) else { return };
    let full = steps[3].cwnd;
    assert!(full >= 20, "{full}");
    assert_eq!(steps[4..], [of(full / 2, full / 2, full), of(full / 2, full / 2, full)]);
}

#[test]
fn timeout_is_the_base_algorithms_but_is_remembered() {
    let name = "timeout_is_the_base_algorithms_but_is_remembered";
    let before = [Event::Loss, Event::Recovered];
    let events =
        start(40, &[&before[..], &[Event::Timeout, Event::Loss, Event::Recovered]].concat());
    let Some(steps) = run(name, Flavour::Asran, &events) else { return };
    assert_eq!(steps[3..], [of(1, 10, 20), of(1, 2, 1), of(2, 20, 1)]);
    let events = start(40, &[&before[..], &[Event::Loss, Event::Timeout]].concat());
    let Some(steps) = run(name, Flavour::Asran, &events) else { return };
    // In the middle of a recovery: what was pending is dropped.
    assert_eq!(steps[3..], [of(10, 10, 20), of(1, 10, 20)]);
}

#[test]
fn undone_loss_is_forgotten() {
    let events = start(40, &[Event::Loss, Event::Recovered, Event::Loss, Event::Undo]);
    let Some(steps) = run("undone_loss_is_forgotten", Flavour::Asran, &events) else { return };
    assert_eq!(steps[3..], [of(10, 10, 20), of(20, 20, 40)]);
}

#[test]
fn jump_jumps_and_cubic_keeps_its_factor() {
    let name = "jump_jumps_and_cubic_keeps_its_factor";
    let events = start(100, &[Event::Loss, Event::Recovered, Event::Loss, Event::Recovered]);
    let Some(jump) = run(name, Flavour::AsranJump, &events) else { return };
    assert_eq!(jump[1..3], [of(70, 70, 100), of(70, 70, 100)]);
    assert_eq!(jump[3..], [of(70, 100, 70), of(100, 100, 70)]);
    let Some(cubic) = run(name, Flavour::AsranCubic, &events) else { return };
    assert_eq!(cubic[3..], [of(49, 49, 70), of(49, 100, 70)]);
}
