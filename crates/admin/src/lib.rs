//! The control socket of a running server (requests and answers as types, its server, its client), text tables, rates, metrics as
//! text, and the HTTP server for metrics and the web page.
//!
//! This crate knows nothing of NFS: the binary implements [`Control`] with its parts.

pub mod api;
mod client;
mod control;
mod exposition;
mod format;
pub mod rates;
mod server;
mod tables;
mod web;

pub use client::{Client, ClientError};
pub use control::{Control, Refused};
pub use exposition::{Exposition, Format, Kind};
pub use format::{bytes, count, duration_ns, duration_s, per_second};
pub use server::{ControlServer, ServerError};
pub use tables::{Align, Table};
pub use web::{Certificates, HttpConfig, HttpCounts, HttpServer, Token};
