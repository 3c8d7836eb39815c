//! The experiments: what each varies, which schemes it knows, which figures it gives.
//!
//! A folder each: its head says what varies and what comes out; `sim` runs it in virtual time, `emu` in
//! real time, both on `testbed`; `figures` and `picture` make something of it. What a file describes is
//! `file`.

pub(crate) mod file;
mod interval;
mod mavlink;
mod messages;
mod recorded;
mod share;
pub(crate) mod streams;
mod tcp_instability;
mod tcp_loss;
mod thin;
mod throughput;

use clap::{FromArgMatches, Subcommand};

use crate::arguments::RunArgs;
use crate::figure::Figure;
use crate::report::Report;
use crate::scheme::Known;
use emulator::Failure;

/// Names an experiment and holds its parameters.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Time from one control message to the next, which leaves 0.5 s after the last was delivered.
    ///
    /// The experiment of the ConClone paper (Fig. 9-12, Tables 2 and 3): two links with 28.4 % loss
    /// each. Figures: mean_s, std_s, max_s, over_1s, completion_s, lost, duplicates.
    ConcloneInterval(interval::ConcloneIntervalArgs),
    /// Control, a recorded flight and video, while the Wi-Fi goes silently dead and the LTE stalls.
    ///
    /// Figures, each the worse of both directions, which follow as `up` and `down`: control_sent,
    /// control_lost, control_late_100ms, control_gap_s, control_p50_ms, control_p99_ms; and
    /// data_goodput_mbps, wire_bytes, and how the video fared.
    MixedBlackout(streams::mixed_blackout::MixedBlackoutArgs),
    /// Control, live messages and a recorded flight over links that change, alone and beside video.
    ///
    /// Each scenario is a window, run twice over the same links. Figures, `up` (station to drone) and
    /// `down`: control_missed (lost or later than 100 ms), control_lost, control_gap_s,
    /// live_age_p99_ms and live_age_max_ms (age of the newest live message), video_share_250ms,
    /// video_frames_250ms (frames of which all came in time), wire_bytes (what entered the links), queue_dropped_bytes (what found a full queue), and for how
    /// many seconds how many links were alive. The scheme `bound` is what a sender could reach that
    /// knows the links' future, cases single, any_time, edf and edf_copies: docs/recorded.md.
    Recorded(recorded::RecordedArgs),
    /// Control over links thinner than what is to be said, at one rate after the other.
    ///
    /// Two cases: messages of which each counts, and set-points of which the newest counts beside
    /// commands. Figures, the worse of both directions: control_lost, control_late_100ms,
    /// control_p99_ms, live_age_p99_ms, live_age_max_ms, wire_bytes, and wire_share, what entered the
    /// links of what they carry. One object per scheme, rate and case.
    ThinLinks(thin::ThinLinksArgs),
    /// Goodput of one TCP connection over one link, two equal links, and links of 10 and 40 ms.
    ///
    /// The schedulers' comparison of the ConClone paper (Fig. 1). Figures: data_goodput_mbps,
    /// ratio_to_single, retransmits, wire_overhead. One object per scheme and kind of links.
    Throughput(throughput::ThroughputArgs),
    /// The better of two loss-free links dies silently, again and again, at any instant.
    ///
    /// Figures: control_lost, control_duplicates, control_max_ms, control_excess_ms (over the
    /// surviving link's one-way delay), data_move_p50_ms, data_move_max_ms.
    Failover(streams::failover::FailoverArgs),
    /// TCP over two relays whose link comes and goes: each flow beside a CUBIC flow (ASRAN Table 1).
    ///
    /// Outages are fitted to the paper's Fig. 1. Figures: throughput_mbps, throughput_std_mbps,
    /// cubic_mbps, ratio_to_cubic, cubic_kept, jain, zero_share, srtt_ms, recoveries, timeouts,
    /// retransmits, queue_drops; with --sim what a flow of constant rate sees: zero_share,
    /// full_share, deciles_kbps. One object per scheme and combination of the lists.
    AsranInstability(tcp_instability::AsranInstabilityArgs),
    /// The same with a third sender that fills the queue (ASRAN Table 2).
    AsranTraffic(tcp_instability::traffic::AsranTrafficArgs),
    /// How many control messages in a row need no retransmission (ConClone Fig. 5).
    ///
    /// Figures: runs, mean_run, expected_mean_run, longest_run, lambda, fit_distance.
    Lifetime(interval::lifetime::LifetimeArgs),
    /// Congestion controls of the kernel's TCP over one lossy link, alone and beside a CUBIC flow.
    ///
    /// A grid of loss, round-trip time and length of the queue. Figures, medians over the
    /// repetitions: throughput_mbps, throughput_std_mbps, ratio_to_asran, ratio_to_bbr, queue_ms,
    /// queue_ratio_to_asran, srtt_ms, retransmits, and of the CUBIC flow beside: beside_mbps,
    /// beside_kept, jain.
    AsranLoss(tcp_loss::AsranLossArgs),
    /// In-order delay of messages that must all arrive, at 2, 5 and 10 % loss (LRT Fig. 5).
    ///
    /// Coded against retransmitted. Figures, one object per scheme, loss and combination of what is
    /// swept: delivered, exact_share, p50_ms, p99_ms, p999_ms, max_ms, sent_per_message.
    LrtTcp(messages::LrtArgs),
    /// In-order delay of messages that must all arrive, online code against block code (LRT Fig. 6).
    ///
    /// Blocks are what comes in within 10 ms. Figures as of lrt-tcp, at 5 % loss.
    LrtBlock(messages::LrtArgs),
    /// What saturating message streams leave to each other, and to TCP, on one link.
    ///
    /// Figures, one object per flow of each setting: goodput_mbps, of_fair_share.
    MessageShare(share::MessageShareArgs),
    /// Parameters and a file over MAVLink, coded, sent again, and without daemons.
    ///
    /// Figures, one object per loss and form: parameters_s, burst_s, reads_s, requests, and of the
    /// commands beside: command_up_p99_ms, command_down_p99_ms, command_max_ms, commands_lost.
    MavlinkBulk(mavlink::MavlinkBulkArgs),
    /// An experiment that a TOML file describes: `fulmar-lab run FILE.toml --sim`.
    ///
    /// Links, streams of traffic, schemes, seeds, sweeps and the figures wanted, without a line of
    /// Rust: docs/experiments.md. experiments/mixed-blackout.toml is an example.
    File(file::FileArgs),
}

