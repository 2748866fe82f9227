//! `zc-read`: READ, copied and not copied, over TCP and UDP.
//!
//! The CPU counted is that of the server's whole process. On the loopback the sender's CPU also delivers the
//! packet to the receiver, and a page that is sent without copying is only copied by the client; over a veth
//! pair of MTU 1500 packets are segmented and checksummed as on a network. Both are measured.

use super::{
    Experiment, Rounds, RunContext, RunError, axis, fact, measure_load, measures, target_server,
};
use crate::lab::Namespace;
use crate::lab::veth::{Subnet, pair};
use crate::load::{FileSet, Plan, Proto, Workload};
use crate::result::Findings;
use crate::servers::bowline::{self, Options};
use crate::servers::{Placement, ScratchDir, TestServer};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zc-read",
    title: "READ without copying",
    question: "READs of 4 KiB to 1 MiB of cached files over TCP and UDP: what does it save to send the pages of the \
               page cache themselves (zero-copy=on) instead of a copy (off)?",
    run,
};

const TCP_SIZES: [u32; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const UDP_SIZES: [u32; 4] = [4 << 10, 8 << 10, 32 << 10, 60 << 10];

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let scratch = ScratchDir::in_memory()?;
    let dir = scratch.dir("export")?;
    findings.setup.push(fact("files", &"8 of 4 MiB, in memory, all cached"));
    let mut server = bowline::start(&Options::of_dir(&dir).set("max-read", "1M"))?;
    findings.commands.push(server.command().to_owned());
    on(ctx, findings, &mut server, Proto::Tcp, "loopback")?;
    on(ctx, findings, &mut server, Proto::Udp, "loopback")?;
    drop(server);
    match cable(&dir) {
        Ok((clients, mut server)) => {
            findings.commands.push(server.command().to_owned());
            clients.run(|| -> Result<(), RunError> {
                on(ctx, findings, &mut server, Proto::Tcp, "MTU 1500")?;
                on(ctx, findings, &mut server, Proto::Udp, "MTU 1500")
            })??;
        }
        Err(RunError::Unable(why)) => {
            findings.notes.push(format!("Loopback only, which flatters sendfile: {why}"));
        }
        Err(other) => return Err(other),
    }
    Ok(())
}

/// A server at the other end of a veth pair; the near end is in the namespace.
fn cable(dir: &std::path::Path) -> Result<(Namespace, TestServer), RunError> {
    let (near, far) = (Namespace::new("clients")?, Namespace::new("server")?);
    let addresses = (Ipv4Addr::new(10, 91, 0, 1), Ipv4Addr::new(10, 91, 0, 2));
    let (near_end, far_end) = pair((&near, "zc0"), (&far, "zc1"))?;
    for (end, addr) in [(&near_end, addresses.0), (&far_end, addresses.1)] {
        end.add_address(Subnet::new(addr, 24))?;
        end.set_mtu(1500)?;
        end.up()?;
    }
    let place = Placement::inside(&far);
    let listen = vec![addresses.1.into()];
    let options = Options { place, listen, ..Options::of_dir(dir).set("max-read", "1M") };
    Ok((near, bowline::start(&options)?))
}

/// Copied and not copied in turn, at each size.
fn on(
    ctx: &RunContext<'_>,
    findings: &mut Findings,
    server: &mut TestServer,
    proto: Proto,
    way: &str,
) -> Result<(), RunError> {
    let names = ["copy", "zero copy"].map(|how| format!("{} {how}, {way}", proto.name()));
    let sizes: &[u32] = match proto {
        Proto::Tcp => ctx.quick_or_full(&[4 << 10, 32 << 10, 1 << 20], &TCP_SIZES),
        Proto::Udp => ctx.quick_or_full(&[8 << 10, 32 << 10], &UDP_SIZES),
    };
    for size in sizes {
        let mut plan = Plan::new(server.nfs(), server.export(), Workload::Read);
        target_server(&mut plan, server);
        (plan.proto, plan.size, plan.clients, plan.depth) = (proto, *size, 8, 1);
        plan.warmup = Duration::from_millis(ctx.quick_or_full(50, 200));
        plan.time = Duration::from_millis(ctx.quick_or_full(250, 1000));
        let file_set = Arc::new(FileSet::prepare(&plan)?);
        let at = Some(f64::from(*size));
        Rounds::new(findings, ctx, ctx.quick_or_full(2, 5)).interleave(&names, at, |name| {
            let how = if name.contains("zero copy") { "on" } else { "off" };
            server.set("zero-copy", how)?;
            one(&plan, &file_set, server, ctx)
        })?;
        for measure in ["read_mb_per_s", "cpu_s_per_gb"] {
            findings.ratio(measure, &names[1], &names[0], at);
        }
    }
    let variants = names.each_ref().map(String::as_str);
    let x = || crate::result::Axis { log: true, ..axis("bytes of a READ", "B") };
    let title = |what: &str| format!("{what}, {} over {way}", proto.name());
    let rate = axis("data", "MB/s");
    findings.plot_lines(&title("Data a second"), x(), rate, "read_mb_per_s", &variants);
    let cpu = axis("server CPU", "s/GB");
    findings.plot_lines(&title("Server CPU per GB"), x(), cpu, "cpu_s_per_gb", &variants);
    Ok(())
}

fn one(
    plan: &Plan,
    file_set: &Arc<FileSet>,
    server: &mut TestServer,
    ctx: &RunContext<'_>,
) -> Result<BTreeMap<String, f64>, RunError> {
    let before = copied(server)?;
    let measured = measure_load(plan, file_set, server, ctx)?;
    let after = copied(server)?;
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let float = |n: u64| n as f64;
    let bytes = float(measured.calls) * f64::from(plan.size);
    let (copied, not_copied) = (float(after.0 - before.0), float(after.1 - before.1));
    let mut all = measured.measures();
    all.extend(measures([
        ("cpu_s_per_gb", float(measured.usage.cpu_ns) / bytes),
        ("copied_share", copied / (copied + not_copied).max(1.0)),
    ]));
    Ok(all)
}

/// Bytes copied and not copied so far, as the server counts them.
fn copied(server: &TestServer) -> Result<(u64, u64), RunError> {
    let status: admin::api::Status = server.ask(&admin::api::Request::Status)?;
    let count = |name: &str| {
        status.counters.iter().find(|c| c.name == name).map_or(0, |counter| counter.value)
    };
    Ok((count("bytes-copied"), count("bytes-not-copied")))
}
