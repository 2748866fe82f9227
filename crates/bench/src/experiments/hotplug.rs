//! `hotplug`: S1 while interfaces come and go and while the setting changes. What is asked is not how fast
//! the server is but whether anybody notices.

use super::udp::{Bench, CABLES};
use super::{Cannot, Experiment, Rounds, Setting, axis, fact};
use crate::result::{Findings, Plot, Point, Series, Shape, Target};
use admin::api::{Changed, Request};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hotplug",
    title: "Interfaces and settings that change under load (S1)",
    question: "READs over three interfaces while one of them goes down and up, and while udp-sockets changes: \
               is a call lost, and what does it cost the others?",
    run,
};

const QUIET: &str = "nothing changes";
const SETTING: &str = "udp-sockets changes every 100 ms";
const DOWN: &str = "an interface goes down for 50 ms twice a second";
const MODES: [&str; 4] = ["interface", "cpu", "interface-cpu", "single"];

fn run(setting: &Setting<'_>, findings: &mut Findings) -> Result<(), Cannot> {
    let mut bench = Bench::new(setting, findings)?;
    bench.plan.retransmit = Duration::from_millis(100);
    bench.plan.time = Duration::from_millis(setting.pick(1000, 3000));
    findings.setup.push(fact("retransmission", &"after 100 ms"));
    let variants = [QUIET, SETTING, DOWN];
    Rounds::new(findings, setting, setting.pick(2, 5)).interleave(&variants, None, |name| {
        bench.server.set("udp-sockets", "interface")?;
        let (over, changes) = (AtomicBool::new(false), AtomicU64::new(0));
        let control = bench.server.control().map(Path::to_path_buf).unwrap_or_default();
        let end = bench.cables.server_end(usize::from(CABLES) - 1).map(|end| end.clone());
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| -> Result<(), Cannot> {
                while !over.load(Relaxed) {
                    match (*name, &end) {
                        (SETTING, _) => change(&control, changes.load(Relaxed))?,
                        (DOWN, Some(end)) => {
                            end.down()?;
                            std::thread::sleep(Duration::from_millis(50));
                            end.up()?;
                            std::thread::sleep(Duration::from_millis(350));
                        }
                        _ => {}
                    }
                    changes.fetch_add(1, Relaxed);
                    std::thread::sleep(Duration::from_millis(100));
                }
                Ok(())
            });
            let done = bench.once(setting);
            over.store(true, Relaxed);
            let changed = changing.join().unwrap_or_else(|_| {
                Err(Cannot::Failed("the thread that changes things panicked".into()))
            });
            let (loaded, mut measures) = done?;
            changed?;
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            measures.extend(super::measures([
                ("lost", loaded.report.lost as f64),
                ("retransmitted", loaded.report.retransmitted as f64),
                ("changes", changes.load(Relaxed) as f64),
            ]));
            Ok(measures)
        })
    })?;
    judge(findings);
    Ok(())
}

/// Makes the next setting the one in force.
fn change(control: &Path, count: u64) -> Result<(), Cannot> {
    let next = usize::try_from(count).unwrap_or(0) % MODES.len();
    let value = MODES.get(next).copied().unwrap_or("single").to_owned();
    let request = Request::Set { key: "udp-sockets".into(), value };
    let asked = admin::Client::connect(control)
        .and_then(|mut client| client.ask::<Changed>(&request))
        .map_err(|error| Cannot::Failed(error.to_string()))?;
    drop(asked);
    Ok(())
}

fn judge(findings: &mut Findings) {
    let total = |findings: &Findings, name: &str, measure: &str| -> f64 {
        findings.values(name, None, measure).iter().map(|(_, value)| value).sum()
    };
    for name in [SETTING, DOWN] {
        let lost = total(findings, name, "lost");
        findings.targets.push(Target {
            wish: format!("{name}: no call is lost"),
            found: format!("{lost} of {} changes", total(findings, name, "changes")),
            held: lost == 0.0,
        });
        findings.ratio("calls_per_s", name, QUIET, None);
    }
    let again = total(findings, SETTING, "retransmitted");
    findings.targets.push(Target {
        wish: format!("{SETTING}: nothing has to be sent again"),
        found: format!(
            "{again} datagrams were; {} with {QUIET}",
            total(findings, QUIET, "retransmitted")
        ),
        held: again <= total(findings, QUIET, "retransmitted"),
    });
    let series = Series {
        name: "interface".into(),
        original: false,
        points: [0.0, 1.0, 2.0]
            .into_iter()
            .zip([QUIET, SETTING, DOWN])
            .map(|(x, name)| {
                let y = findings.median(name, None, "calls_per_s");
                Point { x, y, low: None, high: None }
            })
            .collect(),
    };
    findings.plots.push(Plot {
        title: "READ of 32 KiB while things change".into(),
        shape: Shape::GroupedBars,
        x: axis("", ""),
        y: axis("calls", "1/s"),
        bars: [QUIET, SETTING, DOWN].map(str::to_owned).to_vec(),
        series: vec![series],
    });
}
