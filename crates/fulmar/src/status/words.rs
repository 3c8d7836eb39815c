//! The words of the status for states and kinds.

use proto::{
    Call, Carries, MessageOrder, MessageStreamStatus, PathState, ReliabilityState, TunnelForm, Via,
};

use crate::config::{Carrier, path_use};

/// Returns the word for a state.
pub(crate) fn state_word(state: PathState) -> &'static str {
    match state {
        PathState::Absent => "absent",
        PathState::Validating => "validating",
        PathState::Active => "active",
        PathState::Suspected => "suspected",
        PathState::Closed => "closed",
    }
}

/// Returns the word for what a path's datagrams travel in.
pub(crate) fn carrier_word(remote: Via) -> &'static str {
    match remote {
        Via::Udp(_) => Carrier::Udp.word(),
        Via::Stream(_) => Carrier::Tcp.word(),
        Via::Relay(_) => "relay",
    }
}

/// Returns the words for what a backup is called for.
pub(crate) fn call_words(call: Call) -> &'static str {
    match call {
        Call::Silent => "answers are missing on the paths before it",
        Call::Slow => "control takes too long on the paths before it",
        Call::Full => "the sockets of the paths before it are full",
        Call::Down => "no path before it works",
        Call::Alone => "no path before it may carry what it carries",
        Call::Target => "a reliability target cannot be reached without it",
    }
}

/// Returns the word for the state of a target.
pub(crate) fn reliability_word(state: ReliabilityState) -> &'static str {
    match state {
        ReliabilityState::Learning => "learning",
        ReliabilityState::Met => "met",
        ReliabilityState::NotReachable => "not reachable",
    }
}

/// Returns the words for what a path carries.
pub(super) fn tiers(carries: Option<Carries>) -> String {
    let tiers = carries.into_iter().flat_map(Carries::tiers);
    tiers.map(path_use::word).collect::<Vec<_>>().join(", ")
}

pub(super) fn tunnel_word(form: TunnelForm) -> &'static str {
    match form {
        TunnelForm::Window => "window",
        TunnelForm::FlowCode(_) => "flowcode",
        TunnelForm::Plain => "plain",
    }
}

pub(super) fn order_word(order: MessageOrder) -> &'static str {
    match order {
        MessageOrder::InOrder => "in-order",
        MessageOrder::Unordered => "unordered",
    }
}

pub(super) fn direction_word(stream: &MessageStreamStatus) -> &'static str {
    match (stream.submitted, stream.delivered + stream.late) {
        (1.., 1..) => "both",
        (1.., 0) => "out",
        (0, _) => "in",
    }
}
