//! Before a run: greetings on every channel until each side has heard the other.
//!
//! Proves that daemons, keys, sockets and links work, and makes local endpoints know their
//! applications. Greetings belong to no ledger.

use units::{Duration, Instant};

use super::carrier::Carrier;
use super::interruption;
use super::links::Side;
use super::{Direction, Recording, Stream};

/// What a greeting says on streams without a format of their own.
const GREETING: &[u8] = b"fulmar-lab greets";
/// How long everything may take to come up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Quiet time after the last greeting.
const QUIET: Duration = Duration::from_millis(300);

/// Greets until every channel works both ways, then waits until nothing is under way any more.
/// Returns when they did.
///
/// # Errors
/// Names the channels that stayed silent, or the daemon that ended. What becomes of somebody's own
/// programs is noted with their scheme and is no error.
pub(crate) fn greet(carrier: &mut Carrier, recording: &Recording) -> Result<Instant, String> {
    let Some(scheme) = carrier.programs.scheme() else { return hear_all(carrier, recording) };
    if scheme.has_failed() {
        return Ok(sys::clock::now());
    }
    let heard = hear_all(carrier, recording);
    interruption::check()?;
    Ok(heard.unwrap_or_else(|why| {
        scheme.fail(carrier.programs.with_last_words(why));
        sys::clock::now()
    }))
}

fn hear_all(carrier: &mut Carrier, recording: &Recording) -> Result<Instant, String> {
    let started = sys::clock::now();
    let mut silent: Vec<(Side, Stream)> = carrier.channels.keys().copied().collect();
    while !silent.is_empty() {
        interruption::check()?;
        if let Some(daemons) = &mut carrier.daemons {
            daemons.check()?;
        }
        carrier.programs.check_failed()?;
        if sys::clock::now().since(started) > PATIENCE {
            let names: Vec<String> = silent
                .iter()
                .map(|(side, stream)| format!("{stream:?} at the {}", side.name()))
                .collect();
            return Err(format!("nothing heard within {PATIENCE:?}: {}", names.join(", ")));
        }
        for ((side, stream), (outlet, _)) in &mut carrier.channels {
            outlet.send(&greeting(*stream, *side, recording), true);
        }
        silent.retain(|key| {
            let mut heard = false;
            if let Some((_, inlet)) = carrier.channels.get_mut(key) {
                // A broken channel stays silent, which is what is reported.
                let _ = inlet.receive(|_| heard = true);
            }
            !heard
        });
    }
    let heard = sys::clock::now();
    drain(carrier);
    Ok(heard)
}

/// Reads away what is still under way.
fn drain(carrier: &mut Carrier) {
    std::thread::sleep(QUIET.into());
    for (_, inlet) in carrier.channels.values_mut() {
        loop {
            let mut heard = false;
            let result = inlet.receive(|_| heard = true);
            if !heard || result.is_err() {
                break;
            }
        }
    }
}

/// Returns what is said on a stream.
fn greeting(stream: Stream, side: Side, recording: &Recording) -> Vec<u8> {
    match stream {
        // A MAVLink endpoint takes nothing but MAVLink.
        Stream::Mavlink | Stream::Telemetry => first_frame(recording, side.sends()),
        _ => GREETING.to_vec(),
    }
}

fn first_frame(recording: &Recording, direction: Direction) -> Vec<u8> {
    recording.frames(direction).first().map_or_else(Vec::new, |frame| frame.bytes.to_vec())
}
