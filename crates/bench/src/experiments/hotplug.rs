//! `hotplug`: UDP sockets while interfaces are added and removed and while the setting changes. The question is not
//! how fast the server is but whether clients are disturbed.

use super::udp::{Bench, VETH_PAIRS};
use super::{Experiment, Rounds, RunContext, RunError, axis, fact};
use crate::lab::veth::{Interface, Subnet, pair};
use crate::lab::{LabError, Namespace};
use crate::result::{Findings, Target};
use admin::api::{Changed, Request};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hotplug",
    title: "Interfaces and settings that change under load",
    question: "READs over three interfaces while one of them goes down and up or is renamed, while another one comes \
               and goes, and while udp-sockets changes: is a call lost, and what does it cost the others?",
    run,
};

/// The change that is repeated while the clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    Nothing,
    RunContext,
    Renamed,
    Another,
    Down,
}

/// The one that costs packets, which are those in flight, comes last.
const DISTURBANCES: [Disturbance; 5] = [
    Disturbance::Nothing,
    Disturbance::RunContext,
    Disturbance::Renamed,
    Disturbance::Another,
    Disturbance::Down,
];

impl fmt::Display for Disturbance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Nothing => "nothing changes",
            Self::RunContext => "udp-sockets changes every 100 ms",
            Self::Renamed => "an interface is renamed, and back",
            Self::Another => "another interface comes and goes",
            Self::Down => "an interface goes down for 50 ms twice a second",
        })
    }
}

/// What can be disturbed.
struct Stage {
    control: PathBuf,
    /// The server's end of a veth pair that clients use.
    end: Interface,
    server: Namespace,
    client: Namespace,
}

impl Stage {
    /// Makes one change; an interface has its name and its state again afterwards.
    fn disturb(&mut self, disturbance: Disturbance, count: u64) -> Result<(), RunError> {
        match disturbance {
            Disturbance::Nothing => {}
            Disturbance::RunContext => change(&self.control, count)?,
            Disturbance::Renamed => {
                let name = self.end.name().to_owned();
                self.end.rename("elsewhere0")?;
                sleep(Duration::from_millis(50));
                self.end.rename(&name)?;
            }
            Disturbance::Another => {
                let (near, far) = pair((&self.server, "more0"), (&self.client, "more1"))?;
                near.add_address(Subnet::new(Ipv4Addr::new(10, 79, 0, 1), 24))?;
                for end in [&near, &far] {
                    end.up()?;
                }
                sleep(Duration::from_millis(150));
                near.delete()?;
            }
            Disturbance::Down => {
                self.end.down()?;
                sleep(Duration::from_millis(50));
                self.end.up()?;
                sleep(Duration::from_millis(350));
            }
        }
        Ok(())
    }
}

const MODES: [&str; 4] = ["interface", "cpu", "interface-cpu", "single"];

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let mut bench = Bench::new(ctx, findings)?;
    bench.plan.retransmit = Duration::from_millis(250);
    bench.plan.time = Duration::from_millis(ctx.quick_or_full(1000, 3000));
    findings.setup.push(fact("retransmission", &"after 250 ms"));
    let last = bench.veth_pairs.server_end(usize::from(VETH_PAIRS) - 1).map(|end| end.clone());
    let mut stage = Stage {
        control: bench.server.control().map(Path::to_path_buf).unwrap_or_default(),
        end: last.ok_or_else(|| LabError::Failed("a cable is missing".into()))?,
        server: bench.veth_pairs.server.clone(),
        client: bench.veth_pairs.client.clone(),
    };
    Rounds::new(findings, ctx, ctx.quick_or_full(2, 5)).interleave(
        &DISTURBANCES,
        None,
        |disturbance| {
            bench.server.set("udp-sockets", "interface")?;
            let (over, changes) = (AtomicBool::new(false), AtomicU64::new(0));
            std::thread::scope(|scope| {
                let changing = scope.spawn(|| -> Result<(), RunError> {
                    while !over.load(Relaxed) {
                        stage.disturb(*disturbance, changes.load(Relaxed))?;
                        changes.fetch_add(1, Relaxed);
                        sleep(Duration::from_millis(100));
                    }
                    Ok(())
                });
                let done = bench.load(ctx);
                over.store(true, Relaxed);
                let changed = changing.join().unwrap_or_else(|_| {
                    Err(RunError::Failed("the thread that changes things panicked".into()))
                });
                let measured = done?;
                changed?;
                let mut measures = measured.measures();
                #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
                measures.extend(super::measures([
                    ("lost", measured.report.lost as f64),
                    ("retransmitted", measured.report.retransmitted as f64),
                    ("changes", changes.load(Relaxed) as f64),
                ]));
                Ok(measures)
            })
        },
    )?;
    evaluate_targets(findings);
    Ok(())
}

/// Applies the next setting.
fn change(control: &Path, count: u64) -> Result<(), RunError> {
    let next = usize::try_from(count).unwrap_or(0) % MODES.len();
    let value = MODES.get(next).copied().unwrap_or("single").to_owned();
    let request = Request::Set { key: "udp-sockets".into(), value };
    let asked = admin::Client::connect(control)
        .and_then(|mut client| client.ask::<Changed>(&request))
        .map_err(|error| RunError::Failed(error.to_string()))?;
    drop(asked);
    Ok(())
}

/// Whether changes lose datagrams. Some are retransmitted without a change, too, on a machine whose
/// clients compete with the server for its CPUs: the median is compared with the worst round without
/// changes, and a datagram in ten changes is allowed.
fn resent(findings: &Findings, disturbance: Disturbance) -> Target {
    let median = |measure| findings.median(&disturbance.to_string(), None, measure);
    let (retransmitted, changes) = (median("retransmitted"), median("changes"));
    let calm = findings.values(&Disturbance::Nothing.to_string(), None, "retransmitted");
    let calm = calm.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    Target {
        condition: format!("{disturbance}: nothing has to be retransmitted because of it"),
        found: format!(
            "{retransmitted} datagrams in {changes} changes; up to {calm} while {}",
            Disturbance::Nothing
        ),
        held: retransmitted <= calm + changes / 10.0,
    }
}

fn evaluate_targets(findings: &mut Findings) {
    let total = |findings: &Findings, disturbance: Disturbance, measure: &str| -> f64 {
        let values = findings.values(&disturbance.to_string(), None, measure);
        values.iter().map(|(_, value)| value).sum()
    };
    let quiet = Disturbance::Nothing.to_string();
    for disturbance in
        DISTURBANCES.into_iter().filter(|disturbance| *disturbance != Disturbance::Nothing)
    {
        let lost = total(findings, disturbance, "lost");
        findings.targets.push(Target {
            condition: format!("{disturbance}: no call is lost"),
            found: format!("{lost} in {} changes", total(findings, disturbance, "changes")),
            held: lost == 0.0,
        });
        // an interface that goes down loses the packets in flight
        if disturbance != Disturbance::Down {
            findings.targets.push(resent(findings, disturbance));
        }
        findings.ratio("calls_per_s", &disturbance.to_string(), &quiet, None);
    }
    findings.plot_bars(
        "READ of 32 KiB while things change",
        axis("", ""),
        axis("calls", "1/s"),
        &DISTURBANCES,
        &[("interface", "calls_per_s")],
    );
}
