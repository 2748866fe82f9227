//! `wan-write`: how fast a remote client can write, by the server's receive buffer.
//!
//! One client at the other end of a long line writes a file of 500 MiB in records of 1 MiB, 64 of them
//! in flight, as the original experiment did. A sender may have no more in flight than the receiver's
//! window, so the rate is window / round trip until the line is full; the kernel doubles the requested
//! buffer and offers about two thirds of that: 1.3 to 1.4 × buffer / round trip. A new server for each
//! trial, because a window that has grown does not shrink.
//!
//! Two rates are stored. `write_mb_per_s` is the file's bytes over the time from the first call to the
//! COMMIT's reply, the sender's slow start included: what a user waits for, and what the original
//! reports. `open_mb_per_s` is the rate in the second half of that time: what the buffer allows.

use super::{
    Experiment, MeasuredLoad, Rounds, RunContext, RunError, axis, fact, measure_load, measures,
    median, target_server,
};
use crate::lab::{Link, LinkOptions, sockstat};
use crate::load::{FileSet, Plan, Workload};
use crate::result::{Findings, Plot, Point, Series, Shape, Table, Target};
use crate::servers::bowline::{self, Options};
use crate::servers::{Placement, TestServer};
use admin::api::{ConnRow, LinkRow, Request};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The size of the file, as in the original experiment; less in a quick run.
const FILE_BYTES: u64 = 500 << 20;
const QUICK_FILE_BYTES: u64 = 160 << 20;
/// Bytes of one WRITE.
const RECORD_BYTES: u32 = 1 << 20;
/// WRITEs in flight.
const SLOTS: usize = 64;
/// Receive buffers, as `tcp-rcvbuf` takes them; [`UNSET`] leaves the setting alone.
const BUFFERS: [&str; 5] = [UNSET, "1M", "4M", "16M", "auto"];
const UNSET: &str = "default";
/// Round trips of the line, in milliseconds.
const RTTS_MS: [u32; 2] = [30, 120];
/// How long a packet may wait for the line: more than the window of 4 MiB lasts. A virtual machine pauses
/// the server's CPU for 40 ms at times; the server then reads all data at once and opens the whole window,
/// and a shorter queue would drop the burst that follows: an effect of the machine, not of the buffer.
const QUEUE: Duration = Duration::from_millis(60);
/// TCP payload that 1 Gbit/s carries at an MTU of 1500, in MB/s.
const LINE_MB_PER_S: f64 = 120.7;
/// From this share of it on, a line counts as full.
const FULL: f64 = 0.95;
/// The original: 1 MiB and 16 MiB at 30 ms, in MB/s.
const ORIGINAL: [(&str, f64); 2] = [("1M", 43.252), ("16M", 90.396)];
/// Timeout of one trial; 1 MiB at 120 ms takes 46 s.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long to wait for sockets of earlier trials to free their memory.
const QUIET: Duration = Duration::from_secs(60);

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "wan-write",
    title: "Writing over a long line, by the server's receive buffer",
    question: "A client writes over 1 Gbit/s with a round trip of 30 or 120 ms. How large must the \
               server's receive buffer be to fill the line, and does the kernel's own sizing do it?",
    run,
};

/// Samples of the server's view of the connection, in order of time.
type Samples = Vec<(f64, LinkRow)>;

fn run(ctx: &RunContext<'_>, findings: &mut Findings) -> Result<(), RunError> {
    let (dir, place, _removed) = directory(ctx)?;
    findings.setup.extend([
        fact("load", &format!("1 client, {SLOTS} WRITEs of 1 MiB under way, UNSTABLE, and COMMIT")),
        fact("written in each trial", &format!("{} MiB", file_bytes(ctx) >> 20)),
        fact("file system", &place),
    ]);
    let rounds = ctx.quick_or_full(1, 3);
    let mut windows: BTreeMap<(u32, &str), Samples> = BTreeMap::new();
    for rtt_ms in RTTS_MS {
        let rtt = Duration::from_millis(rtt_ms.into());
        let options = LinkOptions { rtt, queue: QUEUE, ..LinkOptions::default() };
        let link = Link::start(&options)?;
        if findings.setup.len() < 4 {
            let facts = link.facts();
            findings.setup.extend(facts.into_iter().filter(|fact| fact.name != "round trip"));
        }
        let mut commands = Vec::new();
        Rounds::new(findings, ctx, rounds).interleave(&BUFFERS, Some(rtt_ms.into()), |buffer| {
            let (trial, samples, command) = trial(ctx, &link, &dir, buffer)?;
            windows.insert((rtt_ms, buffer), samples);
            if rtt_ms == 30 {
                commands.push(command);
            }
            Ok(trial)
        })?;
        commands.sort();
        commands.dedup();
        findings.commands.extend(commands);
    }
    evaluate_targets(findings);
    add_plots(findings, &windows);
    Ok(())
}

