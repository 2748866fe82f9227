//! `fairness`: what a client that keeps 64 calls under way costs another that makes one call at a time.
//!
//! The server has one CPU for itself, so that the two meet in it. The greedy client's thread runs only
//! when the other's does not want to (`SCHED_IDLE`): what is measured is the server's turn, not who of the
//! two clients gets their common CPU.

use super::{Cannot, Experiment, Rounds, Setting, aim, axis, fact, faultless, measures};
use crate::load::{Live, Plan, Run, Scene, Workload};
use crate::result::{Findings, Target};
use crate::subject::bowline::{self, Options};
use crate::subject::{Place, Scratch, Subject};
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
/// How many times as long the median may be.
const WISH: f64 = 2.0;
/// The greedy client ends when the other has.
const LONG: Duration = Duration::from_secs(600);
/// From the greedy client's start to the other's.
const AHEAD: Duration = Duration::from_millis(150);

/// A client that keeps [`DEPTH`] calls under way.
struct Greedy {
    name: String,
    plan: Plan,
    scene: Arc<Scene>,
}

fn run(setting: &Setting<'_>, findings: &mut Findings) -> Result<(), Cannot> {
    let cpus = sys::thread::allowed_cpus()?;
    let [others @ .., last] = cpus.as_slice() else {
        return Err(Cannot::Unable("the CPUs of this machine are not known".into()));
    };
    if others.is_empty() {
        return Err(Cannot::Unable("needs two CPUs: one for the server, one for clients".into()));
    }
    let scratch = Scratch::in_memory()?;
    let dir = scratch.dir("export")?;
    for n in 0..256 {
        std::fs::write(dir.join(format!("file{n}")), b"x")?;
    }
    let place = Place { cpus: vec![*last], ..Place::default() };
    let mut server = bowline::start(&Options { place, ..Options::of_dir(&dir) })?;
    findings.commands.push(server.command().to_owned());
    findings.setup.extend([
        fact("modest", &"GETATTR, one call at a time"),
        fact("greedy", &format!("one connection, {DEPTH} calls under way")),
        fact("CPUs", &"one for the server, the rest for the clients"),
    ]);
    let mut modest = Plan::new(server.nfs(), server.export(), Workload::Getattr);
    aim(&mut modest, &server);
    modest.cpus = others.to_vec();
    modest.time = Duration::from_millis(setting.pick(500, 2000));
    let scene = Arc::new(Scene::prepare(&modest)?);
    let greedy = greedy(&modest)?;
    let names: Vec<&str> =
        std::iter::once(ALONE).chain(greedy.iter().map(|greedy| greedy.name.as_str())).collect();
    Rounds::new(findings, setting, setting.pick(3, 7)).interleave(&names, None, |name| {
        let beside = greedy.iter().find(|greedy| greedy.name == *name);
        trial(&modest, &scene, beside, &mut server, setting)
    })?;
    judge(findings, &names);
    Ok(())
}

fn greedy(modest: &Plan) -> Result<Vec<Greedy>, Cannot> {
    let kinds = [
        ("GETATTR", Workload::Getattr),
        ("READ of 32 KiB", Workload::Read),
        ("WRITE of 32 KiB", Workload::Write),
    ];
    let mut all = Vec::new();
    for (what, workload) in kinds {
        let (depth, time, warmup) = (DEPTH, LONG, Duration::ZERO);
        let plan = Plan { workload, depth, time, warmup, ..modest.clone() };
        let scene = Arc::new(Scene::prepare(&plan)?);
        all.push(Greedy { name: format!("beside {DEPTH} {what}"), plan, scene });
    }
    Ok(all)
}

/// The modest client's load, with a greedy one beside it if one is given.
fn trial(
    modest: &Plan,
    scene: &Arc<Scene>,
    greedy: Option<&Greedy>,
    server: &mut Subject,
    setting: &Setting<'_>,
) -> Result<BTreeMap<String, f64>, Cannot> {
    let over = AtomicBool::new(false);
    let before = server.reading()?;
    let (run, beside) = std::thread::scope(|scope| {
        let beside = greedy.map(|greedy| {
            let over = &over;
            scope.spawn(move || -> Result<Run, Cannot> {
                sys::thread::run_last()?;
                let live = Live::new(1);
                Ok(crate::load::run(&greedy.plan, &greedy.scene, &live, over)?)
            })
        });
        std::thread::sleep(AHEAD);
        let run = crate::load::run(modest, scene, &Live::new(1), setting.stop);
        over.store(true, Relaxed);
        let beside = beside
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (run, beside)
    });
    let usage = server.reading()?.since(&before);
    setting.go_on()?;
    let report = faultless(run?, server.name())?;
    let beside = beside.transpose()?.map(|run| faultless(run, server.name())).transpose()?;
    Ok(measures([
        ("p50_us", report.latency.p50_us),
        ("p99_us", report.latency.p99_us),
        ("calls_per_s", report.calls_per_s),
        ("greedy_calls_per_s", beside.map_or(0.0, |beside| beside.calls_per_s)),
        ("server_cpu_s", Duration::from_nanos(usage.cpu_ns).as_secs_f64()),
    ]))
}

fn judge(findings: &mut Findings, names: &[&str]) {
    for name in names.iter().filter(|name| **name != ALONE) {
        let times = findings.ratio("p50_us", name, ALONE, None);
        findings.ratio("p99_us", name, ALONE, None);
        let (beside, alone) =
            (findings.median(name, None, "p50_us"), findings.median(ALONE, None, "p50_us"));
        findings.targets.push(Target {
            wish: format!("{name}: the median is at most {WISH:.0} times what it is alone"),
            found: format!("{times:.2} times ({beside:.0} us, {alone:.0} us alone)"),
            held: times <= WISH,
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
