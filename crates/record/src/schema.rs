//! What a record holds: one structure for each kind of channel, with the JSON schema that stands in
//! the file.
//!
//! Messages are JSON, so that Foxglove, PlotJuggler and a script of ten lines read them. A value
//! that is not known is left out. Events and positions have the schemas that Foxglove knows by
//! name.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A structure that has a channel's schema.
pub trait Schema: Serialize {
    /// The schema's name in the file.
    const NAME: &'static str;

    /// Returns the schema: JSON Schema of an object.
    fn schema() -> Value;
}

/// Says how a value is described in a schema.
trait Described {
    fn described() -> Value;
    /// Whether it may be missing.
    const OPTIONAL: bool = false;
}

macro_rules! described {
    ($($kind:ty: $word:literal),+) => {$(
        impl Described for $kind {
            fn described() -> Value {
                json!({"type": $word})
            }
        }
    )+};
}

described!(f64: "number", u64: "integer", u32: "integer", u8: "integer", bool: "boolean", String: "string");

impl<T: Described> Described for Option<T> {
    const OPTIONAL: bool = true;

    fn described() -> Value {
        T::described()
    }
}

impl<T: Described> Described for Vec<T> {
    fn described() -> Value {
        json!({"type": "array", "items": T::described()})
    }
}

impl Described for [f64; 9] {
    fn described() -> Value {
        json!({"type": "array", "items": {"type": "number"}, "minItems": 9, "maxItems": 9})
    }
}

