//! `auth-scale`: a question of 2009: the cost of finding the authentication flavour of a call, by how
//! the table is shared and by the number of threads.
//!
//! The original measured it in a whole server of 16 CPUs (242 → 253 thousand operations a second, lock
//! contention 4.61 % → 0.03 %). On a few CPUs that is below the noise of a server, so the look-up is measured
//! by itself, the server's own code against other ways of sharing. Threads have real-time priority where that
//! is allowed, for a few milliseconds at a time.

use super::{Experiment, Rounds, RunContext, RunError, axis, fact, measures, spread};
use crate::auth_table::{Sharing, look_up_ns};
use crate::result::{Findings, Table, Target};
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "auth-scale",
    title: "Authentication that scales",
    question: "How long does a call take to find its flavour in a table that may be changed meanwhile, with one \
               thread and with several at once, under a mutex, a reader-writer lock, a reference count, and the \
               server's snapshot?",
    run,
};

const MEASURE: &str = "look_up_ns_per_call";
/// The target of the design for the snapshot.
const WISH_NS: f64 = 10.0;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let cpus = sys::thread::allowed_cpus()?.len().max(1);
    let mut threads: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2))
        .take_while(|n| *n < cpus)
        .chain([cpus, cpus * 2])
        .collect();
    threads.dedup();
    findings.setup.extend([
        fact("flavour", &"AUTH_NONE, which does nothing itself"),
        fact("processors", &cpus),
        fact("time", &"of the threads that look, not of the clock"),
    ]);
    original(findings);
    let names = Sharing::ALL.map(Sharing::name);
    let time = Duration::from_millis(ctx.quick_or_full(10, 40));
    for count in threads {
        #[expect(clippy::cast_precision_loss, reason = "a number of processors")]
        let at = Some(count as f64);
        Rounds::new(findings, ctx, ctx.quick_or_full(3, 9)).interleave(&names, at, |name| {
            let sharing = Sharing::ALL.into_iter().find(|sharing| sharing.name() == *name);
            let sharing = sharing.ok_or_else(|| RunError::Failed(format!("no table {name}")))?;
            Ok(measures([(MEASURE, look_up_ns(sharing, count, time))]))
        })?;
    }
    for at in findings.places() {
        for other in names.iter().filter(|name| **name != Sharing::Snapshot.name()) {
            findings.ratio(MEASURE, other, Sharing::Snapshot.name(), Some(at));
        }
    }
    findings.plot_lines(
        "One look-up over threads",
        axis("threads", ""),
        axis("processor time per look-up", "ns"),
        MEASURE,
        &names,
    );
    evaluate_targets(findings, cpus);
    Ok(())
}

fn evaluate_targets(findings: &mut Findings, cpus: usize) {
    let medians = |findings: &Findings, variant: &str| -> Vec<f64> {
        findings
            .places()
            .into_iter()
            .map(|at| findings.median(variant, Some(at), MEASURE))
            .collect()
    };
    let (low, high) = spread(&medians(findings, Sharing::Snapshot.name()));
    findings.targets.push(Target {
        condition: format!(
            "a look-up in the snapshot takes at most {WISH_NS} ns at any number of threads"
        ),
        found: format!("{low:.1} to {high:.1} ns"),
        held: high <= WISH_NS,
    });
    findings.targets.push(Target {
        condition: "it takes as long with many threads as with one (at most 1.5 times)".into(),
        found: format!("{:.2} times from the least to the most", high / low),
        held: high <= 1.5 * low,
    });
    if cpus > 1 {
        let others = [Sharing::Mutex, Sharing::RwLock, Sharing::Arc].map(|sharing| {
            let worst = spread(&medians(findings, sharing.name())).1;
            (format!("{} {worst:.0} ns", sharing.name()), worst)
        });
        findings.targets.push(Target {
            condition: "a lock or a reference count costs at least three times as much with several threads".into(),
            found: others.each_ref().map(|(text, _)| text.as_str()).join(", "),
            held: others.iter().all(|(_, worst)| *worst >= 3.0 * high),
        });
    } else {
        findings.notes.push("one CPU only: nothing can be contended".into());
    }
}

fn original(findings: &mut Findings) {
    let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    findings.tables.push(Table {
        title: "The original (2009): 16 CPUs, 640 client threads walking directories with small random reads".into(),
        columns: row(["", "before (spinlock)", "after (RCU)"]),
        rows: vec![
            row(["operations a second", "242,000", "253,000"]),
            row(["lock contention", "4.61 %", "0.03 %"]),
        ],
    });
}
