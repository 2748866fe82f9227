//! `pools`: one pool of threads for all CPUs, one for each CPU, or one for each memory node.

use super::{Cannot, Experiment, Rounds, Setting, aim, axis, fact, loaded};
use crate::load::{Plan, Scene, Workload};
use crate::result::Findings;
use crate::subject::Scratch;
use crate::subject::bowline::{self, Options};
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pools",
    title: "One pool of threads, or one for each CPU or memory node",
    question: "Which CPUs should share a pool of threads: all (global), none (percpu), or those of a memory node \
               (pernode)? ACCESS on cached files, 4 to 64 clients.",
    run,
};

const MODES: [&str; 3] = ["global", "percpu", "pernode"];

fn run(setting: &Setting<'_>, findings: &mut Findings) -> Result<(), Cannot> {
    let scratch = Scratch::in_memory()?;
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
    aim(&mut plan, &server);
    plan.warmup = Duration::from_millis(setting.pick(100, 300));
    plan.time = Duration::from_millis(setting.pick(300, 1500));
    let scene = Arc::new(Scene::prepare(&plan)?);
    for clients in setting.pick(&[16_usize][..], &[4, 16, 64]) {
        plan.clients = *clients;
        #[expect(clippy::cast_precision_loss, reason = "64 at most")]
        let at = Some(*clients as f64);
        Rounds::new(findings, setting, setting.pick(3, 7)).interleave(&MODES, at, |mode| {
            server.set("pool-mode", mode)?;
            Ok(loaded(&plan, &scene, &mut server, setting)?.measures())
        })?;
        findings.ratio("calls_per_s", "percpu", "global", at);
        findings.ratio("server_cpu_us_per_call", "percpu", "global", at);
        findings.ratio("calls_per_s", "pernode", "global", at);
    }
    let x = || axis("clients", "");
    findings.plot_lines("Calls a second", x(), axis("calls", "1/s"), "calls_per_s", &MODES);
    let cpu = axis("server CPU per call", "us");
    findings.plot_lines("Server CPU per call", x(), cpu, "server_cpu_us_per_call", &MODES);
    Ok(())
}
