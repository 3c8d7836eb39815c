//! `asran-traffic`: the same as `asran-instability`, and a third UAV sends as fast as it can
//! [ASRAN §5.1.3, Table 2, fig. 6].
//!
//! Now the hop's queue overflows, so that losses are of both kinds. Deviations from the paper as
//! there; which congestion control the heavy sender has, the paper does not say.

use clap::Args;

use super::meeting::{BESIDE, FIGURES, Heavy, MeetingArgs, SCHEMES, SIM, run as run_meetings};
use crate::experiment::Description;
use crate::report::Report;
use crate::scheme::{Known, Scheme};
use emulator::Failure;

/// Describes the experiment.
pub(crate) const DESCRIPTION: Description = Description {
    experiment: "asran-traffic",
    about: "the same with a third sender that fills the queue",
    sim: SIM,
    emu: Known::all(&SCHEMES),
    beside: &[&BESIDE],
    figures: &FIGURES,
};

/// The arguments of the experiment.
#[derive(Clone, Debug, Args)]
pub(crate) struct AsranTrafficArgs {
    #[command(flatten)]
    pub(crate) meeting: MeetingArgs,
    /// Congestion control of the heavy sender.
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    heavy: Scheme,
    /// Connections of the heavy sender.
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u8).range(1..=16))]
    heavy_flows: u8,
}

/// Runs the experiment.
pub(crate) fn run(args: &AsranTrafficArgs) -> Result<Report, Failure> {
    let known = (DESCRIPTION.sim, DESCRIPTION.emu);
    if !SCHEMES[1..].contains(&args.heavy) {
        let names: Vec<&str> = SCHEMES[1..].iter().map(|scheme| scheme.name()).collect();
        let names = names.join(", ");
        return Err(Failure::Usage(format!("--heavy {}: not one of {names}", args.heavy)));
    }
    let heavy = Heavy { scheme: args.heavy, flows: args.heavy_flows };
    run_meetings(DESCRIPTION.experiment, &args.meeting, known, Some(heavy))
}
