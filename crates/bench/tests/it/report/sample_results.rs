//! Invented results: plausible ones for all thirteen experiments, and unusual ones.
//!
//! They exist to view the page and to test it; they must never be used in the documentation.

use bench::result::{
    Axis, Fact, Findings, Machine, Outcome, Plot, Point, Ratio, Series, Shape, Table, Target, Trial,
};
use std::f64::consts::TAU;

/// A machine that does not exist.
pub fn machine() -> Machine {
    Machine {
        started: "2026-11-21T10:04:59Z".into(),
        bowline: "bowline 0.1.0 (made up)".into(),
        kernel: "6.12.43-made-up".into(),
        cpu_model: "Imaginary Processor 9000 @ 2.40GHz".into(),
        cpus: 4,
        memory_bytes: 16_777_216_000,
        system: "Debian GNU/Linux 13 (trixie)".into(),
        privileged: true,
        facts: vec![
            fact("net.core.rmem_max", "212992 B"),
            fact("net.ipv4.tcp_rmem", "4096 131072 33554432 B"),
            fact("transparent huge pages", "madvise"),
        ],
    }
}

pub fn fact(name: &str, value: &str) -> Fact {
    Fact { name: name.into(), value: value.into() }
}

pub fn axis(label: &str, unit: &str, log: bool) -> Axis {
    Axis { label: label.into(), unit: unit.into(), log }
}

pub fn series(name: &str, points: &[(f64, f64)]) -> Series {
    let points = points.iter().map(|(x, y)| Point { x: *x, y: *y, low: None, high: None });
    Series { name: name.into(), original: false, points: points.collect() }
}

/// With whiskers of about `share` of the value.
pub fn spread(name: &str, points: &[(f64, f64)], share: f64) -> Series {
    let mut series = series(name, points);
    for (i, p) in series.points.iter_mut().enumerate() {
        let wobble = share * (0.6 + 0.4 * noise(i as f64));
        p.low = Some(p.y * (1.0 - wobble));
        p.high = Some(p.y * (1.0 + wobble * 0.7));
    }
    series
}

pub fn original(name: &str, points: &[(f64, f64)]) -> Series {
    Series { original: true, ..series(name, points) }
}

pub fn plot(title: &str, shape: Shape, x: Axis, y: Axis, series: Vec<Series>) -> Plot {
    Plot { title: title.into(), shape, x, y, bars: Vec::new(), series }
}

pub fn bars(title: &str, shape: Shape, y: Axis, names: &[&str], series: Vec<Series>) -> Plot {
    let bars = names.iter().map(|n| (*n).to_string()).collect();
    Plot { title: title.into(), shape, x: axis("", "", false), y, bars, series }
}

/// From -1 to 1, deterministic.
pub fn noise(at: f64) -> f64 {
    let v = (at * 12.9898 + 4.1).sin() * 43758.5453;
    (v - v.floor()) * 2.0 - 1.0
}

fn indexed(values: &[f64]) -> Vec<(f64, f64)> {
    values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect()
}

fn against(xs: &[f64], f: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    xs.iter().map(|x| (*x, f(*x))).collect()
}

fn ratio(measure: &str, of: &str, to: &str, at: Option<f64>, median: f64) -> Ratio {
    let (measure, of, to) = (measure.into(), of.into(), to.into());
    Ratio { measure, of, to, at, median, low: median * 0.96, high: median * 1.05, rounds: 5 }
}

fn target(condition: &str, found: &str, held: bool) -> Target {
    Target { condition: condition.into(), found: found.into(), held }
}

fn trials(variants: &[&str], ats: &[Option<f64>], base: f64) -> Vec<Trial> {
    let mut all = Vec::new();
    for round in 0..3u32 {
        for at in ats {
            for (v, variant) in variants.iter().enumerate() {
                let sequence = all.len() as u32;
                let rate = base * (1.0 + v as f64 * 0.2 + 0.02 * noise(f64::from(sequence)));
                let measures = [
                    ("calls_per_s", rate),
                    ("server_cpu_us_per_call", 1e6 / rate),
                    ("context_switches_per_s", rate / 3.0),
                    ("p99_us", 900.0 + 100.0 * noise(rate)),
                ];
                let measures = measures.into_iter().map(|(n, v)| (n.to_string(), v)).collect();
                let (variant, at) = ((*variant).to_string(), *at);
                all.push(Trial { variant, at, round, sequence, measures });
            }
        }
    }
    all
}

