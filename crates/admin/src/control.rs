//! What a server implements for the control socket.
//!
//! The control socket's threads call it, several at once. No method may wait for an NFS client or block a
//! worker thread.

use crate::api::{
    Changed, ClientRow, ConnRow, DelegationRow, ExplainQuestion, Explanation, ExportChange,
    ExportRow, GraceStatus, LockRow, OpRow, OpenRow, PoolRow, RefusalRow, Released, Reloaded,
    ReportRow, Sample, SessionRow, SettingRow, SocketRow, Status,
};
use crate::exposition::Format;
use crate::rates::ConnActivity;
use std::collections::HashSet;

/// A valid request that failed; the text says why and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// A running server for its operator.
pub trait Control: Send + Sync {
    /// The whole server in one page.
    fn status(&self) -> Status;
    /// The exports with their clients.
    fn exports(&self) -> Vec<ExportRow>;
    /// Clients that are or were connected, or have something mounted.
    fn clients(&self) -> Vec<ClientRow>;
    /// Connections.
    fn conns(&self) -> Vec<ConnRow>;
    /// Listening and datagram sockets.
    fn sockets(&self) -> Vec<SocketRow>;
    /// Thread pools.
    fn pools(&self) -> Vec<PoolRow>;
    /// Procedures that have been called.
    fn ops(&self) -> Vec<OpRow>;
    /// What the connections do, in no order: read without asking the kernel.
    fn conn_activity(&self) -> Vec<ConnActivity>;
    /// All counters at one moment; if numbers of connections are given, with the state of these, which are watched for a
    /// quarter of a second.
    fn sample(&self, conns: Option<&HashSet<u64>>) -> Sample;
    /// The metrics as text.
    fn metrics(&self, format: Format) -> String;
    /// The token that lets the web page change settings. Only the control socket gives it.
    ///
    /// # Errors
    /// [`Refused`]: there is no web page.
    fn token(&self) -> Result<String, Refused>;
    /// Changes a run-time setting.
    ///
    /// # Errors
    /// [`Refused`]: no such setting, a value that it does not take, or one that cannot be applied now.
    fn set(&self, key: &str, value: &str) -> Result<Changed, Refused>;
    /// The values in force: of all settings, or of one key.
    ///
    /// # Errors
    /// [`Refused`]: no such setting.
    fn settings(&self, key: Option<&str>) -> Result<Vec<SettingRow>, Refused>;
    /// The grace period, which is ended first if `end`.
    ///
    /// # Errors
    /// [`Refused`]: there is none to end, or its end cannot be stored.
    fn grace(&self, end: bool) -> Result<GraceStatus, Refused>;
    /// Reads the exports again, and applies all of them or none. With `dry_run` it changes nothing and says what would
    /// be changed.
    ///
    /// # Errors
    /// [`Refused`]: what is wrong with the new exports; the old ones stay in force.
    fn reload(&self, dry_run: bool) -> Result<Reloaded, Refused>;
    /// Changes what is exported until the next reload or start.
    ///
    /// # Errors
    /// [`Refused`]: what is wrong with the change; nothing was changed.
    fn change_exports(&self, change: &ExportChange) -> Result<Reloaded, Refused>;
    /// Locks, requests that wait and share reservations.
    fn locks(&self) -> Vec<LockRow>;
    /// Sessions of version 4.
    fn sessions(&self) -> Vec<SessionRow>;
    /// Files that are open over version 4.
    fn opens(&self) -> Vec<OpenRow>;
    /// Delegations of version 4.
    fn delegations(&self) -> Vec<DelegationRow>;
    /// Why a client may or may not use a path. May wait for name services and, for a few seconds, for the file system.
    ///
    /// # Errors
    /// [`Refused`]: the question is about no path or no client.
    fn explain(&self, question: &ExplainQuestion) -> Result<Explanation, Refused>;
    /// What was refused in the last hour, the latest first.
    fn refusals(&self) -> Vec<RefusalRow>;
    /// Takes the locks of a client or a file away.
    ///
    /// # Errors
    /// [`Refused`]: no client or file of this name holds anything.
    fn release(&self, what: &str) -> Result<Released, Refused>;
    /// Reports of measurements, the latest first. May wait for a disk, as [`Control::report`].
    fn reports(&self) -> Vec<ReportRow>;
    /// The page of a report, without a style of its own.
    ///
    /// # Errors
    /// [`Refused`]: there is none of this name, or it cannot be read.
    fn report(&self, name: &str) -> Result<String, Refused>;
    /// The style of these pages.
    fn report_style(&self) -> String;
}

