//! The experiments: what each varies, which schemes it knows, which figures it gives.
//!
//! A folder each: its head says what varies and what comes out; `sim` runs it in virtual time,
//! `emu` in real time, both on `testbed`; `figures` and `picture` make something of it. What a file
//! describes is `file`.

mod blocked;
mod bulk;
mod conclone_target;
mod falls;
pub(crate) mod file;
mod flowcode_flight;
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
use crate::scheme::{Known, take_failures};
use emulator::Failure;
pub(crate) use recorded::lacks_recordings;

/// Names an experiment and holds its parameters.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Time from one control message to the next, which leaves 0.5 s after the last was delivered.
    ///
    /// The experiment of the ConClone paper (Fig. 9-12, Tables 2 and 3): two links with 28.4 % loss
    /// each.
    ConcloneInterval(interval::ConcloneIntervalArgs),
    /// What a reliability target costs, and whether it is kept, over links of every kind.
    ///
    /// Links that lose packets by themselves, in bursts, together, or for a while; that die; of
    /// which one is dear or thin; recorded ones. Figures leave the first minute out, from_start has
    /// it. One object per kind of links, class, target, deadline and scheme.
    ConcloneTarget(conclone_target::TargetArgs),
    /// Control, a recorded flight and video, while the Wi-Fi goes silently dead and the LTE stalls.
    ///
    /// Figures of control are the worse of both directions, which follow as `up` and `down`.
    MixedBlackout(streams::mixed_blackout::MixedBlackoutArgs),
    /// Control, a recorded flight and video over networks that let TCP alone through.
    ///
    /// UDP does not pass by one link or by both, from the start or all of a sudden. Figures of
    /// control are the worse of both directions. One object per case and scheme.
    Blocked(blocked::BlockedArgs),
    /// Control, live messages and a recorded flight over links that change, alone and beside video.
    ///
    /// Each scenario is a window, run twice over the same links. Figures are those of each
    /// direction, `up` (station to drone) and `down`: missed is lost or later than 100 ms, an age
    /// is that of the newest live message. The scheme `bound` is what a sender could reach that
    /// knows the links' future, cases single, any_time, edf and edf_copies: docs/recorded.md.
    Recorded(recorded::RecordedArgs),
    /// Control over links thinner than what is to be said, at one rate after the other.
    ///
    /// Two cases: messages of which each counts, and set-points of which the newest counts beside
    /// commands. Figures are the worse of both directions, wire_share is what entered the links of
    /// what they carry. One object per scheme, rate and case.
    ThinLinks(thin::ThinLinksArgs),
    /// Links that were fast become thin, and fast again: how long control is silent.
    ///
    /// A grid of rates from and to, links, lengths of the fall, queues, loads and losses, and
    /// scenes beside it. Figures are the worse of both directions; `bars_missed` says of fulmar
    /// which of the bars it misses that the figures of the others set (docs/experiments.md). One
    /// object per cell and scheme.
    Falls(falls::FallsArgs),
    /// Goodput of one TCP connection over one link, two equal links, and links of 10 and 40 ms.
    ///
    /// The schedulers' comparison of the ConClone paper (Fig. 1). One object per scheme and kind of
    /// links.
    Throughput(throughput::ThroughputArgs),
    /// TCP over unequal links that lose packets, fall silent, or were recorded.
    ///
    /// One flow of unlimited data from drone to station, pings beside it; every scheme at once,
    /// each over links of its own, under each congestion control. `two`: two flows at once;
    /// `requests`: 1 kB and an answer as long over a connection of their own, five a second, beside
    /// the flow and after it; `veth` (--emu): no links, but cables as fast as the processors, one
    /// scheme after the other.
    ///
    /// One object per scheme, congestion control and point; medians over --repetitions, means over
    /// --seeds. of_ceiling is steady_mbps over what the links carry of TCP's payload. of_one
    /// (`two`) needs `lossy` in the same run, of_plain and cpu_of_plain the scheme `min_rtt`. What
    /// is null cannot be had: cpu_s in the world, or where the kernel alone carries the flow. What
    /// the machine lacks is an object with `skipped` and the reason. docs/experiments.md explains
    /// each figure.
    BulkLossy(bulk::BulkLossyArgs),
    /// TCP to a drone that flies past four masts, over relays and without (FlowCode Table I, Fig. 6
    /// and 7).
    ///
    /// One flow of unlimited data over a flight's slot matrix: `fulmar` and `flowcode` by four
    /// relays on the ground and four in the air, tcp_lrr over the best single link, min_rtt over
    /// four links. One object per region, scheme and congestion control; docs/experiments.md
    /// explains each figure.
    FlowcodeFlight(flowcode_flight::FlightArgs),
    /// TCP over four recorded Wi-Fi links at once, which fall silent together, without relays.
    ///
    /// One flow of unlimited data from drone to station over windows of a recording of four access
    /// points and four moving clients; `fulmar` and `flowcode` are coded tunnels, min_rtt one path
    /// at a time, kernel_mptcp (--emu) all links, tcp_lrr and kernel_tcp the best link of the
    /// window. One object per window, scheme and congestion control, and of all windows the
    /// medians. Without the recordings every object has `skipped` and the reason: FULMAR_SHARED
    /// names the folder. docs/experiments.md explains each figure.
    FlowcodeRecorded(bulk::flowcode_recorded::FlowcodeRecordedArgs),
    /// The better of two loss-free links dies silently, again and again, at any instant.
    ///
    /// control_excess_ms is over the surviving link's one-way delay.
    Failover(streams::failover::FailoverArgs),
    /// TCP over two relays whose link comes and goes: each flow beside a CUBIC flow (ASRAN Table
    /// 1).
    ///
    /// Outages are fitted to the paper's Fig. 1; with --sim there is only what a flow of constant
    /// rate sees of them. One object per scheme and combination of the lists.
    AsranInstability(tcp_instability::AsranInstabilityArgs),
    /// The same with a third sender that fills the queue (ASRAN Table 2).
    AsranTraffic(tcp_instability::traffic::AsranTrafficArgs),
    /// How many control messages in a row need no retransmission (ConClone Fig. 5).
    Lifetime(interval::lifetime::LifetimeArgs),
    /// Congestion controls of the kernel's TCP over one lossy link, alone and beside a CUBIC flow.
    ///
    /// A grid of loss, round-trip time and length of the queue. Figures are medians over the
    /// repetitions; beside_mbps and beside_kept are those of the CUBIC flow beside.
    AsranLoss(tcp_loss::AsranLossArgs),
    /// In-order delay of messages that must all arrive, at 2, 5 and 10 % loss (LRT Fig. 5).
    ///
    /// Coded against retransmitted. One object per scheme, loss and combination of what is swept.
    LrtTcp(messages::LrtArgs),
    /// In-order delay of messages that must all arrive, online code against block code (LRT Fig.
    /// 6).
    ///
    /// Blocks are what comes in within 10 ms; 5 % loss.
    LrtBlock(messages::LrtArgs),
    /// What saturating message streams leave to each other, and to TCP, on one link.
    ///
    /// One object per flow of each setting.
    MessageShare(share::MessageShareArgs),
    /// Parameters and a file over MAVLink, coded, sent again, and without daemons.
    ///
    /// One object per loss and form; the figures of commands are those of commands beside them.
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
    /// What its results have beside these.
    pub(crate) beside: &'static [&'static [Figure]],
}

