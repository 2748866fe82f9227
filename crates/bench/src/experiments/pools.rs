//! `pools`: one pool of threads for all CPUs, one for each CPU, or one for each memory node.

use super::{Experiment, Rounds, RunContext, RunError, axis, fact, measure_load, target_server};
use crate::load::{FileSet, Plan, Workload};
use crate::result::{Findings, Target};
use crate::servers::ScratchDir;
use crate::servers::bowline::{self, Options};
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pools",
    title: "One pool of threads, one for each CPU or memory node, or as many as the load needs",
    question: "Which CPUs should share a pool of threads: all (global), none (percpu), or those of a memory node \
               (pernode)? And does auto find out? ACCESS on cached files, 4 to 64 clients.",
    run,
};

const MODES: [&str; 4] = ["global", "percpu", "pernode", "auto"];
/// `auto` may be worse than the best of the others by this much.
const LOSS_MAX: f64 = 0.10;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("export")?;
    for n in 0..256 {
        std::fs::write(dir.join(format!("file{n}")), b"x")?;
    }
    let nodes = sys::thread::nodes().len();
    let cpus = sys::thread::allowed_cpus()?.len();
    findings.setup.extend([fact("CPUs", &cpus), fact("memory nodes", &nodes)]);
    if nodes < 2 {
        let note = "One memory node: pernode is global here, and their difference is noise.";
        findings.notes.push(note.into());
    }
    let mut server = bowline::start(&Options::of_dir(&dir))?;
    findings.commands.push(server.command().to_owned());
    let mut plan = Plan::new(server.nfs(), server.export(), Workload::Access);
    target_server(&mut plan, &server);
    // time for auto to settle
    plan.warmup = Duration::from_millis(ctx.quick_or_full(500, 800));
    plan.time = Duration::from_millis(ctx.quick_or_full(300, 1500));
    let file_set = Arc::new(FileSet::prepare(&plan)?);
    for clients in ctx.quick_or_full(&[16_usize][..], &[4, 16, 64]) {
        plan.clients = *clients;
        #[expect(clippy::cast_precision_loss, reason = "64 at most")]
        let at = Some(*clients as f64);
        Rounds::new(findings, ctx, ctx.quick_or_full(3, 7)).interleave(&MODES, at, |mode| {
            server.set("pool-mode", mode)?;
            Ok(measure_load(&plan, &file_set, &mut server, ctx)?.measures())
        })?;
        findings.ratio("calls_per_s", "percpu", "global", at);
        findings.ratio("server_cpu_us_per_call", "percpu", "global", at);
        findings.ratio("calls_per_s", "pernode", "global", at);
        findings.ratio("calls_per_s", "auto", "global", at);
        findings.ratio("server_cpu_us_per_call", "auto", "percpu", at);
    }
    evaluate_targets(findings);
    let x = || axis("clients", "");
    findings.plot_lines("Calls a second", x(), axis("calls", "1/s"), "calls_per_s", &MODES);
    let cpu = axis("server CPU per call", "us");
    findings.plot_lines("Server CPU per call", x(), cpu, "server_cpu_us_per_call", &MODES);
    Ok(())
}

fn evaluate_targets(findings: &mut Findings) {
    let mut worst = f64::INFINITY;
    for at in findings.places() {
        let of = |mode: &str| findings.median(mode, Some(at), "calls_per_s");
        let best = of("global").max(of("percpu"));
        worst = worst.min(of("auto") / best);
    }
    findings.targets.push(Target {
        condition: format!(
            "auto loses at most {:.0} % of the calls against the best of global and percpu",
            LOSS_MAX * 100.0
        ),
        found: format!("{worst:.2} times as many at the worst count of clients"),
        held: worst >= 1.0 - LOSS_MAX,
    });
}
