//! What each model is asked with.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use models::asran::Stretch;
use models::conclone::channel::Radio;
use models::conclone::inertia::Vehicle;

use crate::arguments::{loss, positive};

/// Interfaces beyond e to this are none that a vehicle could carry.
pub(super) const LIFETIMES_MAX: f64 = 10.0;
/// The most points of a channel.
pub(super) const POINTS_MAX: f64 = 10_000.0;

/// Names a model.
#[derive(Debug, Subcommand)]
pub(crate) enum Model {
    /// ConClone, equations 1 to 16: each figure beside the one that the paper prints.
    Conclone {
        /// Print one JSON object on stdout.
        #[arg(long)]
        json: bool,
    },
    /// ASRAN, equations 1 to 3: what it gains over CUBIC between two losses.
    AsranGain(AsranGainArgs),
    /// ConClone, equations 1 and 2 (Fig. 3): how likely one copy at least arrives.
    Success(SuccessArgs),
    /// ConClone, equations 3 to 7 (Fig. 4): how long messages one after the other take.
    Completion(CompletionArgs),
    /// ConClone, equation 7 solved for f: which loss a completion time allows.
    MaxFailure(MaxFailureArgs),
    /// ConClone, equations 9 and 10 (Fig. 7): how many interfaces a lifetime needs.
    Interfaces(InterfacesArgs),
    /// ConClone, equations 11 to 14 (Fig. 8): path loss and errors over distance.
    Channel(ChannelArgs),
    /// ConClone, equations 15 and 16 (Table 1): moments of inertia with interfaces, kg·m².
    Inertia(InertiaArgs),
    /// ConClone, equation 7 with outages: completion where connections are unstable, which the
    /// paper leaves open.
    ///
    /// Also tells which outages would explain the completion times that the paper measured, 110.44
    /// and 68.17 s.
    Outages(OutagesArgs),
}

/// What a model prints, and where it draws.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// Print one JSON object on stdout.
    #[arg(long)]
    pub(super) json: bool,
    /// Also draw the paper's picture into this directory, where it has one.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

/// What the model of ASRAN takes; the paper's example unasked.
#[derive(Clone, Debug, Args)]
pub(crate) struct AsranGainArgs {
    /// Window just after a loss.
    #[arg(long, default_value_t = 1.0, value_name = "WINDOW")]
    pub(super) i: f64,
    /// Window before the previous loss, which slow start returns to.
    #[arg(long, default_value_t = 2.0, value_name = "WINDOW")]
    pub(super) last_max: f64,
    /// Time until the next loss.
    #[arg(long, default_value_t = 2.5, value_name = "TIME")]
    pub(super) t: f64,
    /// Distance of the points that are summed.
    #[arg(long, default_value_t = 0.1, value_name = "TIME")]
    pub(super) step: f64,
    /// A sub-flow (of MPTCP) as I,LAST_MAX,T or I,LAST_MAX,T,RTT; give it once for each.
    #[arg(long, value_name = "I,LAST_MAX,T[,RTT]", value_parser = Stretch::parse)]
    pub(super) subflow: Vec<Stretch>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    pub(super) json: bool,
}

/// Eq. 1 and 2.
#[derive(Clone, Debug, Args)]
pub(crate) struct SuccessArgs {
    /// Probability that a copy fails, 0 to below 1: one for all interfaces, or one for each.
    #[arg(long, required = true, value_delimiter = ',', value_name = "P,...", value_parser = loss)]
    pub(super) f: Vec<f64>,
    /// Interfaces, where they all have the same f; 1 unless said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) n: Option<u32>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Messages one after the other; the paper's experiment unasked.
#[derive(Clone, Debug, Args)]
pub(crate) struct MessagesArgs {
    /// Probability that a copy fails, 0 to below 1.
    #[arg(long, default_value_t = 0.284, value_name = "P", value_parser = loss)]
    pub(super) f: f64,
    /// Failure coefficient: what a failure costs, in intervals.
    #[arg(long, default_value_t = 1.122, value_name = "K", value_parser = positive)]
    pub(super) k: f64,
    /// Interfaces.
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) n: u32,
    /// Messages.
    #[arg(long, default_value_t = 120, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) count: u32,
    /// From a delivery to the next message, seconds.
    #[arg(long, default_value_t = 0.5, value_name = "S", value_parser = positive)]
    pub(super) interval: f64,
}

/// Eq. 3 to 7.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionArgs {
    #[command(flatten)]
    pub(super) messages: MessagesArgs,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Eq. 7 solved for f.
