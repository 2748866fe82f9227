//! Changes of the exports of a running server that no file has, as exportfs(8) makes them.

use serde::{Deserialize, Serialize};

/// What `bowline exportfs` asks to change. A reload, and the next start, bring back what the files say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum ExportChange {
    /// Exports a directory to further clients, or changes the options of those that it has.
    Add {
        /// The clients, as in exports(5).
        client: String,
        /// The directory, which is also the path that clients mount.
        path: String,
        /// Options as in exports(5), separated by commas; may be empty.
        options: String,
    },
    /// Ends an export to some clients; the last clients' end is the export's.
    Remove {
        /// The clients, as they were exported to.
        client: String,
        /// The path that clients mount.
        path: String,
    },
    /// Ends all exports.
    RemoveAll,
    /// Exports what the configuration names beside what is exported now.
    AddConfigured,
}
