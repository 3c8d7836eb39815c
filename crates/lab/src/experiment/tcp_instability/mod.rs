//! `asran-instability`: two UAVs send over two relays to a station, and the hop between the relays
//! comes and goes [ASRAN §5.1.2, Table 1, fig. 5].
//!
//! *Deviations from the paper*: emulated outages, fitted to its measurement in flight, in the place
//! of radios; the kernel of today; the round-trip time and the offered load, which the paper does
//! not state, chosen so that CUBIC gets what the paper's got, and swept; sources are live (what the
//! connection does not take within 100 ms is given up), so that the load stays below what fills a
//! buffer; the flows change places.
//!
//! With `--sim` the flow of constant rate runs alone unless others are asked for; then the world's
//! TCP runs over the hop alone (`sim`).

mod doubt;
mod emu;
mod figures;
mod meeting;
mod offered;
mod outages;
mod picture;
mod plan;
mod sim;
mod topology;
pub(crate) mod traffic;

use clap::Args;

use super::Description;
use crate::report::Report;
use crate::scheme::Known;
use emulator::Failure;
use meeting::{BESIDE, FIGURES, MeetingArgs, SCHEMES, SIM, run as run_meetings};

/// Describes the experiment.
pub(crate) const DESCRIPTION: Description = Description {
    experiment: "asran-instability",
    about: "TCP over two relays whose link comes and goes, each flow beside a CUBIC flow",
    sim: SIM,
    emu: Known::all(&SCHEMES),
    beside: &[&BESIDE],
    figures: &FIGURES,
};

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct AsranInstabilityArgs {
    #[command(flatten)]
    pub(crate) meeting: MeetingArgs,
}

/// Runs the experiment.
pub(crate) fn run(args: &AsranInstabilityArgs) -> Result<Report, Failure> {
    let known = (DESCRIPTION.sim, DESCRIPTION.emu);
    run_meetings(DESCRIPTION.experiment, &args.meeting, known, None)
}
