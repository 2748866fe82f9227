//! `fairness`: how much a client that keeps 64 calls in flight delays another that makes one call at a
//! time.
//!
//! The server has one CPU for itself, so that the two compete in it. The greedy client's thread runs only
//! when the other's is idle (`SCHED_IDLE`): the server's scheduling is measured, not which of the two
//! clients gets their common CPU.

use super::{
    Experiment, Rounds, RunContext, RunError, axis, fact, measures, require_clean, target_server,
};
use crate::load::{FileSet, LiveCounters, Plan, Run, Workload};
use crate::result::{Findings, Target};
use crate::servers::bowline::{self, Options};
use crate::servers::{Placement, ScratchDir, TestServer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fairness",
    title: "A modest client beside a greedy one",
    question: "One client makes a GETATTR at a time. How much longer does it wait if another keeps 64 calls under way \
               on a connection of its own: GETATTR, or READ and WRITE of 32 KiB?",
    run,
};

const ALONE: &str = "alone";
const DEPTH: usize = 64;
/// Limit of the ratio of the medians.
const MEDIAN_RATIO_MAX: f64 = 2.0;
/// The greedy client ends when the other has.
const LONG: Duration = Duration::from_secs(600);
/// From the greedy client's start to the other's.
const AHEAD: Duration = Duration::from_millis(150);

/// A client that keeps [`DEPTH`] calls in flight.
struct Greedy {
    name: String,
    plan: Plan,
    file_set: Arc<FileSet>,
}

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let cpus = sys::thread::allowed_cpus()?;
    let [others @ .., last] = cpus.as_slice() else {
        return Err(RunError::Unable("the CPUs of this machine are not known".into()));
    };
    if others.is_empty() {
        return Err(RunError::Unable("needs two CPUs: one for the server, one for clients".into()));
    }
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("export")?;
    for n in 0..256 {
        std::fs::write(dir.join(format!("file{n}")), b"x")?;
    }
    let place = Placement { cpus: vec![*last], ..Placement::default() };
    let mut server = bowline::start(&Options { place, ..Options::of_dir(&dir) })?;
    findings.commands.push(server.command().to_owned());
    findings.setup.extend([
        fact("modest", &"GETATTR, one call at a time"),
        fact("greedy", &format!("one connection, {DEPTH} calls under way")),
        fact("CPUs", &"one for the server, the rest for the clients"),
    ]);
    let mut modest = Plan::new(server.nfs(), server.export(), Workload::Getattr);
    target_server(&mut modest, &server);
    modest.cpus = others.to_vec();
    modest.time = Duration::from_millis(ctx.quick_or_full(500, 2000));
    let file_set = Arc::new(FileSet::prepare(&modest)?);
    let greedy = greedy(&modest)?;
    let names: Vec<&str> =
        std::iter::once(ALONE).chain(greedy.iter().map(|greedy| greedy.name.as_str())).collect();
    Rounds::new(findings, ctx, ctx.quick_or_full(3, 7)).interleave(&names, None, |name| {
        let beside = greedy.iter().find(|greedy| greedy.name == *name);
        trial(&modest, &file_set, beside, &mut server, ctx)
    })?;
    evaluate_targets(findings, &names);
    Ok(())
}

fn greedy(modest: &Plan) -> Result<Vec<Greedy>, RunError> {
    let kinds = [
        ("GETATTR", Workload::Getattr),
        ("READ of 32 KiB", Workload::Read),
        ("WRITE of 32 KiB", Workload::Write),
    ];
    let mut all = Vec::new();
    for (what, workload) in kinds {
        let (depth, time, warmup) = (DEPTH, LONG, Duration::ZERO);
        let plan = Plan { workload, depth, time, warmup, ..modest.clone() };
        let file_set = Arc::new(FileSet::prepare(&plan)?);
        all.push(Greedy { name: format!("beside {DEPTH} {what}"), plan, file_set });
    }
    Ok(all)
}

/// The modest client's load, with a greedy one beside it if one is given.
fn trial(
    modest: &Plan,
    file_set: &Arc<FileSet>,
    greedy: Option<&Greedy>,
    server: &mut TestServer,
    ctx: &RunContext<'_>,
) -> Result<BTreeMap<String, f64>, RunError> {
    let over = AtomicBool::new(false);
    let before = server.reading()?;
    let (run, beside) = std::thread::scope(|scope| {
        let beside = greedy.map(|greedy| {
            let over = &over;
            scope.spawn(move || -> Result<Run, RunError> {
                sys::thread::run_last()?;
                let live = LiveCounters::new(1);
                Ok(crate::load::run(&greedy.plan, &greedy.file_set, &live, over)?)
            })
        });
        std::thread::sleep(AHEAD);
        let run = crate::load::run(modest, file_set, &LiveCounters::new(1), ctx.stop);
        over.store(true, Relaxed);
        let beside = beside
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (run, beside)
    });
    let usage = server.reading()?.since(&before);
    ctx.go_on()?;
    let report = require_clean(run?, server.name())?;
    let beside = beside.transpose()?.map(|run| require_clean(run, server.name())).transpose()?;
    Ok(measures([
        ("p50_us", report.latency.p50_us),
        ("p99_us", report.latency.p99_us),
        ("calls_per_s", report.calls_per_s),
        ("greedy_calls_per_s", beside.map_or(0.0, |beside| beside.calls_per_s)),
        ("server_cpu_s", Duration::from_nanos(usage.cpu_ns).as_secs_f64()),
    ]))
}

fn evaluate_targets(findings: &mut Findings, names: &[&str]) {
    for name in names.iter().filter(|name| **name != ALONE) {
        let times = findings.ratio("p50_us", name, ALONE, None);
        findings.ratio("p99_us", name, ALONE, None);
        let (beside, alone) =
            (findings.median(name, None, "p50_us"), findings.median(ALONE, None, "p50_us"));
        findings.targets.push(Target {
            condition: format!(
                "{name}: the median is at most {MEDIAN_RATIO_MAX:.0} times what it is alone"
            ),
            found: format!("{times:.2} times ({beside:.0} us, {alone:.0} us alone)"),
            held: times <= MEDIAN_RATIO_MAX,
        });
    }
    findings.plot_bars(
        "Time of one GETATTR",
        axis("", ""),
        axis("time", "us"),
        names,
        &[("median", "p50_us"), ("p99", "p99_us")],
    );
}