/// Describes an experiment for `fulmar-lab list`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    /// The name that `fulmar-lab run` takes.
    pub(crate) experiment: &'static str,
    /// What is measured, in a line.
    pub(crate) about: &'static str,
    /// Schemes of the world.
    pub(crate) sim: Known,
    /// Schemes of the emulator.
    pub(crate) emu: Known,
    /// The columns of its table.
    pub(crate) figures: &'static [Figure],
}

impl Description {
    /// Returns the columns of its table: key, title.
    pub(crate) fn columns(&self) -> Vec<(String, String)> {
        self.figures.iter().map(Figure::column).collect()
    }

    /// Lists the columns for `--help`.
    pub(crate) fn help(&self) -> String {
        let keys: Vec<String> = self.figures.iter().map(Figure::path).collect();
        format!("The table's columns, as CSV and JSON call them:\n  {}", keys.join(", "))
    }
}

impl Experiment {
    /// Every experiment.
    ///
    /// What a file says is its own affair.
    pub(crate) const ALL: [Description; 14] = [
        interval::DESCRIPTION,
        streams::mixed_blackout::DESCRIPTION,
        recorded::DESCRIPTION,
        thin::DESCRIPTION,
        throughput::DESCRIPTION,
        streams::failover::DESCRIPTION,
        interval::lifetime::DESCRIPTION,
        tcp_instability::DESCRIPTION,
        tcp_instability::traffic::DESCRIPTION,
        tcp_loss::DESCRIPTION,
        messages::TCP,
        messages::BLOCK,
        share::DESCRIPTION,
        mavlink::DESCRIPTION,
    ];

