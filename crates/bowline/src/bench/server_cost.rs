//! Measures what a load costs a server on this machine: its process before and after, and its counters if it is
//! Bowline with a known control socket.

use crate::cli::bench::LoadOptions;
use admin::Client;
use admin::api::{Request, Status};
use bench::load::ServerCost;
use bench::servers::usage::UsageSample;
use std::path::{Path, PathBuf};

/// The state of a server before the measured calls.
pub struct CostSample {
    pid: u32,
    reading: UsageSample,
    control: Option<PathBuf>,
    copied: (u64, u64),
}

/// Reads the server that the options name; `None` if they name none.
///
/// # Errors
/// There is no such process, or the control socket does not answer.
pub fn before(options: &LoadOptions) -> anyhow::Result<Option<CostSample>> {
    let status = options.control.as_deref().map(read_status).transpose()?;
    let Some(pid) = options.server_pid.or(status.as_ref().map(|status| status.pid)) else {
        return Ok(None);
    };
    let reading = UsageSample::of(&[pid])
        .ok_or_else(|| anyhow::anyhow!("--server-pid {pid}: there is no such process here"))?;
    let copied = status.as_ref().map_or((0, 0), copied);
    Ok(Some(CostSample { pid, reading, control: options.control.clone(), copied }))
}

impl CostSample {
    /// Reads the server again, so that earlier use does not count. A value that cannot be read stays unchanged.
    pub fn renew(&mut self) {
        self.reading = UsageSample::of(&[self.pid]).unwrap_or_else(|| self.reading.clone());
        let status = self.control.as_deref().and_then(|path| read_status(path).ok());
        self.copied = status.as_ref().map_or(self.copied, copied);
    }

    /// The cost since then, divided by the calls; `None` if the server has ended.
    pub fn since(&self, calls: u64) -> Option<ServerCost> {
        let usage = UsageSample::of(&[self.pid])?.since(&self.reading);
        let now = self.control.as_deref().and_then(|path| read_status(path).ok());
        let now = now.as_ref().map(copied);
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let per_call = |amount: u64| amount as f64 / calls.max(1) as f64;
        Some(ServerCost {
            pid: self.pid,
            cpu_us_per_call: per_call(usage.cpu_ns) / 1000.0,
            switches_per_call: per_call(usage.switches()),
            threads: usage.threads,
            rss_bytes: usage.rss_bytes,
            bytes_copied: now.map(|now| now.0.saturating_sub(self.copied.0)),
            bytes_not_copied: now.map(|now| now.1.saturating_sub(self.copied.1)),
        })
    }
}

fn read_status(path: &Path) -> anyhow::Result<Status> {
    let asked = Client::connect(path).and_then(|mut client| client.ask(&Request::Status));
    asked.map_err(|e| anyhow::anyhow!("--control {}: {e}", path.display()))
}

/// Bytes copied and not copied so far.
fn copied(status: &Status) -> (u64, u64) {
    let count = |name: &str| {
        status.counters.iter().find(|c| c.name == name).map_or(0, |counter| counter.value)
    };
    (count("bytes-copied"), count("bytes-not-copied"))
}
