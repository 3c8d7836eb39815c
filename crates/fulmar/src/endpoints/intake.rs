//! What a local endpoint takes from its programs: on the way from a port to the session.
//!
//! MAVLink comes as frames, whatever pieces a port brings: one datagram may hold several, and a
//! bridge from a serial line may cut one over two. What a program passes back is not taken
//! (`sources.rs`). Everything else is a message as it is.

use proto::Instant;
use proto::select::{MavlinkFrame, SETUP_SIGNING, StreamFramer};

use super::{
    Counts, Health, Held, LocalEndpoint, OFFER_AGAIN, Origin, Port, Program, RadioStatus, Shared,
    Sources, StatusText, Taken,
};
use crate::config::{Content, EndpointConfig, MavlinkContent};

/// What a port brings in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    /// A frame of a stream.
    Frame(&'a MavlinkFrame<'a>),
    /// A datagram of whatever it is.
    Datagram(&'a [u8]),
}

/// An endpoint without its port, and the session that takes what comes in.
pub(super) struct Intake<'a> {
    now: Instant,
    config: &'a EndpointConfig,
    counts: &'a mut Counts,
    health: &'a mut Health,
    radio_status: &'a mut Option<RadioStatus>,
    status_text: &'a mut Option<StatusText>,
    held: &'a mut Option<Held>,
    endpoint: u64,
    sources: &'a mut Sources,
    shared: &'a mut Vec<Shared>,
    take: &'a mut dyn FnMut(Instant, &[u8]) -> Taken,
}

impl Intake<'_> {
    /// Takes one piece that came at some time; false when nothing more may come for now.
    pub(super) fn take(&mut self, origin: Origin, came: Instant, piece: Piece<'_>) -> bool {
        self.counts.taken += 1;
        match (piece, &self.config.content) {
            (Piece::Frame(frame), Content::Mavlink(content)) => {
                self.take_frame((origin, came), frame, content);
                true
            }
            (Piece::Frame(frame), _) => self.take_message(came, frame.bytes),
            (Piece::Datagram(bytes), _) => self.take_message(came, bytes),
        }
    }

    fn take_frame(
        &mut self,
        (origin, came): (Origin, Instant),
        frame: &MavlinkFrame<'_>,
        content: &MavlinkContent,
    ) {
        if let Some(radio_status) = self.radio_status {
            radio_status.on_input(frame.bytes);
        }
        if let Some(status_text) = self.status_text {
            status_text.on_frames(frame.bytes);
        }
        self.health.on_frame(frame);
        if !content.filters.incoming.passes(frame) {
            self.counts.filtered += 1;
            return;
        }
        let from = Program { endpoint: self.endpoint, origin };
        if !self.sources.admits(self.now, from, frame) {
            self.counts.came_back += 1;
            self.counts.came_back_of = (frame.system, frame.component);
            return;
        }
        self.counts.on_taken((self.take)(came, frame.bytes));
        if content.share && frame.message != SETUP_SIGNING {
            self.shared.push(Shared { from, came, frame: frame.bytes.to_vec() });
        }
    }

    fn take_message(&mut self, came: Instant, bytes: &[u8]) -> bool {
        if is_foreign(&self.config.content, bytes) {
            self.counts.refused += 1;
            return true;
        }
        let taken = (self.take)(came, bytes);
        let waits = taken != Taken::Yes && self.config.waits_for(taken);
        if waits {
            let (message, offer_at) = (bytes.to_vec(), self.now + OFFER_AGAIN);
            *self.held = Some(Held { message, came, offer_at });
        } else {
            self.counts.on_taken(taken);
        }
        !waits
    }
}

impl LocalEndpoint {
    /// Divides the endpoint into its port, where that is there, and what takes from it.
    pub(super) fn intake<'a>(
        &'a mut self,
        now: Instant,
        sources: &'a mut Sources,
        take: &'a mut dyn FnMut(Instant, &[u8]) -> Taken,
    ) -> Option<(&'a mut Port, Intake<'a>)> {
        let Self { config, counts, health, port, radio_status, status_text, held, shared, .. } =
            self;
        let (endpoint, port) = (self.id, port.get_mut()?);
        let intake = Intake {
            now,
            config,
            counts,
            health,
            radio_status,
            status_text,
            held,
            endpoint,
            sources,
            shared,
            take,
        };
        Some((port, intake))
    }

    /// Gives up frames whose rest has not come in time, and takes those behind their beginnings.
    pub(crate) fn handle_stream_timeout(
        &mut self,
        now: Instant,
        sources: &mut Sources,
        take: &mut dyn FnMut(Instant, &[u8]) -> Taken,
    ) {
        if self.streams_due.is_none_or(|due| due > now) {
            return;
        }
        let Some((port, mut intake)) = self.intake(now, sources, take) else { return };
        port.for_each_stream(|origin, stream| {
            stream.handle_timeout(now, |frame| _ = intake.take(origin, now, Piece::Frame(frame)));
        });
        self.look_at_streams();
        self.health.look(now, &self.counts);
    }

    /// Notes what streams have lost, and when what waits in them is given up.
    pub(super) fn look_at_streams(&mut self) {
        let (lost, due) = (&mut self.counts.lost, &mut self.streams_due);
        *due = None;
        let Some(port) = self.port.get_mut() else { return };
        port.for_each_stream(|_, stream| {
            *lost += stream.take_loss();
            *due = [*due, stream.timeout()].into_iter().flatten().min();
        });
        *lost += match port {
            Port::Udp(port) => port.take_loss(),
            Port::Tcp(port) => port.take_loss(),
            Port::Serial(port) => port.take_loss(),
            Port::Seqpacket(_) => return,
        };
    }
}

impl Port {
    fn for_each_stream(&mut self, mut what: impl FnMut(Origin, &mut StreamFramer)) {
        match self {
            Self::Udp(port) => port.streams().for_each(|(origin, stream)| what(origin, stream)),
            Self::Tcp(port) => port.streams().for_each(|(origin, stream)| what(origin, stream)),
            Self::Serial(port) => what(Origin::Only, port.stream()),
            Self::Seqpacket(_) => {}
        }
    }
}

/// Tells whether an endpoint does not carry such bytes at all: RTP and RTCP have version 2 in
/// their first two bits, and no shorter headers [RFC 3550 §5.1, §6.4].
fn is_foreign(content: &Content, bytes: &[u8]) -> bool {
    let is_rtp = bytes.len() >= 8 && bytes[0] >> 6 == 2;
    matches!(content, Content::Message(content) if content.rtp) && !is_rtp
}