fn file_bytes(ctx: &RunContext<'_>) -> u64 {
    ctx.quick_or_full(QUICK_FILE_BYTES, FILE_BYTES)
}

/// Directory of the file: in memory if possible, so that no disk limits the rate.
fn directory(ctx: &RunContext<'_>) -> Result<(PathBuf, &'static str, Option<Removed>), RunError> {
    let in_memory = PathBuf::from(format!("/dev/shm/bowline-wan-write-{}", std::process::id()));
    if std::fs::create_dir_all(&in_memory).is_ok() {
        return Ok((in_memory.clone(), "tmpfs", Some(Removed(in_memory))));
    }
    Ok((ctx.dir("wan-write")?, "that of the scratch directory", None))
}

/// A directory that is removed at the end.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One server, one client, one buffer.
fn trial(
    ctx: &RunContext<'_>,
    link: &Link,
    dir: &Path,
    buffer: &str,
) -> Result<(BTreeMap<String, f64>, Samples, String), RunError> {
    sockstat::wait_until_quiet(QUIET)?;
    let options = Options {
        program: Some(ctx.bowline.clone()),
        listen: vec![link.server_addr],
        place: Placement::inside(&link.server),
        ..Options::of_dir(dir)
    };
    let options = if buffer == UNSET { options } else { options.set("tcp-rcvbuf", buffer) };
    let mut server = bowline::start(&options)?;
    let mut plan = Plan::new(server.nfs(), server.export(), Workload::Write);
    target_server(&mut plan, &server);
    plan.size = RECORD_BYTES;
    plan.file_size = file_bytes(ctx);
    plan.passes = Some(1);
    plan.depth = SLOTS;
    plan.warmup = Duration::ZERO;
    plan.time = PATIENCE;
    plan.timeout = Duration::from_secs(60);
    let command = server.command().to_owned();
    let watch = Watch::default();
    link.report()?;
    let done: Result<MeasuredLoad, RunError> = std::thread::scope(|scope| {
        let control = server.control().map(Path::to_path_buf);
        let watch = &watch;
        let watching = scope.spawn(move || watch.look(control.as_deref()));
        let load = link.client.run(|| {
            let file_set = Arc::new(FileSet::prepare(&plan)?);
            measure_load(&plan, &file_set, &mut server, ctx)
        });
        watch.ended.store(true, Relaxed);
        let _ = watching.join();
        load?
    });
    let line = link.report()?;
    stop(server);
    let samples = watch.samples.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut found = done?.measures();
    found.extend(measures([
        ("line_dropped_packets", float(line.to_server.dropped)),
        ("forwarder_cpu_share", line.forwarder_cpu_share),
        ("line_late_us", line.late_max_us),
    ]));
    found.extend(of_samples(&samples));
    Ok((found, samples, command))
}

/// Waits until the server has ended before the next one starts.
fn stop(server: TestServer) {
    let _ = server.stop(Duration::from_secs(5));
}

/// Samples the connection while it is used.
#[derive(Default)]
struct Watch {
    ended: AtomicBool,
    samples: Mutex<Samples>,
}

