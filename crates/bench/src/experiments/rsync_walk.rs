//! `rsync-walk`: an experiment of 2009. Clients walk a tree as rsync does, almost only ACCESS, while the
//! server has 128 threads: calls a second and context switches of each wake policy.
//!
//! "One CPU" pins the server to the last CPU and the clients to the others, as the original had one CPU in its
//! thread pool; "all CPUs" lets both run anywhere.

use super::{
    Experiment, Rounds, RunContext, RunError, axis, fact, line, measure_load, target_server,
};
use crate::load::{FileSet, Plan, Workload};
use crate::result::{Findings, Plot, Point, Series, Shape, Table, Target};
use crate::servers::bowline::{self, Options};
use crate::servers::{Placement, ScratchDir, TestServer};
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rsync-walk",
    title: "A thread pool that does not overload the scheduler",
    question: "16 to 64 clients walk a tree as rsync does (almost only ACCESS, all cached) on a server with \
               128 threads. How many calls a second, and how many context switches, under each wake policy?",
    run,
};

/// Objects of the original's tree.
const OBJECTS: f64 = 172_321.0;
/// The original's thread count.
const THREADS: &str = "128..128";
/// The policies compared; the first is the "before" of 2009, cap:5 its "after".
const POLICIES: [&str; 6] = ["unlimited", "cap:1", "cap:5", "cap:16", "chain", "adaptive"];
/// Clients, and the original's calls a second before and after.
const ORIGINAL: [(f64, f64, f64); 7] = [
    (16.0, 57_353.0, 74_965.0),
    (24.0, 57_787.0, 79_397.0),
    (32.0, 57_921.0, 80_746.0),
    (40.0, 57_936.0, 81_629.0),
    (48.0, 57_930.0, 81_775.0),
    (56.0, 57_467.0, 81_411.0),
    (64.0, 57_595.0, 81_543.0),
];

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("tree")?;
    let scale = ctx.quick_or_full(0.02, largest_scale());
    let made = crate::mktree::make(&dir, scale, ctx.stop, &|_, _| {})
        .map_err(|e| RunError::Failed(e.to_string()))?;
    findings.setup.extend([
        fact("tree", &format!("{} directories, {} files, in memory", made.directories, made.files)),
        fact("threads", &THREADS),
    ]);
    original(findings);
    let cpus = sys::thread::allowed_cpus()?;
    let clients: &[usize] = ctx.quick_or_full(&[16, 64], &[16, 24, 32, 40, 48, 56, 64]);
    if let [others @ .., last] = cpus.as_slice()
        && !others.is_empty()
    {
        let split = CpuSplit { name: "one CPU", server: vec![*last], clients: others.to_vec() };
        walk(ctx, findings, &dir, &split, ctx.quick_or_full(2, 9), clients)?;
    } else {
        findings.notes.push("one CPU only: clients and server share it".into());
    }
    let split = CpuSplit { name: "all CPUs", server: Vec::new(), clients: Vec::new() };
    let clients = ctx.quick_or_full(&[32][..], &[16, 32, 64]);
    walk(ctx, findings, &dir, &split, ctx.quick_or_full(2, 5), clients)?;
    evaluate_targets(findings);
    Ok(())
}

/// The largest tree whose objects the server can keep open: beyond it each call opens and closes one, which
/// costs more than the wake-up that is measured here. A third of its descriptors are for objects.
fn largest_scale() -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a million at most")]
    let descriptors = sys::limits::raise_open_files().min(1 << 20) as f64;
    (descriptors * 0.28 / OBJECTS).clamp(0.02, 0.2)
}

/// The CPUs of the server and of the clients; empty: all.
struct CpuSplit {
    name: &'static str,
    server: Vec<usize>,
    clients: Vec<usize>,
}

