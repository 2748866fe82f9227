//! The load generator against Bowline and against nfs-ganesha, which judges our client as a foreigner: every
//! workload, without one failed call; and what `bowline bench` prints and writes.

use bench::experiments::target_server;
use bench::lab::Namespace;
use bench::load::{
    BENCH_DIR, FileSet, LiveCounters, LoadReport, Plan, Proto, Stable, Version, Workload, run,
};
use bench::servers::bowline::{Options, start};
use bench::servers::{Placement, ScratchDir, ServerError, TestServer, ganesha};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use testing::{Missing, skip};

const WORKLOADS: [Workload; 14] = [
    Workload::Null,
    Workload::Getattr,
    Workload::Access,
    Workload::Lookup,
    Workload::Readdir,
    Workload::Readdirplus,
    Workload::Walk,
    Workload::Read,
    Workload::Write,
    Workload::Create,
    Workload::Untar,
    Workload::Mixed,
    Workload::Lock,
    Workload::OpenClose,
];

/// A small tree, and a recorded list of calls on it.
fn tree(scratch: &ScratchDir) {
    let dir = scratch.dir("export").unwrap();
    for d in 0..8 {
        let sub = dir.join(format!("dir {d}"));
        std::fs::create_dir(&sub).unwrap();
        for f in 0..40 {
            std::fs::write(sub.join(format!("file{f}")), vec![b'x'; 5000]).unwrap();
        }
    }
    let calls = "# a recorded list\ngetattr dir%201/file3\nlookup dir%202/file4\naccess dir%202\n\
                 read dir%203/file5 0 4096\nreaddir dir%203\nreaddirplus /\nfsstat /\n";
    scratch.file("calls", calls).unwrap();
}

/// One short load; it must be answered, and without any fault.
fn load(server: &TestServer, workload: Workload, change: impl Fn(&mut Plan)) -> LoadReport {
    let mut plan = Plan::new(server.nfs(), server.export(), workload);
    target_server(&mut plan, server);
    (plan.clients, plan.depth, plan.size) = (4, 3, 8 << 10);
    (plan.files, plan.file_size) = (2, 256 << 10);
    plan.warmup = Duration::from_millis(20);
    plan.time = Duration::from_millis(60);
    plan.timeout = Duration::from_secs(60);
    change(&mut plan);
    let file_set = Arc::new(FileSet::prepare(&plan).unwrap());
    let name = format!("{} on {}", plan.workload.name(), server.name());
    // a busy machine may not answer a call in that time
    let report = loop {
        let counters = LiveCounters::new(plan.threads);
        let run = run(&plan, &file_set, &counters, &AtomicBool::new(false)).unwrap();
        assert!(run.error.is_none(), "{name}: {:?}", run.error);
        if run.report.calls > 0 || plan.time > Duration::from_secs(60) {
            break run.report;
        }
        plan.time *= 2;
    };
    file_set.clear(&plan).unwrap();
    assert!(report.calls > 0 && report.is_clean(), "{name}: {report:?}");
    report
}

fn all_workloads(server: &TestServer, version: Version, scratch: &ScratchDir) {
    for workload in WORKLOADS.into_iter().filter(|workload| workload.fits(version)) {
        let report = load(server, workload, |plan| plan.version = version);
        assert_eq!(report.version, version.name());
        match report.workload.as_str() {
            "read" => assert!(report.checked > 0 && report.read_mb_per_s > 0.0, "{report:?}"),
            "write" => assert!(report.write_mb_per_s > 0.0, "{report:?}"),
            _ => {}
        }
    }
    let calls = scratch.path().join("calls");
    let report = load(server, Workload::Replay(calls), |plan| plan.version = version);
    assert!(report.operations.len() >= 5, "{report:?}");
    assert!(!scratch.path().join("export").join(std::str::from_utf8(BENCH_DIR).unwrap()).exists());
}

#[test]
fn bowline_answers_every_load() {
    let scratch = ScratchDir::new().unwrap();
    tree(&scratch);
    let mut options = Options::of_dir(&scratch.path().join("export"));
    options.program = Some(env!("CARGO_BIN_EXE_bowline").into());
    let mut server = start(&options).unwrap();
    all_workloads(&server, Version::V3, &scratch);
    for workload in [Workload::Null, Workload::Getattr, Workload::Read, Workload::Write] {
        load(&server, workload.clone(), |plan| plan.proto = Proto::Udp);
        load(&server, workload, |plan| plan.version = Version::V2);
    }
    load(&server, Workload::Lookup, |plan| plan.version = Version::V2);
    load(&server, Workload::Write, |plan| plan.fragment = 1000);
    // a busy machine may not keep up with a try
    let keeps_the_rate = (0..60).any(|_| {
        let open = load(&server, Workload::Getattr, |plan| {
            plan.pace = bench::load::Pace::Open(500.0);
            plan.time = Duration::from_millis(500);
        });
        (250.0..750.0).contains(&open.calls_per_s)
    });
    assert!(keeps_the_rate);
    ends_with_its_passes(&server);
    stays_small(&mut server);
}

