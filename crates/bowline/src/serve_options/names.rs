//! The names of the options of `bowline serve`, for messages of code that does not know the options.

/// In the order of [`ServeOptions`](super::ServeOptions).
pub const NAMES: [&str; 17] = [
    "listen",
    "port",
    "read-only",
    "client",
    "exports",
    "config",
    "portmap",
    "state-dir",
    "control",
    "metrics",
    "reports",
    "tls-cert",
    "tls-key",
    "tls-client-ca",
    "tls-crl",
    "set",
    "prove",
];
