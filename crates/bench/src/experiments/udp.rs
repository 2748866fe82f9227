//! What the experiments on UDP sockets (`udp-read`, `udp-bufs`, `hotplug`) share: a server with several
//! interfaces of MTU 1500, two clients on each, READs of 32 KiB of cached files.

use super::{MeasuredLoad, RunContext, RunError, fact, measure_load, measures, target_server};
use crate::lab::{Namespace, VethPairs};
use crate::load::{FileSet, Plan, Proto, Workload};
use crate::result::Findings;
use crate::servers::bowline::{self, Options};
use crate::servers::{Placement, ScratchDir, TestServer};
use admin::api::{Request, Status};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// Interfaces of the server, as in the original experiment.
pub(super) const VETH_PAIRS: u8 = 3;
/// Clients, two on each.
const CLIENTS: usize = 6;
/// Calls in flight for each: enough to keep the server busy, few enough for a client's buffer.
const DEPTH: usize = 2;
/// Bytes of a READ: 23 packets of MTU 1500.
const SIZE: u32 = 32 << 10;

/// The server, its veth pairs, and the load of its clients.
pub(super) struct Bench {
    pub veth_pairs: VethPairs,
    pub server: TestServer,
    pub plan: Plan,
    pub file_set: Arc<FileSet>,
    // the files that are served
    _scratch: ScratchDir,
}

impl Bench {
    /// Creates the veth pairs and starts the server.
    pub fn new(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<Self, RunError> {
        let veth_pairs = VethPairs::new(VETH_PAIRS, 1500)?;
        let scratch = ScratchDir::in_memory()?;
        let dir = scratch.dir("export")?;
        let options = Options {
            place: Placement::inside(&veth_pairs.server),
            listen: vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
            ..Options::of_dir(&dir)
        };
        // threads on every CPU from the start: only the effect of sockets is measured
        let server = bowline::start(&options.set("pool-mode", "percpu"))?;
        findings.commands.push(server.command().to_owned());
        let setup =
            format!("{VETH_PAIRS} veth pairs of MTU 1500, {CLIENTS} clients, depth {DEPTH}");
        findings.setup.push(fact("network", &setup));
        findings
            .setup
            .push(fact("calls", &"READ of 32 KiB over UDP, 8 files of 4 MiB, all cached"));
        let addrs: Vec<IpAddr> = veth_pairs.server_addrs();
        let first = addrs.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut plan = Plan::new(server.nfs_at(first), server.export(), Workload::Read);
        target_server(&mut plan, &server);
        plan.servers = addrs.into_iter().map(|addr| server.nfs_at(addr)).collect();
        (plan.proto, plan.size) = (Proto::Udp, SIZE);
        (plan.clients, plan.depth, plan.threads) = (CLIENTS, DEPTH, usize::from(VETH_PAIRS));
        plan.warmup = Duration::from_millis(ctx.quick_or_full(100, 300));
        plan.time = Duration::from_millis(ctx.quick_or_full(500, 2000));
        let file_set = Arc::new(at_clients(&veth_pairs.client, || FileSet::prepare(&plan))??);
        Ok(Self { veth_pairs, server, plan, file_set, _scratch: scratch })
    }

    /// Runs the load once.
    pub fn load(&mut self, ctx: &RunContext<'_>) -> Result<MeasuredLoad, RunError> {
        let Self { veth_pairs, server, plan, file_set, .. } = self;
        at_clients(&veth_pairs.client, || measure_load(plan, file_set, server, ctx))?
    }

    /// Runs the load once: the usual measures, and how evenly the interfaces were served.
    pub fn once(&mut self, ctx: &RunContext<'_>) -> Result<BTreeMap<String, f64>, RunError> {
        let (before, waited) = (self.veth_pairs.traffic()?, self.waited()?);
        let done = self.load(ctx)?;
        let after = self.veth_pairs.traffic()?;
        let waited = self.waited()?.saturating_sub(waited);
        let out: Vec<f64> =
            after.iter().zip(&before).map(|(a, b)| float(a.since(*b).bytes_out)).collect();
        let (least, most) = super::spread(&out);
        let mut all = done.measures();
        all.extend(measures([
            ("interfaces_most_to_least", most / least),
            ("sends_waited_per_call", float(waited) / float(done.calls.max(1))),
            ("retransmitted_per_s", float(done.report.retransmitted) / done.report.seconds),
        ]));
        Ok(all)
    }

    /// Number of replies that waited for another reply on the same socket.
    fn waited(&self) -> Result<u64, RunError> {
        let status: Status = self.server.ask(&Request::Status)?;
        let row = status.counters.iter().find(|row| row.name == "udp-sends-waited");
        Ok(row.map_or(0, |row| row.value))
    }

    /// Sets zero copy; whether this version has it.
    pub fn has_zero_copy(&self) -> bool {
        self.server.set("zero-copy", "on").is_ok()
    }
}

fn at_clients<T: Send>(
    clients: &Namespace,
    work: impl FnOnce() -> T + Send,
) -> Result<T, RunError> {
    Ok(clients.run(work)?)
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
const fn float(count: u64) -> f64 {
    count as f64
}