/// An experiment with everything but plots.
pub fn findings(name: &str, title: &str, question: &str, minute: u32) -> Findings {
    Findings {
        name: name.into(),
        title: title.into(),
        question: question.into(),
        quick: false,
        started: format!("2026-11-21T10:{minute:02}:00Z"),
        took_s: 48.3,
        outcome: Outcome::Done,
        commands: vec![format!(
            "bowline serve --export /tmp/bench/{name} --port 0 --threads 128..128 --wake-policy cap:5"
        )],
        setup: vec![fact("clients", "6"), fact("transfer", "32 KiB"), fact("rounds", "5 of 4 s")],
        noise: Some(0.031),
        trials: trials(&["before", "after"], &[None], 50_000.0),
        ratios: vec![ratio("calls_per_s", "after", "before", None, 1.23)],
        targets: vec![target("at least 1.2 times as many calls", "1.23 times", true)],
        tables: Vec::new(),
        plots: Vec::new(),
        notes: vec!["The clients share the CPUs with the server.".into()],
    }
}

/// All thirteen.
pub fn thirteen() -> Vec<Findings> {
    vec![
        udp_read(),
        udp_bufs(),
        hotplug(),
        rsync_walk(),
        starve(),
        disk_sleep(),
        zc_read(),
        zc_readdir(),
        scatter_write(),
        align(),
        wan_write(),
        auth_scale(),
        pools(),
    ]
}

fn udp_read() -> Findings {
    let mut f = findings(
        "udp-read",
        "Cached 32 KiB READs over UDP through three interfaces",
        "How much does a socket for each interface or each CPU gain, and how evenly are the interfaces used?",
        1,
    );
    let names = [
        "single",
        "interface",
        "cpu",
        "interface-cpu",
        "original: one socket",
        "original: one per interface",
    ];
    let own = |values: [f64; 4], name: &str| series(name, &indexed(&values));
    let theirs =
        |values: [f64; 2], name: &str| original(name, &[(4.0, values[0]), (5.0, values[1])]);
    f.plots = vec![
        bars(
            "Bandwidth by interface",
            Shape::StackedBars,
            axis("read bandwidth", "MB/s", false),
            &names,
            vec![
                own([212.0, 301.2, 288.4, 320.9], "bench0"),
                own([208.0, 305.9, 281.0, 318.2], "bench1"),
                own([209.4, 299.3, 290.5, 322.6], "bench2"),
                theirs([48.8, 90.6], "original, eth0"),
                theirs([48.6, 7.3], "original, eth1"),
                theirs([48.6, 107.0], "original, eth2"),
            ],
        ),
        bars(
            "Sleeps on the send lock",
            Shape::GroupedBars,
            axis("context switches", "1/s", false),
            &names[..4],
            vec![
                spread("voluntary", &indexed(&[81_200.0, 12_000.0, 14_100.0, 9_000.0]), 0.08),
                spread("involuntary", &indexed(&[2_200.0, 3_050.0, 3_400.0, 2_900.0]), 0.2),
            ],
        ),
    ];
    f.tables = vec![Table {
        title: "The original experiment (2004): three gigabit interfaces, 128 nfsd".into(),
        columns: ["sockets", "MB/s", "balance over the interfaces"].map(String::from).to_vec(),
        rows: vec![
            ["one", "146", "even"].map(String::from).to_vec(),
            ["one per interface", "210–230", "90.6 / 7.3 / 107.0 MB/s at worst"]
                .map(String::from)
                .to_vec(),
        ],
    }];
    f.ratios = vec![
        ratio("read_mb_per_s", "interface", "single", None, 1.43),
        ratio("read_mb_per_s", "cpu", "single", None, 1.36),
        ratio("read_mb_per_s", "interface-cpu", "single", None, 1.52),
        ratio("context_switches_per_s", "interface", "single", None, 0.17),
    ];
    f.targets = vec![
        target("one per interface gains at least 1.4 times", "1.43 times (1.37 – 1.50)", true),
        target(
            "the busiest interface carries at most 1.2 times the least busy",
            "1.02 times",
            true,
        ),
        target("one per CPU gains at least 1.4 times", "1.36 times (1.31 – 1.43)", false),
    ];
    f
}

