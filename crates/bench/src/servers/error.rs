//! Why a server cannot be measured, and how to solve it: one line each.

use crate::lab::LabError;
use crate::result::Outcome;

/// Why a server did not start, or ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// Its program is not installed.
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
    /// Its port is in use.
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
        /// Its last output, or what it does not answer.
        why: String,
    },
    /// It has ended.
    #[error("{name} died: {why}")]
    Died {
        /// The server.
        name: String,
        /// How, and its last output.
        why: String,
    },
    /// It refuses a request.
    #[error("{name}: {why}")]
    Refused {
        /// The server.
        name: String,
        /// Its own message.
        why: String,
    },
    /// A failure of this machine.
    #[error("{0}")]
    Io(String),
}

impl ServerError {
    /// The outcome of an experiment that stops here.
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