/// Declares a structure and its schema: `/// What it is.` `Name "schema";`, then `/// What it
/// says.` `field: type`.
macro_rules! schema {
    ($(#[doc = $about:literal])+ $name:ident $title:literal;
     $($(#[doc = $help:literal])+ $(#[serde($serde:meta)])? $field:ident: $type:ty,)+) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[doc = $help])+ $(#[serde($serde)])? pub $field: $type,)+
        }

        impl Described for $name {
            fn described() -> Value {
                let mut properties = Map::new();
                let mut required: Vec<&str> = Vec::new();
                $(
                    let mut described = <$type as Described>::described();
                    described["description"] = concat!($($help),+).trim_ascii().into();
                    properties.insert(stringify!($field).to_owned(), described);
                    if !<$type as Described>::OPTIONAL {
                        required.push(stringify!($field));
                    }
                )+
                json!({
                    "title": $title,
                    "description": concat!($($about),+).trim_ascii(),
                    "type": "object",
                    "properties": properties,
                    "required": required,
                })
            }
        }

        impl Schema for $name {
            const NAME: &'static str = $title;

            fn schema() -> Value {
                <Self as Described>::described()
            }
        }
    };
}

schema! {
    /// A path at one moment, some ten times a second.
    Path "fulmar.Path";

    /// Its name: a drone's as its file does, a station's where it comes from.
    name: String,
    /// Its number in the session.
    id: u8,
    /// What it is good for: absent, validating, active, suspected, closed.
    state: String,
    /// Whether it is a backup that nothing calls for.
    rests: bool,
    /// Smoothed round-trip time.
    #[serde(skip_serializing_if = "Option::is_none")]
    srtt_ms: Option<f64>,
    /// Its variation.
    #[serde(skip_serializing_if = "Option::is_none")]
    rttvar_ms: Option<f64>,
    /// Least round-trip time of the last seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt_ms: Option<f64>,
    /// Mean one-way delay, to the peer, of the copies of control that were acknowledged since the
    /// last sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_out_ms: Option<f64>,
    /// The least of these delays.
    #[serde(skip_serializing_if = "Option::is_none")]
    least_delay_out_ms: Option<f64>,
    /// How far the estimate of the peer's clock, and with it these delays, may be off.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_error_ms: Option<f64>,
    /// Share of our packets that are lost on the way to the peer, smoothed, 0 to 1.
    loss_out: f64,
    /// Share of the peer's packets that are lost on the way to us, smoothed, 0 to 1.
    loss_in: f64,
    /// Mean number of packets lost in a row.
    burst: f64,
    /// UDP payload that left since the last sample.
    out_mbps: f64,
    /// UDP payload that came since the last sample.
    in_mbps: f64,
    /// Rate at which the peer receives what we send.
    delivery_mbps: f64,
    /// What the narrowest hop carries, where something filled it lately.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_mbps: Option<f64>,
    /// Congestion window.
    cwnd_bytes: u64,
    /// Bytes sent, and neither acknowledged nor lost yet.
    in_flight_bytes: u64,
    /// UDP payload that the path is known to carry.
    mtu_bytes: u64,
    /// Datagrams sent since the session began.
    sent: u64,
    /// Bytes of them.
    sent_bytes: u64,
    /// Datagrams received since the session began.
    received: u64,
    /// Bytes of them.
    received_bytes: u64,
    /// Packets of ours that the peer has acknowledged.
    acked: u64,
    /// Packets of ours that were declared lost.
    lost: u64,
    /// Of those, packets that were acknowledged after all.
    late: u64,
    /// Time since anything came in by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_ms: Option<f64>,
}

schema! {
    /// What became of one message of control delivery that was handed in here. One whose end took
    /// long is there twice: the later one counts.
    Control "fulmar.Control";

    /// Its number; no other message of this computer's records has it, but for the same message
    /// again.
    number: u64,
    /// Liveness, live, control, telemetry or message.
    class: String,
    /// The consumer at the other end: 0 is the tunnel.
    channel: u8,
    /// Its MAVLink message id, where it is a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    mavlink: Option<u32>,
    /// Its bytes.
    bytes: u64,
    /// Its time to live.
    life_ms: f64,
    /// The copies that left, in order.
    copies: Vec<CopySent>,
    /// Time from handing in to the arrival of the first copy at the peer, by the estimate of its
    /// clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<f64>,
    /// What became of it: delivered, expired, superseded (a newer one took its place),
    /// indeterminate (delivered at most once), sent (nothing more is known), open (still under
    /// way).
    outcome: String,
    /// Whether it is control and was missed: it did not arrive within 100 ms.
    missed: bool,
    /// Why, in words; empty where it was not missed.
    why: String,
}

schema! {
    /// A copy of a control message.
    CopySent "fulmar.Copy";

    /// The name of the path that took it.
    path: String,
    /// When it left, after the message was handed in.
    sent_ms: f64,
    /// When it arrived, after the message was handed in, by the estimate of the peer's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived_ms: Option<f64>,
    /// Whether it was acknowledged.
    acked: bool,
    /// Whether it was declared lost.
    lost: bool,
}

schema! {
    /// A control message of the peer that was given to an application here.
    Received "fulmar.Received";

    /// Liveness, live or control.
    class: String,
    /// The consumer here: 0 is the tunnel.
    channel: u8,
    /// Its MAVLink message id, where it is a frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    mavlink: Option<u32>,
    /// Its bytes.
    bytes: u64,
    /// Time since it was handed in at the peer, by the estimate of its clock.
    age_ms: f64,
}

schema! {
    /// A session at one moment, once a second.
    Session "fulmar.Session";

    /// Whether it carries traffic.
    connected: bool,
    /// What the clock of the daemon showed, which the computer's date does not touch.
    clock_ms: f64,
    /// What the peer's clock of this kind, which counts since its computer started, shows beyond
    /// ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_ms: Option<f64>,
    /// How far that may be off.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_error_ms: Option<f64>,
    /// Its traffic by class, since the session began.
    classes: Vec<Class>,
    /// Its streams of messages.
    streams: Vec<Stream>,
}

schema! {
    /// The traffic of one class.
    Class "fulmar.Class";

    /// Which class.
    class: String,
    /// Handed in by our applications.
    submitted: u64,
    /// Handed in and dropped here.
    dropped: u64,
    /// Copies sent, first copies included.
    copies_sent: u64,
    /// Delivered to our applications.
    delivered: u64,
    /// Came in beyond its time to live or after a newer one, and was dropped.
    late: u64,
}

schema! {
    /// A stream of messages.
    Stream "fulmar.Stream";

    /// The consumer that it is for.
    channel: u8,
    /// Its number.
    stream: u32,
    /// Messages handed in.
    submitted: u64,
    /// Bytes that wait for a path.
    waiting_bytes: u64,
    /// Messages given up, since they would have come too late.
    expired: u64,
    /// Messages delivered to our applications.
    delivered: u64,
    /// Messages that came too late, or were passed over.
    late: u64,
}

schema! {
    /// The recorder itself, once a second.
    Recorder "fulmar.Recorder";

    /// Bytes written since the daemon started.
    written_bytes: u64,
    /// Notes that were not recorded: the disk was full, or did not keep up.
    dropped: u64,
}

schema! {
    /// A point in time.
    Time "time";

    /// Seconds since 1970.
    sec: u32,
    /// Nanoseconds beyond.
    nsec: u32,
}

schema! {
    /// A log message.
    Event "foxglove.Log";

    /// When it happened.
    timestamp: Time,
    /// Its severity: 1 debug, 2 info, 3 warning, 4 error.
    level: u8,
    /// What happened.
    message: String,
    /// The peer that it is about.
    name: String,
    /// Empty.
    file: String,
    /// Zero.
    line: u32,
}

schema! {
    /// A position, of MAVLink's GLOBAL_POSITION_INT.
    Position "foxglove.LocationFix";

    /// When it was received here.
    timestamp: Time,
    /// The system that it is of, as `system/component`.
    frame_id: String,
    /// Degrees, positive is north.
    latitude: f64,
    /// Degrees, positive is east.
    longitude: f64,
    /// Metres above mean sea level.
    altitude: f64,
    /// Not known: zeros.
    position_covariance: [f64; 9],
    /// 0: the covariance is not known.
    position_covariance_type: u8,
}

impl Time {
    /// Returns the point so many nanoseconds after 1970; beyond 2106 the last one that there is.
    pub fn from_ns(ns: u64) -> Self {
        let sec = u32::try_from(ns / 1_000_000_000).unwrap_or(u32::MAX);
        Self { sec, nsec: (ns % 1_000_000_000) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of<T: Schema + Default>() -> (Vec<String>, Vec<String>) {
        let value = serde_json::to_value(T::default()).unwrap();
        let schema = T::schema();
        let required: Vec<String> = serde_json::from_value(schema["required"].clone()).unwrap();
        (value.as_object().unwrap().keys().cloned().collect(), required)
    }

    #[test]
    fn what_a_schema_requires_is_what_is_always_written() {
        for (written, required) in [
            keys_of::<Path>(),
            keys_of::<Control>(),
            keys_of::<Received>(),
            keys_of::<Session>(),
            keys_of::<Recorder>(),
            keys_of::<Event>(),
            keys_of::<Position>(),
        ] {
            assert_eq!(written, required);
        }
        let properties = Event::schema();
        assert_eq!(properties["title"], "foxglove.Log");
        assert_eq!(properties["properties"]["timestamp"]["properties"]["nsec"]["type"], "integer");
    }
}
