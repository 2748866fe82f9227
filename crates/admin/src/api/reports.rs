//! Reports of measurements, which the web page lists.

use serde::{Deserialize, Serialize};

/// A report of `bowline bench`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRow {
    /// Its name in the directory of reports.
    pub name: String,
    /// Time since it was written.
    pub age_s: u64,
    /// The bytes of its results.
    pub bytes: u64,
}
