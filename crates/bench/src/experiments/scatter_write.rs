//! `scatter-write`: WRITE from the fragments in which it arrived.
//!
//! A client may cut a record into fragments as it likes (RFC 5531 §11). Whole records are written to the file from
//! the receive buffer; the data of those that come in many fragments must be joined or written piece by piece. The
//! difference is the cost of fragments. After each round the files are compared with what was sent.

use super::{
    Experiment, Rounds, RunContext, RunError, axis, fact, measure_load, measures, target_server,
};
use crate::load::{BENCH_DIR, FileSet, Plan, Workload, is_write_data};
use crate::result::{Axis, Findings, Target};
use crate::servers::ScratchDir;
use crate::servers::bowline::{self, Options};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "scatter-write",
    title: "WRITE from the pieces in which it came",
    question: "WRITEs of 4 KiB to 1 MiB, each record whole or cut into fragments of 64 KiB, 8 KiB or 1,000 bytes: what \
               do pieces cost the server?",
    run,
};

/// The variants and the bytes of their fragments; the first is what clients do today.
const VARIANTS: [(&str, u32); 4] =
    [("whole", 0), ("64 KiB", 64 << 10), ("8 KiB", 8 << 10), ("1,000 bytes", 1000)];
const CLIENTS: usize = 8;
/// Target for fragments of 8 KiB at 1 MiB, relative to whole records.
const RATE_KEPT: f64 = 0.5;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("export")?;
    findings.setup.extend([
        fact("clients", &"8, each with a file of 8 MiB in memory, one WRITE at a time, UNSTABLE"),
        fact("pieces", &"fragments of record marking, each with its own mark"),
    ]);
    let mut server = bowline::start(&Options::of_dir(&dir))?;
    findings.commands.push(server.command().to_owned());
    let names = VARIANTS.map(|variant| variant.0);
    let sizes: &[u32] = ctx
        .quick_or_full(&[32 << 10, 1 << 20], &[4 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20]);
    for size in sizes {
        let mut plan = Plan::new(server.nfs(), server.export(), Workload::Write);
        target_server(&mut plan, &server);
        (plan.clients, plan.size, plan.file_size) = (CLIENTS, *size, 8 << 20);
        plan.warmup = Duration::from_millis(ctx.quick_or_full(50, 200));
        plan.time = Duration::from_millis(ctx.quick_or_full(250, 1000));
        let file_set = Arc::new(FileSet::prepare(&plan)?);
        let at = Some(f64::from(*size));
        Rounds::new(findings, ctx, ctx.quick_or_full(2, 5)).interleave(&names, at, |name| {
            plan.fragment = VARIANTS.iter().find(|v| v.0 == *name).map_or(0, |v| v.1);
            let measured = measure_load(&plan, &file_set, &mut server, ctx)?;
            compare(&dir, *size)?;
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            let cpu_s_per_gb =
                measured.usage.cpu_ns as f64 / (measured.calls.max(1) as f64 * f64::from(*size));
            let mut all = measured.measures();
            all.extend(measures([("cpu_s_per_gb", cpu_s_per_gb)]));
            Ok(all)
        })?;
        for name in names.iter().skip(1) {
            findings.ratio("write_mb_per_s", name, "whole", at);
            findings.ratio("cpu_s_per_gb", name, "whole", at);
        }
    }
    let kept = findings.median("8 KiB", Some(1_048_576.0), "write_mb_per_s")
        / findings.median("whole", Some(1_048_576.0), "write_mb_per_s");
    findings.targets.push(Target {
        condition: format!(
            "1 MiB in pieces of 8 KiB keeps {RATE_KEPT} of the rate of whole records"
        ),
        found: format!("{kept:.2} of it"),
        held: kept >= RATE_KEPT,
    });
    let x = || Axis { log: true, ..axis("bytes of a WRITE", "B") };
    let rate = axis("data", "MB/s");
    findings.plot_lines("Data a second, by piece", x(), rate, "write_mb_per_s", &names);
    let cpu = axis("server CPU", "s/GB");
    findings.plot_lines("Server CPU per GB, by piece", x(), cpu, "cpu_s_per_gb", &names);
    Ok(())
}

/// Compares the clients' files with the data sent.
fn compare(dir: &Path, size: u32) -> Result<(), RunError> {
    for client in 0..CLIENTS {
        let file = dir.join(OsStr::from_bytes(BENCH_DIR)).join(format!("client{client}/written"));
        let bytes = std::fs::read(&file)?;
        let whole = bytes.chunks(size as usize).all(|piece| is_write_data(client, piece));
        if bytes.is_empty() || !whole {
            let file = file.display();
            return Err(RunError::Failed(format!(
                "{file}: not what was written ({} bytes)",
                bytes.len()
            )));
        }
    }
    Ok(())
}
