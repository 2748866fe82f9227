//! `align`: the cost of unaligned data: copied in memory, written to a file's pages, and read through the
//! server from that offset of the file.
//!
//! In 2002 a copy at an offset of one byte ran at half the speed. The first two parts run in this process,
//! on one thread, so that nothing but the offset differs; the third goes through a server.

use super::{
    Experiment, Rounds, RunContext, RunError, axis, fact, measure_load, measures, target_server,
};
use crate::load::{FileSet, Plan, Workload};
use crate::result::{Findings, Table, Target};
use crate::servers::ScratchDir;
use crate::servers::bowline::{self, Options};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "align",
    title: "Where the data begins",
    question: "What does it cost if data begins 1, 4, 8, 64 or 4096 bytes off a page: for a copy in memory, for a \
               pwrite into a file's pages, and for a READ of 32 KiB at such an offset?",
    run,
};

const OFFSETS: [u64; 6] = [0, 1, 4, 8, 64, 4096];
/// Bytes copied or written at once.
const AT_ONCE: usize = 256 << 10;
/// Where aligned data begins: a page.
const PAGE: usize = 4096;
/// Size of the memory that is passed over, so that it does not fit into a CPU cache.
const REGION: usize = 32 << 20;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    findings.setup.extend([
        fact("copied and written at once", &"256 KiB, going through 32 MiB"),
        fact("READ", &"32 KiB, 8 clients, zero-copy=off"),
    ]);
    let names = OFFSETS.map(|offset| offset.to_string());
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("export")?;
    let file = std::fs::File::create(dir.join("written"))?;
    file.set_len((AT_ONCE + PAGE) as u64)?;
    let mut memory = Memory::new();
    let time = Duration::from_millis(ctx.quick_or_full(40, 300));
    let mut server = bowline::start(&Options::of_dir(&dir).set("zero-copy", "off"))?;
    findings.commands.push(server.command().to_owned());
    let mut plan = Plan::new(server.nfs(), server.export(), Workload::Read);
    target_server(&mut plan, &server);
    plan.clients = 8;
    plan.warmup = Duration::from_millis(ctx.quick_or_full(50, 200));
    plan.time = Duration::from_millis(ctx.quick_or_full(200, 1000));
    let file_set = Arc::new(FileSet::prepare(&plan)?);
    Rounds::new(findings, ctx, ctx.quick_or_full(3, 7)).interleave(&names, None, |name| {
        let offset: u64 = name.parse().unwrap_or(0);
        let at = usize::try_from(offset).unwrap_or(0);
        let copied = memory.copy_mb_per_s(at, time);
        let written = memory.write_mb_per_s(&file, at, time)?;
        plan.shift = offset;
        let measured = measure_load(&plan, &file_set, &mut server, ctx)?;
        let mut all = measured.measures();
        all.extend(measures([("copy_mb_per_s", copied), ("pwrite_mb_per_s", written)]));
        Ok(all)
    })?;
    let mut worst: f64 = 1.0;
    for measure in ["copy_mb_per_s", "pwrite_mb_per_s", "read_mb_per_s"] {
        for name in names.iter().skip(1) {
            let ratio = findings.ratio(measure, name, "0", None);
            if measure == "copy_mb_per_s" {
                worst = worst.min(ratio);
            }
        }
    }
    findings.targets.push(Target {
        condition: "an odd offset costs a copy less than in 2002, when it halved its speed".into(),
        found: format!("{worst:.2} times the aligned speed at the worst"),
        held: worst > 0.5,
    });
    findings.tables.push(Table {
        title: "The original (2002)".into(),
        columns: vec!["copy".into(), "speed".into()],
        rows: vec![
            vec!["aligned".into(), "1".into()],
            vec!["one byte off".into(), "about 0.5".into()],
        ],
    });
    bars(findings, &names);
    Ok(())
}

/// Two regions that begin at a page.
struct Memory {
    from: Vec<u8>,
    to: Vec<u8>,
    next: usize,
}

impl Memory {
    fn new() -> Self {
        let region = || vec![0x5a; REGION + AT_ONCE + 2 * PAGE];
        Self { from: region(), to: region(), next: 0 }
    }

    /// The offset of the next piece, and how far it is from the start of a page.
    fn piece(&mut self, offset: usize) -> std::ops::Range<usize> {
        let page = self.from.as_ptr().align_offset(PAGE);
        self.next = (self.next + AT_ONCE) % REGION;
        let start = page + self.next + offset;
        start..start + AT_ONCE
    }

    fn copy_mb_per_s(&mut self, offset: usize, time: Duration) -> f64 {
        let target = self.to.as_ptr().align_offset(PAGE);
        let (begun, mut bytes) = (Instant::now(), 0);
        while begun.elapsed() < time {
            let piece = self.piece(offset);
            let to = target + self.next;
            if let (Some(from), Some(to)) =
                (self.from.get(piece), self.to.get_mut(to..to + AT_ONCE))
            {
                to.copy_from_slice(from);
                black_box(to);
            }
            bytes += AT_ONCE;
        }
        rate(bytes, begun)
    }

    fn write_mb_per_s(
        &mut self,
        file: &std::fs::File,
        offset: usize,
        time: Duration,
    ) -> std::io::Result<f64> {
        let (begun, mut bytes) = (Instant::now(), 0);
        while begun.elapsed() < time {
            let piece = self.piece(offset);
            file.write_all_at(self.from.get(piece).unwrap_or_default(), 0)?;
            bytes += AT_ONCE;
        }
        Ok(rate(bytes, begun))
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a second")]
fn rate(bytes: usize, begun: Instant) -> f64 {
    bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()
}

fn bars(findings: &mut Findings, names: &[String]) {
    findings.plot_bars(
        "Speed over where the data begins",
        axis("bytes off a page", "B"),
        axis("data", "MB/s"),
        names,
        &[
            ("copy in memory", "copy_mb_per_s"),
            ("pwrite to pages", "pwrite_mb_per_s"),
            ("READ 32 KiB, copied", "read_mb_per_s"),
        ],
    );
}
