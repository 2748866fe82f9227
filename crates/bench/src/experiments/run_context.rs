//! What an experiment is, what it gets from its caller, and how it can fail.

use crate::lab::LabError;
use crate::load::LoadError;
use crate::result::{Findings, Outcome};
use crate::servers::ServerError;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The context of an experiment.
pub struct RunContext<'a> {
    /// Few and short rounds.
    pub quick: bool,
    /// The server's binary.
    pub bowline: PathBuf,
    /// An empty directory on a disk; removed by the caller.
    pub scratch: PathBuf,
    /// Set to stop the experiment.
    pub stop: &'a AtomicBool,
    /// Prints progress, in a few words.
    pub say: &'a (dyn Fn(&str) + Sync),
}

impl RunContext<'_> {
    /// # Errors
    /// [`RunError::Stopped`] if the user stopped the run.
    pub fn go_on(&self) -> Result<(), RunError> {
        if self.stop.load(Relaxed) { Err(RunError::Stopped) } else { Ok(()) }
    }

    /// `quick` or `full`.
    pub fn quick_or_full<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A directory of this name in the scratch directory.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn dir(&self, name: &str) -> Result<PathBuf, RunError> {
        let dir = self.scratch.join(name);
        std::fs::create_dir_all(&dir)
            .map_err(|e| RunError::Failed(format!("{}: {e}", dir.display())))?;
        Ok(dir)
    }
}

/// Why an experiment did not complete.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// This machine lacks a requirement.
    #[error("{0}")]
    Unable(String),
    /// A failure.
    #[error("{0}")]
    Failed(String),
    /// The user stopped it.
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
    /// The question, in a sentence or two.
    pub question: &'static str,
    /// Runs it. Findings stored before a failure are kept.
    pub run: fn(&RunContext<'_>, &mut Findings) -> Result<(), RunError>,
}
