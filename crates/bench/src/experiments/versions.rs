//! `versions`: what versions 4.0 and 4.1 cost beside version 3, on the same server and files.
//!
//! A row is a thing that a client wants done, by the calls of each version: LOOKUP is one call in each, creating a file and
//! removing it are two in version 3 and, with the CLOSE, three in version 4. Its cost is that of all its calls. The first
//! variant of a row is what the others are compared with.

use super::{Experiment, MeasuredLoad, Rounds, RunContext, RunError, fact, measure_load, spread};
use super::{measures, target_server};
use crate::load::{FileSet, Plan, Version, Workload};
use crate::result::{Findings, Table, Target};
use crate::servers::bowline::{self, Options};
use crate::servers::{ScratchDir, TestServer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "versions",
    title: "Version 4 beside version 3",
    question: "What do the same things cost a server over versions 4.0 and 4.1 as over version 3, in CPU time, and does a \
               session with 64 calls in flight keep its rate?",
    run,
};

/// CPU time of the server for all calls of a row.
const COST: &str = "server_cpu_us_per_unit";
/// How often a row is done.
const RATE: &str = "units_per_s";

/// What is compared, and with which limit.
#[derive(Clone, Copy)]
enum CostTarget {
    /// The cost, at most this many times that of the first variant.
    AtMost(f64),
    /// The rate, at least this many times that of the first variant.
    RateAtLeast(f64),
    /// Nothing was asked for.
    None,
}

struct Row {
    name: &'static str,
    workload: Workload,
    clients: usize,
    depth: usize,
    size: u32,
    /// Calls of version 3, and of version 4.
    calls: [u32; 2],
    /// What the first variant does, if it is not the same by version 3.
    beside: Option<Workload>,
    target: CostTarget,
}

fn row(name: &'static str, workload: Workload, target: CostTarget) -> Row {
    Row {
        name,
        workload,
        clients: 16,
        depth: 1,
        size: 32 << 10,
        calls: [1; 2],
        beside: None,
        target,
    }
}

fn sized(name: &'static str, workload: Workload, clients: usize, size: u32, target: f64) -> Row {
    Row { clients, size, ..row(name, workload, CostTarget::AtMost(target)) }
}

/// The rows, with the limits that the design of version 4 set.
fn rows() -> Vec<Row> {
    vec![
        row("NULL, SEQUENCE since 4.1", Workload::Null, CostTarget::AtMost(1.05)),
        row("GETATTR", Workload::Getattr, CostTarget::AtMost(1.12)),
        row("ACCESS", Workload::Access, CostTarget::AtMost(1.12)),
        row("LOOKUP", Workload::Lookup, CostTarget::AtMost(1.15)),
        sized("READ 4 KiB", Workload::Read, 16, 4 << 10, 1.10),
        sized("READ 32 KiB", Workload::Read, 16, 32 << 10, 1.10),
        sized("READ 1 MiB", Workload::Read, 8, 1 << 20, 1.03),
        sized("WRITE 32 KiB", Workload::Write, 16, 32 << 10, 1.10),
        sized("WRITE 1 MiB", Workload::Write, 8, 1 << 20, 1.05),
        Row {
            calls: [1, 2],
            beside: Some(Workload::Lookup),
            ..row("OPEN and CLOSE, beside LOOKUP", Workload::OpenClose, CostTarget::AtMost(2.6))
        },
        Row {
            calls: [2, 3],
            ..row("a file created and removed", Workload::Create, CostTarget::AtMost(1.5))
        },
        Row {
            calls: [1, 2],
            beside: Some(Workload::Getattr),
            ..row("LOCK and LOCKU, beside GETATTR", Workload::Lock, CostTarget::AtMost(4.4))
        },
        sized("READDIR with attributes, 8 KiB", Workload::Readdirplus, 16, 8 << 10, 1.15),
        row("a tree walked", Workload::Walk, CostTarget::None),
        Row {
            clients: 1,
            depth: 64,
            ..row(
                "NULL, 64 in flight on a connection",
                Workload::Null,
                CostTarget::RateAtLeast(0.8),
            )
        },
        Row {
            clients: 1,
            depth: 64,
            ..row(
                "GETATTR, 64 in flight on a connection",
                Workload::Getattr,
                CostTarget::RateAtLeast(0.8),
            )
        },
    ]
}

const VERSIONS: [Version; 3] = [Version::V3, Version::V40, Version::V41];

/// One variant of a row, prepared.
struct Variant {
    name: String,
    plan: Plan,
    file_set: Arc<FileSet>,
    calls: f64,
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

fn name(row: &Row, version: Version) -> String {
    format!("{}: {}", row.name, version.name())
}

impl Variant {
    fn prepare(
        row: &Row,
        version: Version,
        server: &TestServer,
        ctx: &RunContext<'_>,
    ) -> Result<Self, RunError> {
        let is_first = version == Version::V3;
        let workload = row.beside.clone().filter(|_| is_first);
        let workload = workload.unwrap_or_else(|| row.workload.clone());
        let mut plan = Plan::new(server.nfs(), server.export(), workload);
        target_server(&mut plan, server);
        plan.version = version;
        (plan.clients, plan.depth, plan.size) = (row.clients, row.depth, row.size);
        plan.warmup = Duration::from_millis(ctx.quick_or_full(50, 250));
        plan.time = Duration::from_millis(ctx.quick_or_full(150, 1000));
        let file_set = Arc::new(FileSet::prepare(&plan)?);
        let [calls3, calls4] = row.calls;
        let calls = f64::from(if is_first { calls3 } else { calls4 });
        Ok(Self { name: name(row, version), plan, file_set, calls })
    }

