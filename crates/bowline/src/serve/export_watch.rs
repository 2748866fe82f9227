//! Threads that look after the exports while the server runs.
//!
//! A third looks at the files of TLS ([`super::tls`]). One tries exports that had to wait again every [`RETRY`]; each try is bounded in time
//! ([`super::export_opener`]). It also looks which exports' disks fail ([`super::io_errors`]). The other looks for the state directory, which has a thread of its own because the
//! file system that it is on may hang too.

use super::control::ServerControl;
use anyhow::Context;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often exports that had to wait are tried again.
const RETRY: Duration = Duration::from_secs(2);
/// How often the state directory is looked for.
const STATE_DIR_CHECK: Duration = Duration::from_secs(5);
/// How often the files of TLS are looked at.
const CERTIFICATES_CHECK: Duration = Duration::from_secs(1);

/// The threads. Dropping it ends them; nobody waits for them, as a file system may hang.
#[derive(Debug)]
pub struct ExportWatch {
    _stop: [Sender<()>; 3],
}

impl ExportWatch {
    /// Starts the threads.
    ///
    /// # Errors
    /// The kernel refuses another thread.
    pub fn start(control: &Arc<ServerControl>) -> anyhow::Result<Self> {
        let control = Arc::downgrade(control);
        let retry = every("export-watch", RETRY, Weak::clone(&control), |control| {
            control.log_io_errors();
            control.retry_exports();
        })?;
        let certificates =
            every("tls-watch", CERTIFICATES_CHECK, Weak::clone(&control), |control| {
                if let Some(tls) = &control.tls {
                    tls.look(control);
                }
            })?;
        let mut was_there = true;
        let state_dir = every("state-watch", STATE_DIR_CHECK, control, move |control| {
            let is_there = control.export_loader.check_state_dir();
            if was_there && !is_there {
                tracing::warn!("{}", control.lost_state_dir());
            }
            was_there = is_there;
        })?;
        Ok(Self { _stop: [retry, state_dir, certificates] })
    }
}

/// Calls `work` again and again, until the sender is dropped or the server is gone.
fn every(
    name: &str,
    period: Duration,
    control: Weak<ServerControl>,
    mut work: impl FnMut(&ServerControl) + Send + 'static,
) -> anyhow::Result<Sender<()>> {
    let (stop, stopped) = channel::<()>();
    let run = move || {
        while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
            let Some(control) = control.upgrade() else { return };
            work(&control);
        }
    };
    std::thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .context("cannot start a thread: check the limits on processes")?;
    Ok(stop)
}
