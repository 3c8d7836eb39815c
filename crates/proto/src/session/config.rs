//! What an operator can set about a session.

use units::Duration;

use crate::congestion::CongestionKind;
use crate::delivery::message::MessageForm;
use crate::delivery::tunnel::TunnelForm;
use crate::path::ProtectControl;
use crate::schedule::SchedulerKind;
use crate::select::{Policy, Reliability, SelectorConfig};

/// Configures a session; both ends should agree on the scheduler, but need not.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// How bulk packets find a path.
    pub scheduler: SchedulerKind,
    /// How much a path may carry.
    pub congestion: CongestionKind,
    /// How messages travel; both ends must agree.
    pub message: MessageForm,
    /// Whether what the selector finds to be MAVLink's transfers travels coded, as messages
    /// (specs/message.md); otherwise it is sent again when its packet was lost.
    pub coded_transfers: bool,
    /// Which packets get which delivery policy.
    pub selector: SelectorConfig,
    /// How much of control is to be in time; a declared endpoint may have a target of its own.
    pub reliability: Reliability,
    /// Bulk that has waited longer for a path is dropped, the oldest first [specs/delivery.md §1].
    pub bulk_max_age: Duration,
    /// RTP packets of the tunnel that were lost are sent again as long as they arrive at no greater
    /// age; zero sends none again [specs/delivery.md §5] (rule 6).
    pub rtp_deadline: Duration,
    /// How TCP of the tunnel travels; where the scheduler replicates, plain.
    pub tunnel: TunnelForm,
    /// The longest time for which TCP packets of the plain form wait for an earlier one; zero
    /// delivers every packet as it comes [specs/delivery.md §5] (rule 4).
    pub resequence_max: Duration,
    /// A path that carried nothing for this long is probed; zero never probes.
    pub idle_probe: Duration,
    /// How much room bulk leaves to control on links whose rate falls.
    pub protect_control: ProtectControl,
    /// Whether every step of messages through control delivery is an event ([`crate::StepKind`]):
    /// for records of flights, some six events for each message.
    pub steps: bool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            scheduler: SchedulerKind::default(),
            congestion: CongestionKind::default(),
            message: MessageForm::default(),
            coded_transfers: true,
            selector: SelectorConfig::default(),
            reliability: Reliability::default(),
            bulk_max_age: Policy::BULK.ttl,
            rtp_deadline: Duration::from_millis(250),
            tunnel: TunnelForm::default(),
            resequence_max: Duration::from_millis(60),
            idle_probe: Duration::from_secs(1),
            protect_control: ProtectControl::default(),
            steps: false,
        }
    }
}