fn udp_bufs() -> Findings {
    let mut f = findings(
        "udp-bufs",
        "UDP socket buffers from an eighth to eight times",
        "Does a larger buffer help a single socket? In 2004 it did not.",
        2,
    );
    let xs = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];
    let theirs = [147.0, 145.0, 145.0, 140.0, 141.0, 141.0, 141.0];
    let ours = [618.0, 627.0, 630.0, 629.0, 633.0, 628.0, 631.0];
    let zip = |v: &[f64; 7]| xs.iter().copied().zip(v.iter().copied()).collect::<Vec<_>>();
    f.plots = vec![plot(
        "READ bandwidth over the size of the socket buffers",
        Shape::Lines,
        axis("buffers, as a multiple of the default", "", true),
        axis("read bandwidth", "MB/s", false),
        vec![spread("one socket", &zip(&ours), 0.03), original("original (2004)", &zip(&theirs))],
    )];
    f.ratios = xs
        .iter()
        .map(|x| ratio("read_mb_per_s", "scaled", "default", Some(*x), 1.0 + 0.01 * noise(*x)))
        .collect();
    f
}

fn hotplug() -> Findings {
    let mut f = findings(
        "hotplug",
        "Interfaces come, go and are renamed under load",
        "Is anything lost beyond the packets in flight?",
        3,
    );
    let xs: Vec<f64> = (0..600).map(|i| f64::from(i) / 10.0).collect();
    let rate = |from: f64, to: f64, shift: f64| {
        against(&xs, |x| {
            let up = x < from || x > to;
            if up { 41_000.0 + 1_800.0 * noise(x + shift) } else { 0.0 }
        })
    };
    f.plots = vec![plot(
        "Answers by interface",
        Shape::OverTime,
        axis("time", "s", false),
        axis("calls answered", "1/s", false),
        vec![
            series("bench0 (stays)", &rate(99.0, 99.0, 0.1)),
            series("bench1 (down 20 s – 30 s)", &rate(20.0, 30.0, 7.0)),
            series("bench2 (removed 40 s – 52 s)", &rate(40.0, 52.0, 13.0)),
        ],
    )];
    f.tables = vec![Table {
        title: "What happened".into(),
        columns: ["event", "at, s", "lost calls", "until served, ms"].map(String::from).to_vec(),
        rows: [
            ["bench1 down", "20.0", "31", "–"],
            ["bench1 up", "30.0", "0", "3.1"],
            ["bench2 removed", "40.0", "28", "–"],
            ["bench2 made, renamed wan7", "52.0", "0", "4.7"],
        ]
        .map(|r| r.map(String::from).to_vec())
        .to_vec(),
    }];
    f.ratios = Vec::new();
    f.outcome = Outcome::Partial(
        "the renaming of a bond's member was not tried: this kernel has no bonding module".into(),
    );
    f
}

const CLIENTS: [f64; 7] = [16.0, 24.0, 32.0, 40.0, 48.0, 56.0, 64.0];

