//! The named experiments, and how they are run: variants in turn, so that a machine that is slow for a
//! while is slow for all of them.
//!
//! An experiment is a row of [`ALL`]: a name, a question, and a function that starts its servers, makes
//! its loads and fills in [`Findings`]. The frame around it (this file) tells the time, catches what
//! went wrong, and computes noise. A file of this folder is one experiment; `rounds` has what they share.

mod align;
mod auth_scale;
mod disk_sleep;
mod fairness;
mod hotplug;
mod measured_load;
mod pools;
mod rounds;
mod rsync_walk;
mod scatter_write;
mod starve;
mod udp;
mod udp_bufs;
mod udp_read;
mod wan_write;
mod zc_read;
mod zc_readdir;

pub use measured_load::{MeasuredLoad, measure_load, require_clean, target_server};
pub use rounds::{Rounds, axis, fact, line, measures, median, spread};

use crate::lab::LabError;
use crate::load::LoadError;
use crate::result::{Findings, Outcome};
use crate::servers::ServerError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// What experiments get from outside.
pub struct RunContext<'a> {
    /// Few and short rounds.
    pub quick: bool,
    /// The server's binary.
    pub bowline: PathBuf,
    /// An empty directory on a disk; removed by whoever made it.
    pub scratch: PathBuf,
    /// Set when a person wants the end.
    pub stop: &'a AtomicBool,
    /// Tells a person what is going on, in a few words.
    pub say: &'a (dyn Fn(&str) + Sync),
}

impl RunContext<'_> {
    /// # Errors
    /// [`RunError::Stopped`] if a person wants the end.
    pub fn go_on(&self) -> Result<(), RunError> {
        if self.stop.load(Relaxed) { Err(RunError::Stopped) } else { Ok(()) }
    }

    /// `quick` or `full`, as the run is.
    pub fn quick_or_full<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A directory of this name in the scratch directory.
    ///
    /// # Errors
    /// What the disk says.
    pub fn dir(&self, name: &str) -> Result<PathBuf, RunError> {
        let dir = self.scratch.join(name);
        std::fs::create_dir_all(&dir)
            .map_err(|e| RunError::Failed(format!("{}: {e}", dir.display())))?;
        Ok(dir)
    }
}

/// Why an experiment did not end well.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// This machine lacks something.
    #[error("{0}")]
    Unable(String),
    /// Something broke.
    #[error("{0}")]
    Failed(String),
    /// A person wanted the end.
    #[error("stopped")]
    Stopped,
}

impl From<LoadError> for RunError {
    fn from(error: LoadError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<std::io::Error> for RunError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<LabError> for RunError {
    fn from(error: LabError) -> Self {
        match error.outcome() {
            Outcome::Unable(why) => Self::Unable(why),
            Outcome::Done | Outcome::Partial(_) | Outcome::Failed(_) => {
                Self::Failed(error.to_string())
            }
        }
    }
}

impl From<ServerError> for RunError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Unable(_) | ServerError::NotInstalled { .. } => {
                Self::Unable(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// One experiment.
pub struct Experiment {
    /// As on the command line.
    pub name: &'static str,
    /// A heading.
    pub title: &'static str,
    /// What is asked, in a sentence or two.
    pub question: &'static str,
    /// Runs it. What is in the findings when it fails is kept.
    pub run: fn(&RunContext<'_>, &mut Findings) -> Result<(), RunError>,
}

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
];

/// The experiment of this name.
pub fn named(name: &str) -> Option<&'static Experiment> {
    ALL.iter().copied().find(|experiment| experiment.name == name)
}

/// Runs one experiment. Always gives findings; their outcome says whether it worked.
pub fn run(experiment: &Experiment, ctx: &RunContext<'_>) -> Findings {
    let began = Instant::now();
    let mut findings = rounds::empty(experiment, ctx.quick);
    let end = (experiment.run)(ctx, &mut findings);
    findings.took_s = began.elapsed().as_secs_f64();
    findings.noise = rounds::noise(&findings.trials);
    findings.setup.extend(rounds::stolen(&findings.trials));
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
/// What the disk says.
pub fn save(findings: &Findings, dir: &Path) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(findings).map_err(std::io::Error::other)?;
    std::fs::write(dir.join(format!("{}.json", findings.name)), text + "\n")
}