#[cfg(test)]
pub mod tests {
    use super::{Control, Refused};
    use crate::api::{
        Changed, ClientRow, ConnRow, DelegationRow, ExplainQuestion, Explanation, ExportChange,
        ExportRow, GraceStatus, LockRow, OpRow, OpenRow, PoolRow, RefusalRow, Released, Reloaded,
        ReportRow, Sample, SessionRow, SettingRow, SocketRow, Status,
    };
    use crate::exposition::Format;
    use crate::rates::ConnActivity;
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A server that only has connections.
    #[derive(Default)]
    pub struct TestServer {
        /// What they do now.
        pub conns: Mutex<Vec<ConnActivity>>,
        /// Seconds since its start: one more with each sample.
        pub seconds: AtomicU64,
    }

    impl TestServer {
        fn conn_row(conn: &ConnActivity) -> ConnRow {
            let row = serde_json::json!({
                "id": conn.id, "peer": format!("{}:700", conn.client), "local": "192.0.2.1:2049", "pool": 0, "age_s": 9,
                "idle_s": 0, "calls": conn.calls, "bytes_in": conn.bytes_in, "bytes_out": conn.bytes_out,
                "in_flight": conn.in_flight, "unsent_bytes": conn.unsent_bytes,
            });
            serde_json::from_value(row).unwrap()
        }
    }

    impl Control for TestServer {
        fn status(&self) -> Status {
            Status::default()
        }
        fn exports(&self) -> Vec<ExportRow> {
            Vec::new()
        }
        fn clients(&self) -> Vec<ClientRow> {
            Vec::new()
        }
        fn conns(&self) -> Vec<ConnRow> {
            Vec::new()
        }
        fn sockets(&self) -> Vec<SocketRow> {
            Vec::new()
        }
        fn pools(&self) -> Vec<PoolRow> {
            Vec::new()
        }
        fn ops(&self) -> Vec<OpRow> {
            Vec::new()
        }
        fn conn_activity(&self) -> Vec<ConnActivity> {
            self.conns.lock().unwrap().clone()
        }
        fn sample(&self, conns: Option<&HashSet<u64>>) -> Sample {
            let activity = self.conn_activity();
            let chosen = |conn: &&ConnActivity| conns.is_some_and(|ids| ids.contains(&conn.id));
            let mut sample = Sample {
                at_ms: 1000 * self.seconds.fetch_add(1, Ordering::Relaxed),
                conns: activity.iter().filter(chosen).map(Self::conn_row).collect(),
                ..Sample::default()
            };
            sample.status.calls = activity.iter().map(|conn| conn.calls).sum();
            sample.activity = activity;
            sample
        }
        fn set(&self, key: &str, _: &str) -> Result<Changed, Refused> {
            Err(Refused(key.to_owned()))
        }
        fn settings(&self, _: Option<&str>) -> Result<Vec<SettingRow>, Refused> {
            Ok(Vec::new())
        }
        fn sessions(&self) -> Vec<SessionRow> {
            Vec::new()
        }
        fn opens(&self) -> Vec<OpenRow> {
            Vec::new()
        }
        fn delegations(&self) -> Vec<DelegationRow> {
            Vec::new()
        }
        fn locks(&self) -> Vec<LockRow> {
            Vec::new()
        }
        fn explain(&self, question: &ExplainQuestion) -> Result<Explanation, Refused> {
            Err(Refused(question.client.clone()))
        }
        fn refusals(&self) -> Vec<RefusalRow> {
            Vec::new()
        }
        fn release(&self, what: &str) -> Result<Released, Refused> {
            Err(Refused(what.to_owned()))
        }
        fn grace(&self, _: bool) -> Result<GraceStatus, Refused> {
            Ok(GraceStatus::default())
        }
        fn reload(&self, _: bool) -> Result<Reloaded, Refused> {
            Ok(Reloaded::default())
        }
        fn token(&self) -> Result<String, Refused> {
            Err(Refused(String::new()))
        }
        fn change_exports(&self, _: &ExportChange) -> Result<Reloaded, Refused> {
            Ok(Reloaded::default())
        }
        fn metrics(&self, format: Format) -> String {
            format!("{format:?}")
        }
        fn reports(&self) -> Vec<ReportRow> {
            Vec::new()
        }
        fn report(&self, name: &str) -> Result<String, Refused> {
            if name == "one" { Ok("<p>one</p>".into()) } else { Err(Refused(name.to_owned())) }
        }
        fn report_style(&self) -> String {
            "p {}".to_owned()
        }
    }
}