fn rsync_walk() -> Findings {
    let mut f = findings(
        "rsync-walk",
        "Clients walking a tree as rsync does, 128 threads",
        "How many calls per second does each wake policy give on one CPU, and what does the scheduler cost?",
        4,
    );
    let before = [57_353.0, 57_787.0, 57_921.0, 57_936.0, 57_930.0, 57_467.0, 57_595.0];
    let after = [74_965.0, 79_397.0, 80_746.0, 81_629.0, 81_775.0, 81_411.0, 81_543.0];
    let zip = |v: &[f64; 7]| CLIENTS.iter().copied().zip(v.iter().copied()).collect::<Vec<_>>();
    let curve = |top: f64, k: f64| against(&CLIENTS, |c| top * (1.0 - (-c / k).exp()));
    let policies = [
        ("unlimited", 118_000.0),
        ("cap:1", 151_000.0),
        ("cap:5", 163_000.0),
        ("cap:16", 149_000.0),
        ("chain", 160_500.0),
        ("adaptive", 166_400.0),
    ];
    let mut rates: Vec<Series> =
        policies.iter().map(|(n, top)| spread(n, &curve(*top, 8.0), 0.025)).collect();
    rates.push(original("original: before", &zip(&before)));
    rates.push(original("original: at most 5 woken", &zip(&after)));
    let shares = [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];
    let latency = |scale: f64| {
        against(&shares, |s| {
            scale * (120.0 + 300.0 * (1.0 / (1.0 - s.min(99.995) / 100.0)).ln().powf(1.6))
        })
    };
    f.plots = vec![
        plot(
            "Calls per second, one CPU",
            Shape::Lines,
            axis("clients", "", false),
            axis("calls", "1/s", false),
            rates,
        ),
        plot(
            "Latency of ACCESS at 64 clients",
            Shape::Percentiles,
            axis("share of calls", "%", true),
            axis("latency", "µs", true),
            policies
                .iter()
                .enumerate()
                .map(|(i, (n, _))| series(n, &latency(1.0 + i as f64 * 0.35)))
                .collect(),
        ),
        bars(
            "Context switches for each 1,000 calls",
            Shape::GroupedBars,
            axis("context switches for each 1,000 calls", "", true),
            &["unlimited", "cap:1", "cap:5", "cap:16", "chain", "adaptive"],
            vec![
                spread("16 clients", &indexed(&[920.0, 12.0, 25.0, 88.0, 20.0, 9.0]), 0.1),
                spread("64 clients", &indexed(&[1210.0, 8.0, 19.0, 131.0, 14.0, 6.5]), 0.1),
            ],
        ),
    ];
    f.ratios = ["cap:5", "chain", "adaptive"]
        .iter()
        .enumerate()
        .flat_map(|(i, of)| {
            CLIENTS.iter().map(move |c| {
                ratio(
                    "calls_per_s",
                    of,
                    "unlimited",
                    Some(*c),
                    1.3 + 0.04 * i as f64 + 0.03 * noise(*c + i as f64),
                )
            })
        })
        .collect();
    let policies: Vec<&str> = policies.iter().map(|(n, _)| *n).collect();
    f.trials = trials(&policies, &CLIENTS.map(Some), 110_000.0);
    f.commands
        .push("bowline bench mktree /tmp/bench/tree --directories 10841 --files 161480".into());
    f.targets = vec![
        target(
            "cap:5 gains at least 1.3 times at every number of clients",
            "1.29 – 1.33 times",
            false,
        ),
        target("the scheduler's share falls by half", "8.1 % → 2.6 %", true),
    ];
    f
}

fn starve() -> Findings {
    let mut f = findings(
        "starve",
        "MOUNT and portmap while the pool is saturated",
        "Is control traffic answered promptly under a load that uses every thread?",
        5,
    );
    let shares: Vec<f64> =
        (0..60).map(|i| 100.0 - 100.0 * 10f64.powf(-f64::from(i) / 15.0)).collect();
    let latency = |scale: f64| against(&shares, |s| scale * (1.0 + (1.0 / (1.0 - s / 100.0)).ln()));
    f.plots = vec![plot(
        "Time to answer MOUNT NULL",
        Shape::Percentiles,
        axis("share of calls", "%", true),
        axis("time to answer", "µs", true),
        vec![
            series("unlimited", &latency(2_100.0)),
            series("cap:5", &latency(160.0)),
            series("idle server", &latency(41.0)),
        ],
    )];
    f
}

fn disk_sleep() -> Findings {
    let mut f = findings(
        "disk-sleep",
        "A share of the calls sleeps 5 – 20 ms",
        "What happens to the calls that need no disk?",
        6,
    );
    let xs = [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0];
    f.plots = vec![plot(
        "99th percentile of the calls that do not sleep",
        Shape::Lines,
        axis("calls that sleep", "%", false),
        axis("p99", "µs", true),
        vec![
            spread("unlimited", &against(&xs, |x| 300.0 + 900.0 * x), 0.2),
            spread("cap:1", &against(&xs, |x| 280.0 + 2500.0 * x * x), 0.3),
            spread("chain", &against(&xs, |x| 260.0 + 45.0 * x), 0.15),
            spread("adaptive", &against(&xs, |x| 240.0 + 22.0 * x), 0.15),
        ],
    )];
    f
}