#[derive(Clone, Debug, Args)]
pub(crate) struct MaxFailureArgs {
    /// Completion time over that without failures, above 1.
    #[arg(long, default_value_t = 1.1, value_name = "RATIO", value_parser = positive)]
    pub(super) tr: f64,
    /// Failure coefficient: what a failure costs, in intervals.
    #[arg(long, default_value_t = 1.5, value_name = "K", value_parser = positive)]
    pub(super) k: f64,
    /// Interfaces.
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) n: u32,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Eq. 9 and 10.
#[derive(Clone, Debug, Args)]
pub(crate) struct InterfacesArgs {
    /// Rate at which one interface's lifetime ends.
    #[arg(long, default_value_t = 2.0, value_name = "RATE", value_parser = positive)]
    pub(super) lambda: f64,
    /// Mean lifetime that is required.
    #[arg(long, default_value_t = 0.8, value_name = "TIME", value_parser = positive)]
    pub(super) alpha: f64,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Eq. 11 to 14.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChannelArgs {
    /// Path-loss exponent: 2.03 air to ground, 2.01 air to air.
    #[arg(long, default_value_t = 2.03, value_name = "ALPHA", value_parser = positive)]
    pub(super) alpha: f64,
    /// First distance, metres.
    #[arg(long, default_value_t = 1.0, value_name = "M", value_parser = positive)]
    pub(super) from: f64,
    /// Last distance, metres.
    #[arg(long, default_value_t = 100.0, value_name = "M", value_parser = positive)]
    pub(super) to: f64,
    /// From one distance to the next, metres.
    #[arg(long, default_value_t = 1.0, value_name = "M", value_parser = positive)]
    pub(super) step: f64,
    /// κ1 of the bit error rate.
    #[arg(long, default_value_t = 0.2, value_name = "K1", value_parser = positive)]
    pub(super) kappa_1: f64,
    /// κ2 of the bit error rate.
    #[arg(long, default_value_t = 1.5, value_name = "K2", value_parser = positive)]
    pub(super) kappa_2: f64,
    /// ρ: bits of a symbol.
    #[arg(long, default_value_t = 6.0, value_name = "BITS", value_parser = positive)]
    pub(super) rho: f64,
    /// L: bits of a frame.
    #[arg(long, default_value_t = 12_000.0, value_name = "BITS", value_parser = positive)]
    pub(super) frame_bits: f64,
    /// N_re: how often a frame is sent again below the packet.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) retries: u32,
    /// N_fr: frames of a packet.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) frames: u32,
    /// h·p_tr: the signal at 1 m; unless given, so that 29 % of the packets are lost at 80 m, air
    /// to ground.
    #[arg(long, value_name = "SIGNAL", value_parser = positive)]
    pub(super) signal: Option<f64>,
    #[command(flatten)]
    pub(super) output: Output,
}

impl ChannelArgs {
    /// Returns the radio that is asked about.
    pub(super) fn radio(&self) -> Radio {
        Radio {
            kappa_1: self.kappa_1,
            kappa_2: self.kappa_2,
            bits_per_symbol: self.rho,
            frame_bits: self.frame_bits,
            retries: self.retries,
            frames: self.frames,
        }
    }
}

/// Eq. 15 and 16.
#[derive(Clone, Debug, Args)]
pub(crate) struct InertiaArgs {
    /// Interfaces.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) n: u32,
    /// m_r: mass of a rotor with its motor, kilograms. The paper does not print it: 0.03 is fitted
    /// to its Table 1.
    #[arg(long, default_value_t = 0.03, value_name = "KG", value_parser = positive)]
    pub(super) rotor_kg: f64,
    /// m_i: mass of an interface, kilograms.
    #[arg(long, default_value_t = 0.016, value_name = "KG", value_parser = positive)]
    pub(super) interface_kg: f64,
    /// M_T: mass of the vehicle with one interface, kilograms.
    #[arg(long, default_value_t = 1.013, value_name = "KG", value_parser = positive)]
    pub(super) total_kg: f64,
    /// L: from the centre of mass to a rotor, metres.
    #[arg(long, default_value_t = 0.25, value_name = "M", value_parser = positive)]
    pub(super) arm_m: f64,
    /// R_C: radius of the body, metres.
    #[arg(long, default_value_t = 0.07, value_name = "M", value_parser = positive)]
    pub(super) body_radius_m: f64,
    #[command(flatten)]
    pub(super) output: Output,
}

impl InertiaArgs {
    /// Returns the vehicle that is asked about.
    pub(super) fn vehicle(&self) -> Vehicle {
        Vehicle {
            arm_m: self.arm_m,
            body_radius_m: self.body_radius_m,
            total_kg: self.total_kg,
            interface_kg: self.interface_kg,
            rotor_kg: self.rotor_kg,
        }
    }
}

/// Eq. 7 with outages.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutagesArgs {
    #[command(flatten)]
    pub(super) messages: MessagesArgs,
    /// Joint outages that begin per second in which there is none.
    #[arg(long, default_value_t = 0.0, value_name = "HZ", value_parser = none_or_more)]
    pub(super) rate_hz: f64,
    /// Their mean length, seconds.
    #[arg(long, default_value_t = 2.0, value_name = "S", value_parser = none_or_more)]
    pub(super) length_s: f64,
    /// From one try to the next during an outage, seconds; unless said what a failure costs, k
    /// intervals.
    #[arg(long, value_name = "S", value_parser = none_or_more)]
    pub(super) retry_s: Option<f64>,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Reads a number that may be zero.
fn none_or_more(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=1e6).contains(value));
    value.ok_or_else(|| format!("`{text}` is not a number from 0 to a million"))
}
