//! What an experiment is, what it gets from its caller, and how it can fail.

use crate::lab::LabError;
use crate::load::LoadError;
use crate::result::{Findings, Outcome};
use crate::servers::ServerError;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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
