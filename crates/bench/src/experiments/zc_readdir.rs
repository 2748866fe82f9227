//! `zc-readdir`: listing directories of a thousand to a million entries completely.
//!
//! The server fetches entries in large batches and encodes each once, in the buffer that is sent; it stores
//! nothing of a directory between calls. So the cost per entry must not grow with the directory, and the first
//! reply must be immediate. Entries are hard links to a few files: names are listed, and attributes are fetched
//! by name all the same.

use super::{Experiment, Rounds, RunContext, RunError, axis, fact, measures};
use crate::result::{Findings, Target};
use crate::servers::bowline::{self, Options};
use crate::servers::{ScratchDir, TestServer};
use client::{Client, Fh, Listing};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zc-readdir",
    title: "Large directories",
    question: "What does an entry of a directory cost the server, from a thousand entries to a million, by READDIR \
               and by READDIRPLUS, and how long does a client wait for the first reply?",
    run,
};

/// How a directory is listed.
const VARIANTS: [&str; 3] = ["READDIR 8 KiB", "READDIR 64 KiB", "READDIRPLUS 64 KiB"];
/// Links to one file: below the limit of any file system.
const LINKS_MAX: usize = 30_000;
/// Timeout of one call.
const PATIENCE: Duration = Duration::from_secs(60);
/// Limit of the first reply of the largest directory.
const FIRST_MS: f64 = 10.0;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("export")?;
    let sizes: &[usize] = ctx.quick_or_full(&[1000, 100_000], &[1000, 10_000, 100_000, 1_000_000]);
    for size in sizes {
        (ctx.say)(&format!("zc-readdir: making {size} entries"));
        make(&dir.join(size.to_string()), *size, ctx)?;
    }
    findings.setup.extend([
        fact("directories", &"in memory (tmpfs), hard links to a file for each 30,000 entries"),
        fact("client", &"one connection, one call at a time"),
    ]);
    let mut server = bowline::start(&Options::of_dir(&dir))?;
    findings.commands.push(server.command().to_owned());
    let mut client = Client::tcp(server.nfs(), PATIENCE).map_err(failed)?;
    let root = client.mount(server.export().as_bytes()).map_err(failed)?;
    for size in sizes {
        let name = size.to_string();
        let fh = client.lookup(&root, name.as_bytes()).map_err(failed)?.handle;
        #[expect(clippy::cast_precision_loss, reason = "a million at most")]
        let at = Some(*size as f64);
        Rounds::new(findings, ctx, ctx.quick_or_full(2, 5)).interleave(
            &VARIANTS,
            at,
            |variant| {
                let seen = list(&mut client, &mut server, &fh, variant)?;
                // `.` and `..` are listed as well
                if seen.entries != size + 2 {
                    let entries = seen.entries;
                    return Err(RunError::Failed(format!(
                        "{entries} entries were listed of {size}"
                    )));
                }
                Ok(seen.measures())
            },
        )?;
    }
    add_plots(findings);
    evaluate_targets(findings);
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err calls")]
fn failed(error: client::Error) -> RunError {
    RunError::Failed(error.to_string())
}

/// Creates a directory of this many names.
fn make(dir: &Path, size: usize, ctx: &RunContext<'_>) -> Result<(), RunError> {
    std::fs::create_dir(dir)?;
    let mut target = dir.to_path_buf();
    for n in 0..size {
        let path = dir.join(format!("entry-{n:07}"));
        if n % LINKS_MAX == 0 {
            ctx.go_on()?;
            std::fs::write(&path, b"")?;
            target = path;
        } else {
            std::fs::hard_link(&target, path)?;
        }
    }
    Ok(())
}

/// One complete listing.
struct Seen {
    entries: usize,
    calls: usize,
    first: Duration,
    whole: Duration,
    cpu_ns: u64,
}

impl Seen {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn measures(&self) -> std::collections::BTreeMap<String, f64> {
        let entries = self.entries.max(1) as f64;
        measures([
            ("entries_per_s", entries / self.whole.as_secs_f64()),
            ("server_cpu_us_per_entry", self.cpu_ns as f64 / 1e3 / entries),
            ("entries_per_call", entries / self.calls.max(1) as f64),
            ("first_reply_ms", self.first.as_secs_f64() * 1e3),
        ])
    }
}

fn list(
    client: &mut Client,
    server: &mut TestServer,
    dir: &Fh,
    variant: &str,
) -> Result<Seen, RunError> {
    let before = server.reading()?;
    let begun = Instant::now();
    let (mut entries, mut calls, mut cookie, mut verf) = (0, 0, 0, [0; 8]);
    let mut first = None;
    loop {
        let part: Listing = match variant {
            "READDIR 8 KiB" => client.readdir(dir, cookie, verf, 8 << 10),
            "READDIR 64 KiB" => client.readdir(dir, cookie, verf, 64 << 10),
            _ => client.readdirplus(dir, cookie, verf, 64 << 10),
        }
        .map_err(failed)?;
        first.get_or_insert_with(|| begun.elapsed());
        calls += 1;
        entries += part.entries.len();
        verf = part.verf;
        cookie = part.entries.last().map_or(cookie, |entry| entry.cookie);
        if part.eof {
            break;
        }
    }
    let whole = begun.elapsed();
    let cpu_ns = server.reading()?.since(&before).cpu_ns;
    Ok(Seen { entries, calls, first: first.unwrap_or(whole), whole, cpu_ns })
}

fn add_plots(findings: &mut Findings) {
    let entries = || {
        let mut axis = axis("entries of the directory", "");
        axis.log = true;
        axis
    };
    findings.plot_lines(
        "Server's processor time for one entry",
        entries(),
        axis("processor time per entry", "us"),
        "server_cpu_us_per_entry",
        &VARIANTS,
    );
    findings.plot_lines(
        "Entries a second",
        entries(),
        axis("entries", "1/s"),
        "entries_per_s",
        &VARIANTS,
    );
    findings.plot_lines(
        "First reply",
        entries(),
        axis("time to the first reply", "ms"),
        "first_reply_ms",
        &VARIANTS,
    );
}

fn evaluate_targets(findings: &mut Findings) {
    let Some(largest) = findings.places().last().copied() else { return };
    let firsts = VARIANTS.map(|variant| findings.median(variant, Some(largest), "first_reply_ms"));
    let worst = firsts.into_iter().fold(0.0, f64::max);
    findings.targets.push(Target {
        condition: format!("the first reply of {largest} entries comes in under {FIRST_MS} ms"),
        found: format!("{worst:.2} ms at the worst"),
        held: worst < FIRST_MS,
    });
    let growth = VARIANTS.map(|variant| {
        let cost = |at| findings.median(variant, Some(at), "server_cpu_us_per_entry");
        cost(largest) / cost(10_000.0_f64.min(largest))
    });
    let worst = growth.into_iter().filter(|g| g.is_finite()).fold(0.0, f64::max);
    if worst > 0.0 && largest > 10_000.0 {
        findings.targets.push(Target {
            condition:
                "an entry of the largest directory costs at most twice what one of 10,000 costs"
                    .into(),
            found: format!("{worst:.2} times at the worst"),
            held: worst <= 2.0,
        });
    }
}
