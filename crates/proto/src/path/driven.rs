//! Paths whose use a peer changes as some bytes say, while they come and go: for a test and a fuzz
//! target.

use units::{Duration, Instant};

use super::{Carries, Outgoing, Path, PathConfig, PathUse, Paths, ProtectControl, Route};
use crate::congestion::CongestionKind;
use crate::ids::{InterfaceId, PathId};
use crate::via::Via;
use crate::wire::{Frame, Frames, PathUseFrame};

/// Paths of the session, at first.
const PATHS: u8 = 3;

/// Plays a script at a responder's paths. Whatever it says, every tier that a path may carry is
/// served by one, control always is, and no path serves what it may not carry.
pub(crate) fn drive(script: &[u8]) {
    let mut now = Instant::from_millis(1_000);
    let mut paths = Paths::default();
    (0..PATHS).for_each(|id| paths.push(path(now, id)));
    let mut script = script;
    while let [what, rest @ ..] = script {
        script = rest;
        let index = usize::from(what >> 3) % paths.len();
        match what % 8 {
            0..3 => {
                let len = rest.len().min(8);
                take_frames(&mut paths, &rest[..len]);
                script = &rest[len..];
            }
            3 => now += Duration::from_millis(1 << (what >> 3 & 15)),
            4 => drop(paths[index].set_present(now, what & 0x80 != 0)),
            5 => drop(paths[index].confirm_address(now, Duration::ZERO)),
            6 => send(now, &mut paths[index]),
            _ => paths.iter_mut().for_each(|path| drop(path.on_timeout(now))),
        }
        paths.assign(now);
        check(now, &paths);
    }
}

/// Takes frames as a session does.
fn take_frames(paths: &mut Paths, bytes: &[u8]) {
    for frame in Frames::new(bytes).map_while(Result::ok) {
        let Frame::PathUse(PathUseFrame { path, change, flags, cost }) = frame else { continue };
        let Some(usage) = PathUse::from_wire(flags, cost) else { continue };
        assert_eq!(usage.to_wire(), (flags, cost));
        assert!((0.001..=1e6).contains(&usage.cost.get()));
        if let Some(index) = paths.position(path) {
            paths[index].on_usage(change, usage);
        }
    }
}

fn check(now: Instant, paths: &Paths) {
    let says_control = |path: &Path| path.usage().carries.has(Carries::TIERS[0]);
    for tier in Carries::TIERS {
        let carried = paths.iter().any(|path| path.carries().has(tier));
        assert_eq!(paths.serving(tier).next().is_some(), carried, "{tier:?}: {paths:?}");
        for path in paths.serving(tier) {
            let may = path.usage().carries.has(tier) || !paths.iter().any(says_control);
            assert!(path.carries().has(tier) && may, "{tier:?}: {path:?}");
        }
        let shown = paths.shown_for(now, tier);
        assert!(shown.iter().map(|path| path.id).eq(paths.serving(tier).map(Path::id)));
    }
    assert!(paths.serving(Carries::TIERS[0]).next().is_some(), "control has a path");
    assert!(paths.iter().all(|path| path.usage().backup || !path.rests()), "{paths:?}");
}

fn path(now: Instant, id: u8) -> Path {
    let remote = Via::from(std::net::SocketAddr::from(([192, 0, 2, id], 4_600)));
    let route = Route { interface: InterfaceId(0), local: None, remote };
    let config = PathConfig {
        congestion: CongestionKind::DelayBounded,
        initiator: false,
        idle_probe: Duration::from_secs(1),
        protect_control: ProtectControl::Balanced,
    };
    Path::new(now, PathId(id), route, config, 1)
}

fn send(now: Instant, path: &mut Path) {
    let (pn, frames) = (path.next_packet_number(), Default::default());
    let outgoing = Outgoing {
        pn,
        bytes: 100,
        ack_eliciting: true,
        bulk: false,
        marked: false,
        route: None,
        frames,
    };
    path.on_packet_sent(now, outgoing);
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    #[test]
    fn whatever_is_said_of_the_paths_each_tier_has_one_that_may_carry_it() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let mut script = Vec::new();
            for _ in 0..60 {
                script.push(rng.below(256) as u8);
                if script.last().is_some_and(|what| what % 8 < 3) && rng.chance(0.9) {
                    let frame = PathUseFrame {
                        path: PathId(rng.below(4) as u8),
                        change: rng.below(20) as u8,
                        flags: rng.below(34) as u8,
                        cost: rng.below(3_000) as u32,
                    };
                    Frame::PathUse(frame).encode(&mut script);
                }
            }
            drive(&script);
        }
    }

    #[test]
    fn what_was_said_before_what_is_known_is_old() {
        let mut path = path(Instant::ZERO, 0);
        let [one, other] = [false, true].map(|backup| PathUse { backup, ..PathUse::default() });
        path.on_usage(2, other);
        path.on_usage(1, one);
        assert_eq!(path.usage(), other);
        // Numbers of changes begin again after 255.
        for change in 3..=300_u32 {
            path.on_usage(change as u8, if change % 2 == 0 { one } else { other });
        }
        assert_eq!(path.usage(), one);
        path.on_usage(250, other);
        assert_eq!(path.usage(), one);
    }

    #[test]
    fn the_peer_is_told_until_it_knows_the_last_change() {
        let mut path = path(Instant::ZERO, 0);
        assert_eq!(path.untold_usage(), None, "as long as nothing is said");
        path.set_usage(PathUse::default());
        assert_eq!(path.untold_usage(), None);
        let backup = PathUse { backup: true, ..PathUse::default() };
        path.set_usage(backup);
        assert_eq!(path.untold_usage(), Some((1, backup)));
        path.set_usage(PathUse::default());
        path.on_usage_told(1);
        assert_eq!(path.untold_usage(), Some((2, PathUse::default())));
        path.on_usage_told(2);
        assert_eq!(path.untold_usage(), None);
    }
}