fn zc_read() -> Findings {
    let mut f = findings(
        "zc-read",
        "READ with and without copying",
        "From which size on is it cheaper to let the kernel move the pages?",
        7,
    );
    let sizes: Vec<f64> = (12..=20).map(|p| f64::from(p).exp2()).collect();
    let rate = |top: f64, half: f64| against(&sizes, |s| top * s / (s + half));
    let cpu = |fixed: f64, per: f64| against(&sizes, |s| fixed / s * 1e6 + per);
    f.plots = vec![
        plot(
            "READ bandwidth over the size of a READ",
            Shape::Lines,
            axis("size of a READ", "B", true),
            axis("bandwidth", "MB/s", false),
            vec![
                spread("TCP, copy", &rate(2300.0, 40e3), 0.04),
                spread("TCP, zero copy", &rate(3900.0, 75e3), 0.05),
                spread("UDP, copy", &rate(900.0, 14e3)[..4], 0.03),
                spread("UDP, zero copy", &rate(1060.0, 18e3)[..4], 0.03),
            ],
        ),
        plot(
            "Server CPU for each gigabyte",
            Shape::Lines,
            axis("size of a READ", "B", true),
            axis("CPU", "s/GB", true),
            vec![
                spread("TCP, copy", &cpu(6.0, 0.30), 0.05),
                spread("TCP, zero copy", &cpu(8.5, 0.09), 0.05),
            ],
        ),
    ];
    let sizes: Vec<f64> = sizes.iter().copied().step_by(2).collect();
    f.ratios = sizes
        .iter()
        .map(|s| {
            ratio(
                "cpu_s_per_gb",
                "zero copy",
                "copy",
                Some(*s),
                1.4 - 0.25 * (s.log2() - 12.0) / 2.0,
            )
        })
        .collect();
    f
}

fn zc_readdir() -> Findings {
    let mut f = findings(
        "zc-readdir",
        "READDIR of a thousand to a million entries",
        "Does the time for an entry stay the same, and memory bounded?",
        8,
    );
    let sizes = [1e3, 1e4, 1e5, 1e6];
    f.plots = vec![
        plot(
            "Entries per second",
            Shape::Lines,
            axis("entries", "", true),
            axis("entries listed", "1/s", false),
            vec![
                spread("READDIR", &against(&sizes, |s| 2.9e6 - 9e4 * s.log10()), 0.03),
                spread("READDIRPLUS", &against(&sizes, |s| 7.1e5 - 3e4 * s.log10()), 0.04),
            ],
        ),
        plot(
            "Memory of the server",
            Shape::Lines,
            axis("entries", "", true),
            axis("resident memory", "B", false),
            vec![spread("READDIR", &against(&sizes, |s| 9.4e6 + 0.4 * s), 0.01)],
        ),
    ];
    f
}

fn scatter_write() -> Findings {
    let mut f = findings(
        "scatter-write",
        "WRITE from the pieces as they came",
        "What does joining the pieces first cost?",
        9,
    );
    f.plots = vec![bars(
        "WRITE bandwidth",
        Shape::GroupedBars,
        axis("write bandwidth", "MB/s", false),
        &["4 KiB", "32 KiB", "256 KiB", "1 MiB"],
        vec![
            spread("joined, then pwrite", &indexed(&[310.0, 1240.0, 1710.0, 1802.0]), 0.05),
            spread("pwritev from the pieces", &indexed(&[308.0, 1390.0, 2150.0, 2404.0]), 0.05),
        ],
    )];
    f
}

