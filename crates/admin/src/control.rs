//! What a server must be able to tell and do for the control socket.
//!
//! The calls come from the control socket's threads, several at once; none of them may wait for a
//! client or hold up a worker.

use crate::api::{
    Changed, ClientRow, ConnRow, ExportRow, OpRow, PoolRow, Reloaded, SettingRow, SocketRow, Status,
};

/// A request that makes sense but is not granted; the text says why and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// A running server, as its operator sees it.
pub trait Control: Send + Sync {
    /// One page about the whole server.
    fn status(&self) -> Status;
    /// What is exported to whom.
    fn exports(&self) -> Vec<ExportRow>;
    /// Who uses the server.
    fn clients(&self) -> Vec<ClientRow>;
    /// Connections.
    fn conns(&self) -> Vec<ConnRow>;
    /// Listening and datagram sockets.
    fn sockets(&self) -> Vec<SocketRow>;
    /// Thread pools.
    fn pools(&self) -> Vec<PoolRow>;
    /// Procedures that were called.
    fn ops(&self) -> Vec<OpRow>;
    /// Changes a run-time setting.
    ///
    /// # Errors
    /// [`Refused`]: no such setting, a value that it does not take, or not in this version.
    fn set(&self, key: &str, value: &str) -> Result<Changed, Refused>;
    /// The values in force: all, or that of one key.
    ///
    /// # Errors
    /// [`Refused`]: no such setting.
    fn settings(&self, key: Option<&str>) -> Result<Vec<SettingRow>, Refused>;
    /// Reads the exports again and applies all of them or nothing.
    ///
    /// # Errors
    /// [`Refused`]: what is wrong with the new exports; the old ones stay.
    fn reload(&self) -> Result<Reloaded, Refused>;
}