/// All policies on one split. The targets apply to the worst of seven client counts: with few rounds
/// the lowest median is below the true value.
fn walk(
    ctx: &RunContext<'_>,
    findings: &mut Findings,
    dir: &std::path::Path,
    split: &CpuSplit,
    rounds: u32,
    clients: &[usize],
) -> Result<(), RunError> {
    let place = Placement { cpus: split.server.clone(), ..Placement::default() };
    let options = Options { place, ..Options::of_dir(dir).set("threads", THREADS) };
    let mut server: TestServer = bowline::start(&options)?;
    findings.commands.push(server.command().to_owned());
    let mut plan = Plan::new(server.nfs(), server.export(), Workload::Walk);
    target_server(&mut plan, &server);
    plan.cpus.clone_from(&split.clients);
    // short trials and many rounds: a machine that is slow for some seconds is slow for all variants
    plan.warmup = Duration::from_millis(ctx.quick_or_full(100, 200));
    plan.time = Duration::from_millis(ctx.quick_or_full(300, 700));
    plan.size = 8192;
    let file_set = Arc::new(FileSet::prepare(&plan)?);
    let names = POLICIES.map(|policy| format!("{policy}, {}", split.name));
    for count in clients {
        plan.clients = *count;
        #[expect(clippy::cast_precision_loss, reason = "64 at most")]
        let at = Some(*count as f64);
        Rounds::new(findings, ctx, rounds).interleave(&names, at, |name| {
            let policy = name.split(',').next().unwrap_or_default();
            server.set("wake-policy", policy)?;
            Ok(measure_load(&plan, &file_set, &mut server, ctx)?.measures())
        })?;
    }
    let variants = names.each_ref().map(String::as_str);
    // the original's result comes first, then the default
    let mut others: Vec<&str> = variants.iter().skip(1).copied().collect();
    others.sort_by_key(|name| (!name.starts_with("cap:5"), !name.starts_with("adaptive")));
    for of in &others {
        for at in findings.places() {
            findings.ratio("calls_per_s", of, variants[0], Some(at));
        }
    }
    add_plots(findings, split.name, &variants);
    Ok(())
}

fn add_plots(findings: &mut Findings, split: &str, variants: &[&str]) {
    let mut series: Vec<Series> =
        variants.iter().map(|variant| line(findings, variant, "calls_per_s")).collect();
    if split == "one CPU" {
        let dashed = |name: &str, pick: fn(&(f64, f64, f64)) -> f64| Series {
            name: name.to_owned(),
            original: true,
            points: ORIGINAL
                .iter()
                .map(|row| Point { x: row.0, y: pick(row), low: None, high: None })
                .collect(),
        };
        series.push(dashed("2009, before (unlimited)", |row| row.1));
        series.push(dashed("2009, after (cap of 5)", |row| row.2));
    }
    findings.plots.push(Plot {
        title: format!("Calls a second over clients, {split}"),
        shape: Shape::Lines,
        x: axis("clients", ""),
        y: axis("calls", "1/s"),
        bars: Vec::new(),
        series,
    });
    findings.plot_lines(
        &format!("Context switches of the server per call, {split}"),
        axis("clients", ""),
        axis("context switches per call", ""),
        "switches_per_call",
        variants,
    );
    findings.plot_lines(
        &format!("Waiting for a processor, {split}"),
        axis("clients", ""),
        axis("run-queue delay per call", "us"),
        "run_delay_us_per_call",
        variants,
    );
    findings.plot_lines(
        &format!("Load: the server's threads that run or wait for a processor, {split}"),
        axis("clients", ""),
        axis("runnable threads", ""),
        "runnable_threads",
        variants,
    );
}

fn original(findings: &mut Findings) {
    let row = |(clients, before, after): &(f64, f64, f64)| {
        vec![
            format!("{clients:.0}"),
            format!("{before:.0}"),
            format!("{after:.0}"),
            format!("{:.2}", after / before),
        ]
    };
    findings.tables.push(Table {
        title: "The original (2009): one CPU, 128 threads, calls a second".into(),
        columns: ["clients", "before (1/s)", "after (1/s)", "ratio"].map(str::to_owned).to_vec(),
        rows: ORIGINAL.iter().map(row).collect(),
    });
}

/// The targets, on one CPU.
fn evaluate_targets(findings: &mut Findings) {
    let places = findings.places();
    let least = |findings: &Findings, of: &str| {
        let found = findings.ratios.iter().filter(|r| {
            r.of == format!("{of}, one CPU") && r.to == "unlimited, one CPU" && r.at.is_some()
        });
        found.map(|r| r.median).fold(f64::INFINITY, f64::min)
    };
    for (of, gain) in [("cap:5", 1.3), ("adaptive", 1.6)] {
        let found = least(findings, of);
        if found.is_finite() {
            findings.targets.push(Target {
                condition: format!(
                    "{of} makes at least {gain} times the calls of unlimited at every client count"
                ),
                found: format!("{found:.2} times at the worst"),
                held: found >= gain,
            });
        }
    }
    let switches = places
        .iter()
        .map(|at| findings.median("adaptive, one CPU", Some(*at), "switches_per_call"));
    let most = switches.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if !places.is_empty() && findings.commands.len() > 1 {
        findings.targets.push(Target {
            condition: "adaptive needs at most 0.15 context switches per call".into(),
            found: format!("{most:.3} at the most"),
            held: most <= 0.15,
        });
    }
}
