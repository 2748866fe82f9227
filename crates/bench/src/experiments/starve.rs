//! `starve`: how long MOUNT and the port mapper take to answer while the server is saturated.
//!
//! In 2009 a machine whose 128 server threads were all runnable did not run portmap and mountd for tens of
//! seconds. The probes here are one call at a time, each on a connection of its own, as mount(8) does, while
//! closed-loop clients keep every thread busy.

use super::{Experiment, Rounds, RunContext, RunError, axis, fact, measures, target_server};
use crate::load::{FileSet, LiveCounters, Plan, Workload};
use crate::result::{Findings, Target};
use crate::servers::bowline::{self, Options};
use crate::servers::{ScratchDir, TestServer};
use client::Client;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "starve",
    title: "MOUNT and port mapper under saturation",
    question: "How long do MOUNT and the port mapper take to answer while clients keep all threads busy, under each \
               wake policy?",
    run,
};

const POLICIES: [&str; 5] = ["unlimited", "cap:5", "cap:16", "chain", "adaptive"];
/// The port mapper's port (RFC 1833 §3).
const PORTMAP: u16 = proto::portmap::PORT;
/// Limit of a probe's p99 latency.
const P99_MS_MAX: f64 = 20.0;
/// Timeout of a probe.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two probes, so that they are not a load themselves.
const PAUSE: Duration = Duration::from_millis(2);

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("export")?;
    for n in 0..256 {
        std::fs::write(dir.join(format!("file{n}")), b"x")?;
    }
    let mut options = Options::of_dir(&dir).set("threads", "128..128");
    // a running port mapper of this machine keeps its port
    options.portmap = TcpListener::bind((Ipv4Addr::LOCALHOST, PORTMAP)).is_ok();
    let asked = if options.portmap { "and GETPORT of the port mapper on port 111, " } else { "" };
    let mapper = options.portmap;
    let mut server = bowline::start(&options)?;
    findings.commands.push(server.command().to_owned());
    let mut plan = Plan::new(server.nfs(), server.export(), Workload::Access);
    target_server(&mut plan, &server);
    (plan.clients, plan.depth) = (64, 16);
    (plan.warmup, plan.time) =
        (Duration::ZERO, Duration::from_millis(ctx.quick_or_full(600, 3000)));
    findings.setup.extend([
        fact("load", &"ACCESS, 64 clients with 16 calls each in flight, closed loop"),
        fact(
            "probe",
            &format!("MNT on the port of NFS {asked}one call at a time, a connection each"),
        ),
    ]);
    let file_set = Arc::new(FileSet::prepare(&plan)?);
    Rounds::new(findings, ctx, ctx.quick_or_full(2, 5)).interleave(&POLICIES, None, |policy| {
        server.set("wake-policy", policy)?;
        probed(&plan, &file_set, &mut server, mapper, ctx)
    })?;
    for policy in POLICIES.iter().filter(|policy| **policy != "unlimited") {
        findings.ratio("mount_p99_ms", policy, "unlimited", None);
    }
    let probes = [("MOUNT", "mount_p99_ms", true), ("the port mapper", "portmap_p99_ms", mapper)];
    for (what, measure, _) in probes.iter().filter(|(_, _, asked)| *asked) {
        let values = POLICIES.map(|policy| findings.values(policy, None, measure));
        let worst = values.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
        let middle = POLICIES.map(|policy| findings.median(policy, None, measure));
        let middle = middle.into_iter().fold(0.0, f64::max);
        findings.targets.push(Target {
            condition: format!("{what} answers in under {P99_MS_MAX} ms at p99 while saturated"),
            found: format!(
                "{middle:.1} ms under the worst policy, {worst:.1} ms in its worst round"
            ),
            held: middle < P99_MS_MAX,
        });
    }
    bars(findings);
    Ok(())
}

/// The load, with probes in parallel.
fn probed(
    plan: &Plan,
    file_set: &Arc<FileSet>,
    server: &mut TestServer,
    mapper: bool,
    ctx: &RunContext<'_>,
) -> Result<BTreeMap<String, f64>, RunError> {
    let (live, done) = (LiveCounters::new(plan.threads), AtomicBool::new(false));
    let (addr, export) = (server.nfs(), server.export().to_owned());
    let (run, probes) = std::thread::scope(|scope| {
        let mount = |client: &mut Client| client.mount(export.as_bytes()).map(drop);
        let getport = |client: &mut Client| {
            client.getport(proto::mount::PROGRAM, 3, proto::portmap::PROTOCOL_TCP).map(drop)
        };
        let done = &done;
        let mounts = scope.spawn(move || probe(addr, mount, done));
        let mapper_addr = SocketAddr::new(addr.ip(), PORTMAP);
        let ports = mapper.then(|| scope.spawn(move || probe(mapper_addr, getport, done)));
        let run = crate::load::run(plan, file_set, &live, ctx.stop);
        done.store(true, Relaxed);
        let joined = |prober: Prober<'_>| {
            prober.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (run, [Some(joined(mounts)), ports.map(joined)])
    });
    let run = run?;
    if let Some(error) = run.error {
        return Err(error.into());
    }
    let mut found = measures([("calls_per_s", run.report.calls_per_s)]);
    for (what, probes) in ["mount", "portmap"].into_iter().zip(probes) {
        let Some(probes) = probes else { continue };
        let mut times: Vec<f64> = probes?.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        let share = |part: usize| times.get(times.len() * part / 100).or(times.last()).copied();
        #[expect(clippy::cast_precision_loss, reason = "thousands at most")]
        let count = times.len() as f64;
        for (measure, value) in [
            ("p50_ms", share(50).unwrap_or(f64::NAN)),
            ("p99_ms", share(99).unwrap_or(f64::NAN)),
            ("max_ms", times.last().copied().unwrap_or(f64::NAN)),
            ("probes", count),
        ] {
            found.insert(format!("{what}_{measure}"), value);
        }
    }
    Ok(found)
}

/// A thread that probes.
type Prober<'s> = std::thread::ScopedJoinHandle<'s, Result<Vec<Duration>, RunError>>;

/// Probes repeatedly until `done`; the time of each, connecting included.
fn probe(
    addr: SocketAddr,
    ask: impl Fn(&mut Client) -> client::Result<()>,
    done: &AtomicBool,
) -> Result<Vec<Duration>, RunError> {
    let mut times = Vec::new();
    let failed = |error: client::Error| RunError::Failed(format!("a probe failed: {error}"));
    while !done.load(Relaxed) {
        let begun = Instant::now();
        let mut client = Client::tcp(addr, PATIENCE).map_err(failed)?;
        ask(&mut client).map_err(failed)?;
        times.push(begun.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(times)
}

fn bars(findings: &mut Findings) {
    findings.plot_bars(
        "Time to mount while saturated",
        axis("wake policy", ""),
        axis("time", "ms"),
        &POLICIES,
        &[("median", "mount_p50_ms"), ("p99", "mount_p99_ms")],
    );
}