impl Description {
    /// Returns the columns of its table: key, title.
    pub(crate) fn columns(&self) -> Vec<(String, String)> {
        self.figures.iter().map(Figure::column).collect()
    }

    /// Lists the columns for `--help`.
    pub(crate) fn help(&self) -> String {
        let key = |figure: &Figure| {
            if figure.is_of_emu { format!("{} (--emu)", figure.path()) } else { figure.path() }
        };
        let keys: Vec<String> = self.figures.iter().map(key).collect();
        let mut help =
            format!("The table's columns, as CSV and JSON call them:\n  {}", keys.join(", "));
        let others: Vec<String> = self.others().map(|figure| figure.path()).collect();
        if !others.is_empty() {
            help += &format!("\n\nResults in JSON also have:\n  {}", others.join(", "));
        }
        help
    }

    /// Returns all figures of its results.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &'static Figure> {
        self.figures.iter().chain(self.beside.iter().copied().flatten())
    }

    /// Returns the figures of results that are no columns.
    fn others(&self) -> impl Iterator<Item = &'static Figure> {
        let columns = self.figures;
        let is_column = move |figure: &Figure| columns.iter().any(|one| one.key == figure.key);
        self.beside.iter().copied().flatten().filter(move |figure| !is_column(figure))
    }
}

