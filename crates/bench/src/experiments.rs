//! The named experiments, and how they are run: variants in turn, so that a machine that is slow for a
//! while is slow for all of them.
//!
//! An experiment is a row of [`ALL`]: a name, a question, and a function that starts its servers, runs
//! its loads and fills in [`Findings`]. This file measures the time, catches errors, and computes
//! noise. A file of this folder is one experiment; `run_context` has the types that all of them use,
//! `rounds` and `measured_load` the code that they share.

mod align;
mod auth_scale;
mod delegations;
mod disk_sleep;
mod fairness;
mod hotplug;
mod measured_load;
mod pools;
mod rounds;
mod rsync_walk;
mod run_context;
mod scatter_write;
mod starve;
mod udp;
mod udp_bufs;
mod udp_read;
mod versions;
mod wan_write;
mod zc_read;
mod zc_readdir;

pub use measured_load::{MeasuredLoad, measure_load, require_clean, target_server};
pub use rounds::{Rounds, axis, fact, line, measures, median, spread};
pub use run_context::{Experiment, RunContext, RunError};

use crate::machine_load::BackgroundLoad;
use crate::result::{Findings, Outcome};
use std::path::Path;
use std::time::Instant;

/// All experiments, in the order in which `run all` runs them.
pub static ALL: &[&Experiment] = &[
    &rsync_walk::EXPERIMENT,
    &starve::EXPERIMENT,
    &disk_sleep::EXPERIMENT,
    &fairness::EXPERIMENT,
    &zc_read::EXPERIMENT,
    &align::EXPERIMENT,
    &pools::EXPERIMENT,
    &udp_read::EXPERIMENT,
    &udp_bufs::EXPERIMENT,
    &hotplug::EXPERIMENT,
    &wan_write::EXPERIMENT,
    &auth_scale::EXPERIMENT,
    &zc_readdir::EXPERIMENT,
    &scatter_write::EXPERIMENT,
    &versions::EXPERIMENT,
    &delegations::EXPERIMENT,
];

/// The experiment of this name.
pub fn named(name: &str) -> Option<&'static Experiment> {
    ALL.iter().copied().find(|experiment| experiment.name == name)
}

/// Runs one experiment. Always returns findings; their outcome says whether it worked.
pub fn run(experiment: &Experiment, ctx: &RunContext<'_>) -> Findings {
    let began = Instant::now();
    let mut findings = rounds::empty(experiment, ctx.quick);
    let load = BackgroundLoad::watch();
    let end = (experiment.run)(ctx, &mut findings);
    findings.took_s = began.elapsed().as_secs_f64();
    findings.noise = rounds::noise(&findings.trials);
    findings.setup.extend(rounds::stolen(&findings.trials));
    // an experiment that did not run has no figures that a load could change
    if !findings.trials.is_empty() {
        let (load, remark) = load.report();
        findings.setup.push(load);
        findings.notes.extend(remark);
    }
    findings.outcome = match end {
        Ok(()) => Outcome::Done,
        Err(RunError::Unable(why)) => Outcome::Unable(why),
        Err(RunError::Stopped) => Outcome::Partial("stopped before its end".into()),
        Err(RunError::Failed(why)) if findings.trials.is_empty() => Outcome::Failed(why),
        Err(RunError::Failed(why)) => Outcome::Partial(why),
    };
    findings
}

/// Writes findings into a directory of results as `NAME.json`.
///
/// # Errors
/// The error of the disk.
pub fn save(findings: &Findings, dir: &Path) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(findings).map_err(std::io::Error::other)?;
    std::fs::write(dir.join(format!("{}.json", findings.name)), text + "\n")
}
