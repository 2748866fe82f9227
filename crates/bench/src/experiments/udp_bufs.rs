//! `udp-bufs`: whether larger socket buffers have the effect of more sockets. In the original they had
//! none.

use super::udp::Bench;
use super::{Experiment, Rounds, RunContext, RunError, axis, fact};
use crate::result::{Findings, Point, Series, Target};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "udp-bufs",
    title: "UDP socket buffers of an eighth to eight times the size",
    question: "One UDP socket for all interfaces: is it the size of its buffers that limits it?",
    run,
};

/// The base size: a burst of 32 KiB replies to six clients.
const BASE_KIB: u32 = 512;
/// The sizes, in eighths of the base size.
const EIGHTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// MB/s of the original at these sizes.
const ORIGINAL: [f64; 7] = [147.0, 145.0, 145.0, 140.0, 141.0, 141.0, 141.0];
/// How much the best size may differ from the base size before it counts as an effect.
const SAME: f64 = 1.10;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let mut bench = Bench::new(ctx, findings)?;
    findings.setup.push(fact("buffers of size 1", &format!("{BASE_KIB} KiB each way")));
    bench.server.set("udp-sockets", "single")?;
    // alternate the sizes, so that a slow minute affects all of them
    for round in 0..ctx.quick_or_full(2, 5) {
        for eighths in EIGHTHS {
            let kib = BASE_KIB * eighths / 8;
            bench.server.set("udp-buffer", &format!("{kib}K"))?;
            let at = Some(f64::from(eighths) / 8.0);
            Rounds::new(findings, ctx, 1).interleave(&["single"], at, |_| bench.once(ctx))?;
            if let Some(last) = findings.trials.last_mut() {
                last.round = round;
            }
        }
    }
    let rate =
        |eighths: u32| findings.median("single", Some(f64::from(eighths) / 8.0), "read_mb_per_s");
    let plain = rate(8);
    let best = EIGHTHS.map(rate).into_iter().fold(0.0, f64::max);
    let gain = best / plain;
    findings.targets.push(Target {
        condition: format!(
            "no size gives more than {SAME} times the plain one, as in the original"
        ),
        found: format!("the best gives {gain:.2} times"),
        held: gain <= SAME,
    });
    let x = crate::result::Axis { log: true, ..axis("buffers, in parts of the plain size", "") };
    let title = "READ of 32 KiB by one socket, by the size of its buffers";
    findings.plot_lines(title, x, axis("data", "MB/s"), "read_mb_per_s", &["single"]);
    let points = EIGHTHS.iter().zip(ORIGINAL);
    let points = points.map(|(x, y)| Point { x: f64::from(*x) / 8.0, y, low: None, high: None });
    if let Some(plot) = findings.plots.last_mut() {
        let name = "original (2004)".into();
        plot.series.push(Series { name, original: true, points: points.collect() });
    }
    Ok(())
}
