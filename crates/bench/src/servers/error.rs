//! Why there is no server to measure, and what to do about it: one line each.

use crate::lab::LabError;
use crate::result::Outcome;

/// Why there is no server, or no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// Its program is not there.
    #[error("`{program}` is not installed: apt-get install {package}")]
    NotInstalled {
        /// The program.
        program: String,
        /// Debian's package.
        package: String,
    },
    /// This machine or this user cannot run it.
    #[error("{0}")]
    Unable(String),
    /// Something else has its port.
    #[error("port {port} is taken: stop what listens there, or choose another port")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// It ended before it served, or serves nothing.
    #[error("{name} did not start: {why}")]
    DidNotStart {
        /// The server.
        name: String,
        /// Its last words, or what it does not answer.
        why: String,
    },
    /// It is gone.
    #[error("{name} died: {why}")]
    Died {
        /// The server.
        name: String,
        /// How, and its last words.
        why: String,
    },
    /// It does not do what it was asked.
    #[error("{name}: {why}")]
    Refused {
        /// The server.
        name: String,
        /// Its own words.
        why: String,
    },
    /// This machine's fault.
    #[error("{0}")]
    Io(String),
}

impl ServerError {
    /// What an experiment says that stops here.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotInstalled { .. } | Self::Unable(_) => Outcome::Unable(self.to_string()),
            _ => Outcome::Failed(self.to_string()),
        }
    }

    /// `doing` failed.
    pub(crate) fn io(doing: &str, error: &std::io::Error) -> Self {
        Self::Io(format!("{doing}: {error}"))
    }
}

impl From<LabError> for ServerError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Unable(why) => Self::Unable(why),
            LabError::Failed(why) => Self::Io(why),
        }
    }
}
