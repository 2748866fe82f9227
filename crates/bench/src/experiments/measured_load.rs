//! One load on one server under test: the results of the load and what it cost the server.

use super::{RunContext, RunError};
use crate::load::{FileSet, LiveCounters, LoadReport, Plan, Run, run_from};
use crate::servers::TestServer;
use crate::servers::usage::Usage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A load, with the server's usage.
#[derive(Debug)]
pub struct MeasuredLoad {
    /// What the clients found.
    pub report: LoadReport,
    /// What the server's processes used from the end of the warm-up to the last reply.
    pub usage: Usage,
    /// Calls answered in that time.
    pub calls: u64,
}

impl MeasuredLoad {
    /// µs of server CPU per call.
    pub fn us_per_call(&self) -> f64 {
        float(self.usage.cpu_ns) / 1000.0 / float(self.calls.max(1))
    }

    /// The measures that most experiments store.
    pub fn measures(&self) -> BTreeMap<String, f64> {
        let report = &self.report;
        super::measures([
            ("calls_per_s", report.calls_per_s),
            ("server_cpu_us_per_call", self.us_per_call()),
            ("switches_per_call", float(self.usage.switches()) / float(self.calls.max(1))),
            (
                "run_delay_us_per_call",
                float(self.usage.run_delay_ns) / 1e3 / float(self.calls.max(1)),
            ),
            ("runnable_threads", self.usage.runnable()),
            ("read_mb_per_s", report.read_mb_per_s),
            ("write_mb_per_s", report.write_mb_per_s),
            ("p50_us", report.latency.p50_us),
            ("p99_us", report.latency.p99_us),
            ("p999_us", report.latency.p999_us),
            ("client_cpu_us_per_call", report.client_cpu_us_per_call),
            ("threads", float(self.usage.threads)),
            ("rss_bytes", float(self.usage.rss_bytes)),
        ])
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
const fn float(count: u64) -> f64 {
    count as f64
}

/// Points a plan at a server.
pub fn target_server(plan: &mut Plan, server: &TestServer) {
    plan.servers = vec![server.nfs()];
    plan.export = server.export().to_owned();
    let mount_port = server.mount_port();
    plan.mount_port = (mount_port != server.nfs().port()).then_some(mount_port);
    plan.lock_port = server.lock_port();
}

/// Runs `plan` on `server` from the calling thread's network. The file set may be reused as long as
/// the server and its export are the same.
///
/// # Errors
/// What ended the load early, including calls that failed and wrong data: an experiment with errors does not
/// measure what it claims to.
pub fn measure_load(
    plan: &Plan,
    file_set: &Arc<FileSet>,
    server: &mut TestServer,
    ctx: &RunContext<'_>,
) -> Result<MeasuredLoad, RunError> {
    let live = LiveCounters::new(plan.threads);
    let mut before = (0, server.reading());
    let run = run_from(plan, file_set, &live, ctx.stop, || {
        before = (live.calls(), server.reading());
    })?;
    let (calls_before, before) = before;
    let usage = server.reading()?.since(&before?);
    ctx.go_on()?;
    let report = require_clean(run, server.name())?;
    Ok(MeasuredLoad { report, usage, calls: live.calls().saturating_sub(calls_before) })
}

/// The results of a load, if it completed and every call was answered correctly and in full.
///
/// # Errors
/// What ended it early; calls that failed, wrong data, and READs that were shorter than the file allows: half of the work
/// would count as a call.
pub fn require_clean(run: Run, server: &str) -> Result<LoadReport, RunError> {
    if let Some(error) = run.error {
        return Err(error.into());
    }
    let report = run.report;
    if report.short_reads > 0 {
        return Err(RunError::Failed(format!(
            "{server}: {} READs of {} bytes returned less: does the server allow that size?",
            report.short_reads, report.size
        )));
    }
    if report.errors == 0 && report.wrong == 0 {
        return Ok(report);
    }
    let errors: Vec<String> = report
        .operations
        .iter()
        .flat_map(|op| op.errors.iter().map(|(name, n)| format!("{} {name} {n}", op.op)))
        .collect();
    let (errors, wrong) = (errors.join(", "), report.wrong);
    Err(RunError::Failed(format!(
        "{server}: calls failed ({errors}), {wrong} READs with wrong data"
    )))
}
