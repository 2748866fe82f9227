//! Why a report cannot be made.

use std::io;
use std::path::PathBuf;

/// A run's largest file is a window over time with 100,000 points, some 10 MB.
pub(super) const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file or the directory could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file does not have the expected contents.
    #[error("{}:{line}: {why}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// A file is larger than any result.
    #[error("{} has {bytes} bytes; a result has at most {}", path.display(), FILE_BYTES_MAX)]
    Large {
        /// Which file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// There is nothing to report.
    #[error("{} holds no results: `bowline bench run all --out DIR` writes them", dir.display())]
    Empty {
        /// The directory.
        dir: PathBuf,
    },
    /// There are results, but no description of their machine.
    #[error("{} is missing: DIR must be what `bowline bench run --out DIR` wrote", path.display())]
    NoMachine {
        /// The file that should be there.
        path: PathBuf,
    },
    /// The page could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The page.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}