    /// Reads an experiment from its name and its options, as `fulmar-lab run` is given them.
    ///
    /// # Errors
    /// Says which word is wrong, and why.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let name = clap::Command::new("fulmar-lab run").no_binary_name(true);
        let command = Self::augment_subcommands(name.subcommand_required(true));
        let matches = command.try_get_matches_from(words);
        let experiment = matches.and_then(|matches| Self::from_arg_matches(&matches));
        experiment.map_err(|error| error.to_string())
    }

    /// Returns what every experiment takes.
    pub(crate) fn run_args(&self) -> &RunArgs {
        match self {
            Self::ConcloneInterval(args) => &args.run,
            Self::MixedBlackout(args) => &args.run,
            Self::Recorded(args) => &args.run,
            Self::ThinLinks(args) => &args.run,
            Self::Throughput(args) => &args.run,
            Self::Failover(args) => &args.run,
            Self::Lifetime(args) => &args.run,
            Self::AsranInstability(args) => &args.meeting.run,
            Self::AsranTraffic(args) => &args.meeting.run,
            Self::AsranLoss(args) => &args.run,
            Self::LrtTcp(args) | Self::LrtBlock(args) => &args.run,
            Self::MessageShare(args) => &args.run,
            Self::MavlinkBulk(args) => &args.run,
            Self::File(args) => &args.run,
        }
    }

    /// Returns the description of this experiment.
    pub(crate) fn description(&self) -> Description {
        match self {
            Self::ConcloneInterval(_) => interval::DESCRIPTION,
            Self::MixedBlackout(_) => streams::mixed_blackout::DESCRIPTION,
            Self::Recorded(_) => recorded::DESCRIPTION,
            Self::ThinLinks(_) => thin::DESCRIPTION,
            Self::Throughput(_) => throughput::DESCRIPTION,
            Self::Failover(_) => streams::failover::DESCRIPTION,
            Self::Lifetime(_) => interval::lifetime::DESCRIPTION,
            Self::AsranInstability(_) => tcp_instability::DESCRIPTION,
            Self::AsranTraffic(_) => tcp_instability::traffic::DESCRIPTION,
            Self::AsranLoss(_) => tcp_loss::DESCRIPTION,
            Self::LrtTcp(_) => messages::TCP,
            Self::LrtBlock(_) => messages::BLOCK,
            Self::MessageShare(_) => share::DESCRIPTION,
            Self::MavlinkBulk(_) => mavlink::DESCRIPTION,
            Self::File(_) => file::DESCRIPTION,
        }
    }

    /// Runs the experiment.
    pub(crate) fn run(&self) -> Result<Report, Failure> {
        match self {
            Self::ConcloneInterval(args) => interval::run(args),
            Self::MixedBlackout(args) => streams::mixed_blackout::run(args),
            Self::Recorded(args) => recorded::run(args),
            Self::ThinLinks(args) => thin::run(args),
            Self::Throughput(args) => throughput::run(args),
            Self::Failover(args) => streams::failover::run(args),
            Self::Lifetime(args) => interval::lifetime::run(args),
            Self::AsranInstability(args) => tcp_instability::run(args),
            Self::AsranTraffic(args) => tcp_instability::traffic::run(args),
            Self::AsranLoss(args) => tcp_loss::run(args),
            Self::LrtTcp(args) => messages::run_tcp(args),
            Self::LrtBlock(args) => messages::run_block(args),
            Self::MessageShare(args) => share::run(args),
            Self::MavlinkBulk(args) => mavlink::run(args),
            Self::File(args) => file::run(args),
        }
    }
}
