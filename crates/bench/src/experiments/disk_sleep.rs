//! `disk-sleep`: calls that wait for a disk among calls that do not. A policy that wakes few threads must
//! not leave work queued behind blocked threads, and calls that do not block must not be delayed.
//!
//! The disk is a file system in memory of which 5 % of the calls sleep 5 to 20 ms, evenly distributed. As no
//! call that slept is answered in less than 5 ms, the 94th percentile of all calls is the 98.9th of those that
//! did not.
//!
//! A last variant shows the share of the clients and the machine: a disk that never sleeps, and as many
//! clients as have a call in flight that does not sleep.

use super::{Experiment, Rounds, RunContext, RunError, fact, measure_load, target_server};
use crate::load::{FileSet, Plan, Workload};
use crate::result::{Findings, Target};
use crate::servers::bowline::{self, Options};
use crate::servers::{Placement, TestServer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "disk-sleep",
    title: "Calls that sleep among calls that do not",
    question: "64 clients send ACCESS; 5 % of the calls sleep 5 to 20 ms. How many calls a second, and how long do \
               those take that do not sleep, under each wake policy?",
    run,
};

const POLICIES: [&str; 5] = ["unlimited", "cap:5", "cap:16", "chain", "adaptive"];
const DELAY: &str = "delay=5%:5..20ms";
const CLIENTS: usize = 64;
/// The variant whose disk never sleeps, and its clients: of the others some 40 have a call asleep.
const AWAKE: &str = "adaptive, nothing sleeps";
const AWAKE_CLIENTS: usize = 24;
/// A policy may be worse than `unlimited` by this much.
const LOSS_MAX: f64 = 0.10;
/// Limit of the p99 latency of calls that do not sleep under `adaptive`.
const WISH_US: f64 = 1000.0;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let cpus = sys::thread::allowed_cpus()?;
    let (server_cpus, client_cpus) = match cpus.as_slice() {
        [others @ .., last] if !others.is_empty() => (vec![*last], others.to_vec()),
        _ => (Vec::new(), Vec::new()),
    };
    let place = Placement { cpus: server_cpus, ..Placement::default() };
    let started = |options: Options, clients: usize| -> Result<Bench, RunError> {
        let options = Options { place: place.clone(), ..options.set("threads", "128..128") };
        let server = bowline::start(&options)?;
        let mut plan = Plan::new(server.nfs(), server.export(), Workload::Access);
        target_server(&mut plan, &server);
        (plan.clients, plan.cpus) = (clients, client_cpus.clone());
        plan.warmup = Duration::from_millis(ctx.quick_or_full(200, 500));
        plan.time = Duration::from_millis(ctx.quick_or_full(500, 2000));
        let file_set = Arc::new(FileSet::prepare(&plan)?);
        Ok(Bench { server, plan, file_set })
    };
    let mut slow = started(Options::of_slow_memory(DELAY), CLIENTS)?;
    let mut awake = started(Options::of_memory(), AWAKE_CLIENTS)?;
    findings.commands.extend([&slow, &awake].map(|bench| bench.server.command().to_owned()));
    findings.setup.extend([
        fact("disk", &DELAY),
        fact("clients", &format!("{CLIENTS}; {AWAKE_CLIENTS} where nothing sleeps")),
    ]);
    let variants: Vec<&str> = POLICIES.into_iter().chain([AWAKE]).collect();
    Rounds::new(findings, ctx, ctx.quick_or_full(2, 7)).interleave(&variants, None, |variant| {
        if *variant == AWAKE {
            return awake.measure(99.0, ctx);
        }
        slow.server.set("wake-policy", variant)?;
        slow.measure(94.0, ctx)
    })?;
    evaluate_targets(findings);
    Ok(())
}

/// A server and its load.
struct Bench {
    server: TestServer,
    plan: Plan,
    file_set: Arc<FileSet>,
}

impl Bench {
    /// Runs the load; `share` percent of all calls are 99 % of those that do not sleep.
    fn measure(
        &mut self,
        share: f64,
        ctx: &RunContext<'_>,
    ) -> Result<BTreeMap<String, f64>, RunError> {
        let measured = measure_load(&self.plan, &self.file_set, &mut self.server, ctx)?;
        let mut measures = measured.measures();
        let quick = measured.report.percentiles.iter().find(|(of, _)| *of >= share);
        measures.insert("quick_p99_us".into(), quick.map_or(f64::NAN, |(_, us)| *us));
        Ok(measures)
    }
}

fn evaluate_targets(findings: &mut Findings) {
    let mut worst = f64::INFINITY;
    for policy in POLICIES.iter().skip(1) {
        findings.ratio("calls_per_s", policy, POLICIES[0], None);
        let of = findings.median(policy, None, "calls_per_s");
        worst = worst.min(of / findings.median(POLICIES[0], None, "calls_per_s"));
    }
    findings.targets.push(Target {
        condition: "no policy loses more than 10 % of the calls against unlimited".into(),
        found: format!("the slowest has {worst:.2} of unlimited's calls a second"),
        held: worst >= 1.0 - LOSS_MAX,
    });
    let quick = findings.median("adaptive", None, "quick_p99_us");
    findings.targets.push(Target {
        condition: "adaptive answers calls that do not sleep in under 1 ms at p99".into(),
        found: format!(
            "{quick:.0} us; {:.0} us where nothing sleeps",
            findings.median(AWAKE, None, "quick_p99_us")
        ),
        held: quick < WISH_US,
    });
    findings.ratio("quick_p99_us", "adaptive", AWAKE, None);
}