/// The largest records of 64 clients at once; when they are gone, so is the memory.
fn stays_small(server: &mut TestServer) {
    let before = server.reading().unwrap();
    load(server, Workload::Write, |plan| {
        (plan.clients, plan.depth, plan.passes) = (64, 2, Some(2));
        (plan.size, plan.file_size) = (1 << 20, 4 << 20);
        (plan.warmup, plan.time) = (Duration::ZERO, Duration::from_secs(60));
    });
    let rss_bytes = |server: &mut TestServer| server.reading().unwrap().since(&before).rss_bytes;
    // a worker keeps its buffers for five seconds
    let deadline = Instant::now() + Duration::from_secs(120);
    while rss_bytes(server) > 64 << 20 {
        let now_bytes = rss_bytes(server);
        assert!(Instant::now() < deadline, "{now_bytes} bytes, two minutes after the load");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// 2 passes of 4 clients over 32 WRITEs each and a COMMIT, and not the ten minutes that the plan allows.
fn ends_with_its_passes(server: &TestServer) {
    for (stable, calls) in [(Stable::Unstable, 264), (Stable::FileSync, 256)] {
        let report = load(server, Workload::Write, |plan| {
            (plan.passes, plan.stable) = (Some(2), stable);
            (plan.warmup, plan.time) = (Duration::ZERO, Duration::from_secs(600));
        });
        assert_eq!(report.calls, calls, "{report:?}");
        assert!(report.seconds < 500.0, "{report:?}");
    }
}

/// In each minor version; what a load has opened is given back at its end.
#[test]
fn bowline_answers_every_load_of_version_4() {
    let scratch = ScratchDir::new().unwrap();
    tree(&scratch);
    let mut options = Options::of_dir(&scratch.path().join("export"));
    options.program = Some(env!("CARGO_BIN_EXE_bowline").into());
    let server = start(&options).unwrap();
    for version in [Version::V40, Version::V41, Version::V42] {
        all_workloads(&server, version, &scratch);
    }
    let control = server.control().unwrap().display().to_string();
    let (code, out, err) = bowline(&["opens", "--json", "--control", &control]);
    assert_eq!(code, 0, "{err}");
    let opens: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(opens, serde_json::json!([]), "what is left open");
    let report = load(&server, Workload::Getattr, |plan| {
        (plan.version, plan.clients, plan.depth) = (Version::V41, 1, 64);
    });
    assert_eq!(report.operations.len(), 1, "{report:?}");
}

#[test]
fn a_load_of_version_4_has_no_more_calls_in_progress_than_slots() {
    let scratch = ScratchDir::new().unwrap();
    tree(&scratch);
    let mut options = Options::of_dir(&scratch.path().join("export"));
    options.program = Some(env!("CARGO_BIN_EXE_bowline").into());
    let server = start(&options).unwrap();
    let mut plan = Plan::new(server.nfs(), server.export(), Workload::Null);
    (plan.version, plan.depth) = (Version::V41, 4096);
    let file_set = Arc::new(FileSet::prepare(&plan).unwrap());
    let counters = LiveCounters::new(plan.threads);
    let error = run(&plan, &file_set, &counters, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("slots"), "{error}");
}

#[test]
fn ganesha_answers_every_load() {
    let scratch = ScratchDir::new().unwrap();
    tree(&scratch);
    let network = match Namespace::new("loads") {
        Ok(network) => network,
        Err(error) => return skip(Missing::Namespaces, error),
    };
    match ganesha::start_with_locks(&scratch.path().join("export"), &Placement::inside(&network)) {
        Ok(server) => network.run(|| all_workloads(&server, Version::V3, &scratch)).unwrap(),
        Err(error @ (ServerError::Unable(_) | ServerError::NotInstalled { .. })) => {
            skip(Missing::Program, error);
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn ganesha_answers_every_load_of_version_4() {
    let scratch = ScratchDir::new().unwrap();
    tree(&scratch);
    let network = match Namespace::new("loads4") {
        Ok(network) => network,
        Err(error) => return skip(Missing::Namespaces, error),
    };
    let (export, place) = (scratch.path().join("export"), Placement::inside(&network));
    match ganesha::start_with_version4(&export, &place) {
        Ok(server) => network
            .run(|| {
                for version in [Version::V40, Version::V41, Version::V42] {
                    all_workloads(&server, version, &scratch);
                }
            })
            .unwrap(),
        Err(error @ (ServerError::Unable(_) | ServerError::NotInstalled { .. })) => {
            skip(Missing::Program, error);
        }
        Err(error) => panic!("{error}"),
    }
}

fn bowline(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bowline")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The names of a JSON value's fields, with those of what it holds; of a list those of its first member.
fn fields(value: &serde_json::Value, at: &str, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (name, inner) in object {
                let place = format!("{at}.{name}");
                names.insert(place.clone());
                // maps of names that depend on the run
                if name != "errors" {
                    fields(inner, &place, names);
                }
            }
        }
        serde_json::Value::Array(list) => {
            if let Some(first) = list.first() {
                fields(first, &format!("{at}[]"), names);
            }
        }
        _ => {}
    }
}

/// Programs read the JSON: its form is held against a file. `BLESS=1` writes the file anew.
#[test]
fn the_json_of_a_load_matches_its_golden_file() {
    let scratch = ScratchDir::new().unwrap();
    tree(&scratch);
    let mut options = Options::of_dir(&scratch.path().join("export"));
    options.program = Some(env!("CARGO_BIN_EXE_bowline").into());
    let server = start(&options).unwrap();
    let control = server.control().unwrap().display().to_string();
    let at = server.nfs().to_string();
    let (code, out, err) = bowline(&[
        "bench",
        "load",
        "--server",
        &at,
        "--export",
        server.export(),
        "--workload",
        "mixed",
        "--clients",
        "2",
        "--seconds",
        "0.3",
        "--size",
        "8K",
        "--quiet",
        "--json",
        "-",
        "--control",
        &control,
    ]);
    assert_eq!(code, 0, "{out}{err}");
    let mut names = BTreeSet::new();
    fields(&serde_json::from_str(&out).unwrap(), "", &mut names);
    let found = names.into_iter().collect::<Vec<_>>().join("\n") + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/load.fields");
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&file).unwrap(), "see BLESS=1");
}

#[test]
fn an_invalid_load_prints_one_line_on_stderr() {
    let dead =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (args, code, word) in [
        (&["bench", "load", "--server", &dead, "--quiet"][..], 1, "no server listens"),
        (&["bench", "load", "--server", &dead, "--workload", "fly"], 2, "not a workload"),
        (&["bench", "load", "--server", "no.such.host.invalid"], 2, "no such host"),
        (&["bench", "load", "--server", &dead, "--clients", "0"], 2, "clients"),
        (&["bench", "load", "--server", &dead, "--size", "8M"], 2, "size"),
        (&["bench", "load", "--server", &dead, "--workload", "replay"], 2, "--calls"),
        (
            &["bench", "load", "--server", &dead, "--vers", "2", "--workload", "access"],
            2,
            "version 2",
        ),
        (&["bench", "load", "--server", &dead, "--vers", "4"], 2, "4.0, 4.1, 4.2"),
        (&["bench", "load", "--server", &dead, "--vers", "4.1", "--proto", "udp"], 2, "udp"),
        (&["bench", "load", "--server", &dead, "--workload", "open-close"], 2, "version 4"),
        (&["bench", "run", "no-such-thing"], 2, "no such experiment"),
        (&["bench", "report", "/nonexistent"], 2, "/nonexistent"),
        (&["bench", "compare", "--peer", "true"], 2, "{PORT}"),
        (&["bench", "compare", "--peer", "true", "--only", "fly"], 2, "fly"),
    ] {
        let (found, _, err) = bowline(args);
        assert_eq!(found, code, "{args:?}: {err}");
        assert!(err.contains(word), "{args:?}: {err}");
        assert_eq!(err.trim_end().lines().count(), 1, "{args:?}: {err}");
    }
}

#[test]
fn all_experiments_are_listed() {
    let (code, out, _) = bowline(&["bench", "list", "--json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&out).unwrap();
    let names: BTreeSet<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let wanted = [
        "udp-read",
        "udp-bufs",
        "hotplug",
        "rsync-walk",
        "starve",
        "disk-sleep",
        "fairness",
        "zc-read",
        "zc-readdir",
        "scatter-write",
        "align",
        "wan-write",
        "auth-scale",
        "pools",
        "versions",
        "delegations",
    ];
    assert_eq!((code, names), (0, BTreeSet::from(wanted)));
}