fn align() -> Findings {
    let mut f = findings(
        "align",
        "Where the payload begins",
        "Copy speed depends on alignment: one byte off was half the speed in 2002.",
        10,
    );
    let offsets = ["0", "1", "4", "8", "64", "4096"];
    f.plots = vec![bars(
        "Speed of a 1 MiB copy over the offset of its source",
        Shape::GroupedBars,
        axis("copy speed", "GB/s", false),
        &offsets,
        vec![
            spread(
                "destination aligned to 64",
                &indexed(&[11.9, 11.2, 11.6, 11.7, 11.9, 11.8]),
                0.03,
            ),
            spread(
                "destination one byte off",
                &indexed(&[10.7, 11.0, 10.6, 10.8, 10.7, 10.8]),
                0.04,
            ),
        ],
    )];
    f.plots[0].x = axis("offset", "B", false);
    f
}

fn wan_write() -> Findings {
    let mut f = findings(
        "wan-write",
        "500 MB over a wide-area link",
        "Does the receive buffer limit a client 30 or 120 ms away?",
        11,
    );
    let xs: Vec<f64> = (0..2_400).map(|i| f64::from(i) / 40.0).collect();
    let grow = |top: f64, tau: f64, cut: f64| {
        against(&xs, |x| {
            (top * (1.0 - (-x / tau).exp())
                * (1.0 - 0.1 * ((x * TAU / 9.0).sin().max(0.9) - 0.9) * 10.0)
                + 2e4 * noise(x))
            .clamp(14_480.0, cut)
        })
    };
    f.plots = vec![
        plot(
            "Window over time, 120 ms",
            Shape::OverTime,
            axis("time", "s", false),
            axis("receive window", "B", false),
            vec![
                series("default", &grow(3.1e6, 2.0, 3.0e6)),
                series("1 MiB", &grow(1.2e6, 1.2, 1.05e6)),
                series("4 MiB", &grow(5.0e6, 2.4, 4.2e6)),
                series("16 MiB", &grow(1.5e7, 4.0, 1.6e7)),
                series("auto", &grow(1.4e7, 6.0, 1.6e7)),
            ],
        ),
        bars(
            "Throughput",
            Shape::GroupedBars,
            axis("throughput", "MB/s", false),
            &[
                "default",
                "1 MiB",
                "4 MiB",
                "16 MiB",
                "auto",
                "original: default",
                "original: 16 MiB",
            ],
            vec![
                spread("30 ms", &indexed(&[58.0, 31.0, 92.0, 113.0, 109.0]), 0.04),
                spread("120 ms", &indexed(&[14.2, 8.1, 30.8, 88.1, 80.2]), 0.06),
                original("original, 30 ms", &[(5.0, 43.252), (6.0, 90.396)]),
            ],
        ),
    ];
    f.quick = true;
    f
}

fn auth_scale() -> Findings {
    let mut f = findings(
        "auth-scale",
        "The table of authentication flavours",
        "What does a lock around the table cost at more threads?",
        12,
    );
    let threads = [1.0, 2.0, 4.0, 8.0, 16.0];
    f.plots = vec![plot(
        "SeriesStyle-ups per second",
        Shape::Lines,
        axis("threads", "", true),
        axis("look-ups", "1/s", true),
        vec![
            spread("mutex", &against(&threads, |t| 4.1e7 / t.powf(0.9)), 0.1),
            spread("rwlock", &against(&threads, |t| 3.6e7 / t.powf(0.6)), 0.1),
            spread("snapshot", &against(&threads, |t| 3.2e8 * t.min(4.0)), 0.05),
        ],
    )];
    f.tables = vec![Table {
        title: "The original experiment (2009): 16 CPUs, 640 client threads".into(),
        columns: ["table", "operations/s", "lock contention"].map(String::from).to_vec(),
        rows: vec![
            ["spinlock", "242,000", "4.61 %"].map(String::from).to_vec(),
            ["RCU", "253,000", "0.03 %"].map(String::from).to_vec(),
        ],
    }];
    f.outcome = Outcome::Failed(
        "the server of variant `rwlock` ended by signal 9 in round 3 of 5; rounds 0 – 2 are shown"
            .into(),
    );
    f
}

fn pools() -> Findings {
    let mut f = findings(
        "pools",
        "One pool, a pool for each CPU, a pool for each node",
        "Do smaller pools scale better?",
        13,
    );
    f.outcome =
        Outcome::Unable("this machine has one NUMA node; `pernode` equals `global` here".into());
    f.ratios.clear();
    f.trials.clear();
    f.targets.clear();
    f.noise = None;
    f
}