    fn measures(&self, measured: &MeasuredLoad) -> BTreeMap<String, f64> {
        let mut all = measured.measures();
        let per_unit = measured.us_per_call() * self.calls;
        let rate = measured.report.calls_per_s / self.calls;
        all.extend(measures([(COST, per_unit), (RATE, rate)]));
        all
    }
}

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("export")?;
    for d in 0..64 {
        let sub = dir.join(format!("dir{d}"));
        std::fs::create_dir(&sub)?;
        for f in 0..16 {
            std::fs::write(sub.join(format!("file{f}")), b"what there is to look at\n")?;
        }
    }
    findings.setup.extend([
        fact("files", &"64 directories of 16 files, in memory"),
        fact("sessions", &"one for each connection, a slot for each call in flight"),
    ]);
    let mut server = bowline::start(&Options::of_dir(&dir))?;
    findings.commands.push(server.command().to_owned());
    let rows = rows();
    for row in &rows {
        measure_row(row, &mut server, ctx, findings)?;
    }
    for row in &rows {
        evaluate(row, findings);
    }
    table(&rows, findings);
    Ok(())
}

fn measure_row(
    row: &Row,
    server: &mut TestServer,
    ctx: &RunContext<'_>,
    findings: &mut Findings,
) -> Result<(), RunError> {
    let prepared: Result<Vec<_>, _> =
        VERSIONS.iter().map(|version| Variant::prepare(row, *version, server, ctx)).collect();
    let variants = prepared?;
    Rounds::new(findings, ctx, ctx.quick_or_full(3, 11)).interleave(
        &variants,
        None,
        |variant| {
            let measured = measure_load(&variant.plan, &variant.file_set, server, ctx)?;
            Ok(variant.measures(&measured))
        },
    )?;
    // all variants have the same files
    variants.first().map_or(Ok(()), |first| Ok(first.file_set.clear(&first.plan)?))
}

fn evaluate(row: &Row, findings: &mut Findings) {
    let base = name(row, Version::V3);
    for version in [Version::V40, Version::V41] {
        let (measure, word) = match row.target {
            CostTarget::RateAtLeast(_) => (RATE, "the rate"),
            CostTarget::AtMost(_) | CostTarget::None => (COST, "the cost"),
        };
        let ratio = findings.ratio(measure, &name(row, version), &base, None);
        if measure != COST {
            findings.ratio(COST, &name(row, version), &base, None);
        }
        let (limit, held) = match row.target {
            CostTarget::AtMost(most) => (format!("at most {most:.2}"), ratio <= most),
            CostTarget::RateAtLeast(least) => (format!("at least {least:.2}"), ratio >= least),
            CostTarget::None => continue,
        };
        // the limits were set for version 4.1
        if version == Version::V41 {
            findings.targets.push(Target {
                condition: format!("{}: {word} over 4.1 {limit} times that over 3", row.name),
                found: format!("{ratio:.2} times"),
                held,
            });
        }
    }
}

/// Medians with their spread, and ratios inside rounds.
fn table(all: &[Row], findings: &mut Findings) {
    let columns =
        ["", "3, us", "4.0, us", "4.1, us", "4.0 / 3", "4.1 / 3", "3, calls/s", "4.1, calls/s"];
    let rows = all.iter().map(|row| cells(row, findings)).collect();
    findings.tables.push(Table {
        title: "Server CPU, median [smallest-largest], and ratios inside rounds".into(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    });
}

fn cells(row: &Row, findings: &Findings) -> Vec<String> {
    let cost = |version| {
        let name = name(row, version);
        let all: Vec<f64> = findings.values(&name, None, COST).iter().map(|(_, v)| *v).collect();
        let (low, high) = spread(&all);
        format!("{:.1} [{low:.1}-{high:.1}]", super::median(&all))
    };
    let ratio = |version| {
        let (of, to) = (name(row, version), name(row, Version::V3));
        let found = findings.ratios.iter().find(|r| r.measure == COST && r.of == of && r.to == to);
        found.map_or_else(
            || "-".to_owned(),
            |r| format!("{:.2} [{:.2}-{:.2}]", r.median, r.low, r.high),
        )
    };
    let rate =
        |version| format!("{:.0}", findings.median(&name(row, version), None, "calls_per_s"));
    vec![
        row.name.to_owned(),
        cost(Version::V3),
        cost(Version::V40),
        cost(Version::V41),
        ratio(Version::V40),
        ratio(Version::V41),
        rate(Version::V3),
        rate(Version::V41),
    ]
}
