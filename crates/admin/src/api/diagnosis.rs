//! Why somebody may or may not use an export: for one client, path and user, and what was refused lately.

use serde::{Deserialize, Serialize};

/// What `bowline explain` asks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExplainQuestion {
    /// The client's address, or a host name.
    pub client: String,
    /// The path that clients mount, with or without a path below it, or one of the server's machine.
    pub path: String,
    /// The user on the client, by number; without one only the mount is explained.
    #[serde(default)]
    pub uid: Option<u32>,
    /// The user's groups, the primary one first; if empty, those that the server's machine knows.
    #[serde(default)]
    pub gids: Vec<u32>,
    /// The port that the client sends from.
    #[serde(default)]
    pub port: Option<u16>,
    /// The flavour that the client mounts with, as in `sec=`; empty: sys, or with a principal the first of Kerberos that
    /// is accepted.
    #[serde(default)]
    pub flavor: String,
    /// The principal of the user, in place of the number.
    #[serde(default)]
    pub principal: Option<String>,
    /// The channel: none, tls or mtls; empty: not known, or with a certificate mtls.
    #[serde(default)]
    pub channel: String,
    /// A name in the client's certificate.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// The answer: each step from the export to the file, in the order in which the server decides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// Whether the client may mount, and the user, if one was asked for, may read or list the object.
    pub allowed: bool,
    /// The steps. Those after the first that is refused are missing.
    pub steps: Vec<ExplainStep>,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainStep {
    /// What is decided: `export`, `client`, `port`, `transport`, `flavour`, `user`, `path`, `object`.
    pub step: String,
    /// `ok`, `no`, or `note` for what does not decide.
    pub result: String,
    /// Why, and what to do about a `no`.
    pub text: String,
}

/// Refusals with the same client, path and reason, of which the last was within the last hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalRow {
    /// The client's address.
    pub client: String,
    /// The path of the export, or the path that was to be mounted.
    pub path: String,
    /// How often, since an hour last passed without one.
    pub count: u64,
    /// Milliseconds since the last time.
    pub age_ms: u64,
    /// Why.
    pub reason: String,
}