impl Experiment {
    /// Every experiment.
    ///
    /// What a file says is its own affair.
    pub(crate) const ALL: [Description; 20] = [
        interval::DESCRIPTION,
        conclone_target::DESCRIPTION,
        streams::mixed_blackout::DESCRIPTION,
        blocked::DESCRIPTION,
        recorded::DESCRIPTION,
        thin::DESCRIPTION,
        falls::DESCRIPTION,
        throughput::DESCRIPTION,
        bulk::DESCRIPTION,
        flowcode_flight::DESCRIPTION,
        bulk::flowcode_recorded::DESCRIPTION,
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
            Self::ConcloneTarget(args) => &args.run,
            Self::MixedBlackout(args) => &args.run,
            Self::Blocked(args) => &args.run,
            Self::Recorded(args) => &args.run,
            Self::ThinLinks(args) => &args.run,
            Self::Falls(args) => &args.run,
            Self::Throughput(args) => &args.run,
            Self::BulkLossy(args) => &args.run,
            Self::FlowcodeFlight(args) => &args.run,
            Self::FlowcodeRecorded(args) => &args.run,
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
            Self::ConcloneTarget(_) => conclone_target::DESCRIPTION,
            Self::MixedBlackout(_) => streams::mixed_blackout::DESCRIPTION,
            Self::Blocked(_) => blocked::DESCRIPTION,
            Self::Recorded(_) => recorded::DESCRIPTION,
            Self::ThinLinks(_) => thin::DESCRIPTION,
            Self::Falls(_) => falls::DESCRIPTION,
            Self::Throughput(_) => throughput::DESCRIPTION,
            Self::BulkLossy(_) => bulk::DESCRIPTION,
            Self::FlowcodeFlight(_) => flowcode_flight::DESCRIPTION,
            Self::FlowcodeRecorded(_) => bulk::flowcode_recorded::DESCRIPTION,
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

    /// Tells whether MAVLink is among what it sends, or can be.
    fn sends_mavlink(&self) -> bool {
        !matches!(
            self,
            Self::BulkLossy(_)
                | Self::FlowcodeFlight(_)
                | Self::FlowcodeRecorded(_)
                | Self::AsranInstability(_)
                | Self::AsranTraffic(_)
                | Self::AsranLoss(_)
                | Self::LrtTcp(_)
                | Self::LrtBlock(_)
                | Self::MessageShare(_)
                | Self::MavlinkBulk(_)
                | Self::Falls(_)
        )
    }

    /// Tells whether others' programs can be handed what it sends.
    ///
    /// The others ask about parts of a session, or about the kernel's own TCP.
    fn takes_commands(&self) -> bool {
        matches!(
            self,
            Self::ConcloneInterval(_)
                | Self::MixedBlackout(_)
                | Self::Recorded(_)
                | Self::Throughput(_)
                | Self::BulkLossy(_)
                | Self::FlowcodeRecorded(_)
                | Self::Failover(_)
                | Self::Lifetime(_)
                | Self::LrtTcp(_)
                | Self::LrtBlock(_)
                | Self::File(_)
        )
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// What it cannot do that was asked for, or what of the set-up failed.
    pub(crate) fn run(&self) -> Result<Report, Failure> {
        let (args, described) = (self.run_args(), self.description());
        if !self.sends_mavlink() {
            args.without_tlog(described.experiment)?;
        }
        if !args.commands.is_empty() && !self.takes_commands() {
            return Err(Failure::Usage(format!(
                "--scheme-command: {} asks about parts of a session, or the kernel's own TCP, which no \
                 other program is",
                described.experiment
            )));
        }
        // Of a run before this one.
        take_failures();
        let mut report = self.run_it()?;
        report.note_commands(&args.commands, take_failures(), &described);
        Ok(report)
    }

    fn run_it(&self) -> Result<Report, Failure> {
        match self {
            Self::ConcloneInterval(args) => interval::run(args),
            Self::ConcloneTarget(args) => conclone_target::run(args),
            Self::MixedBlackout(args) => streams::mixed_blackout::run(args),
            Self::Blocked(args) => blocked::run(args),
            Self::Recorded(args) => recorded::run(args),
            Self::ThinLinks(args) => thin::run(args),
            Self::Falls(args) => falls::run(args),
            Self::Throughput(args) => throughput::run(args),
            Self::BulkLossy(args) => bulk::run(args),
            Self::FlowcodeFlight(args) => flowcode_flight::run(args),
            Self::FlowcodeRecorded(args) => bulk::flowcode_recorded::run(args),
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

#[cfg(test)]
mod tests;