impl Watch {
    fn look(&self, control: Option<&Path>) {
        let Some(control) = control else { return };
        let begun = Instant::now();
        while !self.ended.load(Relaxed) {
            let rows: Vec<ConnRow> = admin::Client::connect(control)
                .and_then(|mut client| client.ask(&Request::Conns))
                .unwrap_or_default();
            let busiest = rows.into_iter().filter_map(|row| row.link);
            if let Some(link) = busiest.max_by_key(|link| link.in_bytes_per_s) {
                let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
                samples.push((begun.elapsed().as_secs_f64(), link));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The second half of the samples: the window has grown by then. The last one is left out, as it may
/// be after the end.
fn of_samples(samples: &Samples) -> BTreeMap<String, f64> {
    let late = samples.get(samples.len() / 2..samples.len().saturating_sub(1)).unwrap_or_default();
    let of = |value: fn(&LinkRow) -> u64| {
        median(&late.iter().map(|(_, link)| float(value(link))).collect::<Vec<_>>())
    };
    measures([
        ("window_bytes", of(|link| link.window_bytes)),
        ("receive_buffer_bytes", of(|link| link.receive_buffer_bytes)),
        ("open_mb_per_s", of(|link| link.in_bytes_per_s) / 1e6),
        ("rtt_us", of(|link| link.rtt_us)),
        ("out_of_order_segments", of(|link| link.out_of_order)),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
const fn float(count: u64) -> f64 {
    count as f64
}

fn evaluate_targets(findings: &mut Findings) {
    for buffer in BUFFERS {
        let whole = findings.median(buffer, Some(30.0), "write_mb_per_s");
        let open = findings.median(buffer, Some(30.0), "open_mb_per_s");
        let (condition, held) = match buffer {
            "1M" => (
                "1M at 30 ms: 1.2 to 1.4 × buffer / round trip, about 45 MB/s".to_owned(),
                (1.2..=1.4).contains(&(open * 1e6 * 0.030 / f64::from(1 << 20))),
            ),
            _ => (
                format!(
                    "{buffer} at 30 ms: the line's rate once the window is open, {LINE_MB_PER_S} MB/s"
                ),
                open >= FULL * LINE_MB_PER_S,
            ),
        };
        let found = format!("{open:.1} MB/s; {whole:.1} with the slow start");
        findings.targets.push(Target { condition, found, held });
    }
    for rtt in RTTS_MS {
        findings.ratio("write_mb_per_s", "16M", "1M", Some(rtt.into()));
        findings.ratio("write_mb_per_s", "auto", "1M", Some(rtt.into()));
    }
    findings.notes.push(
        "The original's 16 MiB row was limited by its client or its disk: the line carries 120.7 MB/s."
            .to_owned(),
    );
    findings.notes.push(
        "“default” leaves tcp-rcvbuf alone, which is the kernel's own sizing, as auto is; the original's \
         default was a buffer of a few requests, its first row."
            .to_owned(),
    );
}

fn add_plots(findings: &mut Findings, windows: &BTreeMap<(u32, &str), Samples>) {
    let mut rows = Vec::new();
    for rtt in RTTS_MS {
        for buffer in BUFFERS {
            let of = |measure| findings.median(buffer, Some(rtt.into()), measure);
            let original = ORIGINAL.iter().find(|(name, _)| rtt == 30 && *name == buffer);
            rows.push(vec![
                format!("{rtt}"),
                buffer.to_owned(),
                format!("{:.1}", of("write_mb_per_s")),
                format!("{:.1}", of("open_mb_per_s")),
                format!("{:.1}", of("window_bytes") / 1e6),
                format!("{:.1}", of("rtt_us") / 1e3),
                format!("{:.1}", of("server_cpu_us_per_call")),
                original.map_or_else(|| "–".to_owned(), |(_, rate)| format!("{rate:.1}")),
            ]);
        }
    }
    let columns = [
        "round trip, ms",
        "tcp-rcvbuf",
        "written, MB/s",
        "window open, MB/s",
        "window, MB",
        "round trip under load, ms",
        "server CPU, µs per WRITE",
        "original, MB/s",
    ];
    findings.tables.push(Table {
        title: "What one client writes".into(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    });
    for rtt in RTTS_MS {
        let of = |value: fn(&LinkRow) -> f64| {
            let series = |buffer: &&str| {
                let samples = windows.get(&(rtt, *buffer)).map_or(&[][..], Vec::as_slice);
                let point = |(at, link): &(f64, LinkRow)| Point {
                    x: *at,
                    y: value(link),
                    low: None,
                    high: None,
                };
                let points = samples.iter().map(point).collect();
                Series { name: (*buffer).to_owned(), original: false, points }
            };
            BUFFERS.iter().map(series).collect::<Vec<_>>()
        };
        for (title, label, unit, value) in [
            (
                format!("The window that the server offers, at {rtt} ms"),
                "window",
                "MB",
                (|link| float(link.window_bytes) / 1e6) as fn(&LinkRow) -> f64,
            ),
            (format!("The rate, at {rtt} ms"), "written", "MB/s", |link| {
                float(link.in_bytes_per_s) / 1e6
            }),
        ] {
            findings.plots.push(Plot {
                title,
                shape: Shape::OverTime,
                x: axis("time", "s"),
                y: axis(label, unit),
                bars: Vec::new(),
                series: of(value),
            });
        }
    }
}
