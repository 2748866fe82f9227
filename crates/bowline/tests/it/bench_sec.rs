//! `bowline bench load --sec`: the load generator over Kerberos and TLS, and by hand what each protection costs beside its
//! limit.

use crate::rig::{Server, bowline, text};
use bench::load::LoadReport;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::{Missing, Realm, skip};

const SECS: [&str; 5] = ["sys", "krb5", "krb5i", "krb5p", "tls"];

/// A server with a realm, a certificate and an export that all protections may use.
struct Lab {
    dir: tempfile::TempDir,
    realm: Realm,
    server: Server,
    export: String,
}

impl Lab {
    /// `None` where there is no KDC.
    fn start(settings: &[&str]) -> Option<Self> {
        if !Realm::is_possible() {
            skip(Missing::Program, "krb5kdc and kadmin.local, of krb5-kdc and krb5-admin-server");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let realm_dir = dir.path().join("realm");
        let export = dir.path().join("export");
        std::fs::create_dir(&realm_dir).unwrap();
        std::fs::create_dir(&export).unwrap();
        let realm = Realm::start(&realm_dir, "aes256-cts-hmac-sha1-96");
        let file = |name: &str| dir.path().join(name).display().to_string();
        let made = bowline(&["tls", "init", "server.lab.test", "--dir", &file("tls")]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let export = export.display().to_string();
        let rules = "(rw,insecure,no_root_squash,sec=sys:krb5:krb5i:krb5p,xprtsec=none:tls)";
        std::fs::write(file("exports"), format!("{export} *{rules}\n")).unwrap();
        // what is prepared belongs to the user of AUTH_SYS, root
        std::fs::write(file("principals"), "alice@LAB.TEST root\n").unwrap();
        let keytab = format!("keytab={}", realm.keytab().display());
        let principals = format!("principals={}", file("principals"));
        let (exports, cert, key) =
            (file("exports"), file("tls/server.pem"), file("tls/server.key"));
        let mut options = vec!["--exports", &exports, "--tls-cert", &cert, "--tls-key", &key];
        options.extend(["--set", &keytab, "--set", &principals]);
        options.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        let server = Server::start_with(&options, |command| {
            command.env("KRB5_CONFIG", realm.config());
        });
        Some(Self { dir, realm, server, export })
    }

    /// Runs a load; its result, which was clean.
    fn load(&self, sec: &str, more: &[&str]) -> LoadReport {
        let json = self.dir.path().join("load.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command
            .args(["bench", "load", "--quiet", "--keep", "--server-name", "server.lab.test"])
            .args(["--server", &format!("127.0.0.1:{}", self.server.port), "--sec", sec])
            .args(["--export", &self.export, "--threads", "1"])
            .args(["--server-pid", &self.server.child.id().to_string()])
            .args(more)
            .arg("--json")
            .arg(&json)
            .env("KRB5_CONFIG", self.realm.config())
            .env("KRB5_CLIENT_KTNAME", self.realm.keytab())
            .env("KRB5CCNAME", format!("FILE:{}", self.dir.path().join("cc").display()));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{sec} {more:?}: {}", text(&output.stderr));
        loads(&json).remove(0)
    }
}

fn loads(json: &Path) -> Vec<LoadReport> {
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    serde_json::from_value(value["loads"].clone()).unwrap()
}

/// A load that takes little time.
const SMALL: [&str; 14] = [
    "--clients",
    "3",
    "--depth",
    "3",
    "--size",
    "96K",
    "--files",
    "2",
    "--file-size",
    "256K",
    "--warmup",
    "0.05",
    "--timeout",
    "60",
];

#[test]
fn a_load_runs_under_each_protection() {
    let Some(lab) = Lab::start(&[]) else { return };
    for sec in SECS {
        let version3 = ["getattr", "read", "write", "readdirplus"].map(|load| ("3", load));
        let version4 = ["getattr", "read", "open-close"].map(|load| ("4.1", load));
        for (version, workload) in version3.into_iter().chain(version4) {
            // a busy machine may not answer a call in the first time
            let answered = |seconds: &&str| {
                let report = lab.load(
                    sec,
                    &[
                        &SMALL[..],
                        &["--vers", version, "--workload", workload, "--seconds", seconds],
                    ]
                    .concat(),
                );
                assert!(report.is_clean(), "{report:?}");
                (report.calls > 0).then_some(report)
            };
            let report = ["0.1", "0.5", "3", "30"].iter().find_map(answered).unwrap();
            assert_eq!((report.sec.as_str(), report.workload.as_str()), (sec, workload));
        }
    }
    let shown = lab.server.json("clients").to_string();
    assert!(shown.contains("alice@LAB.TEST"), "{shown}");
}

#[test]
fn a_load_without_a_ticket_says_so() {
    let Some(lab) = Lab::start(&[]) else { return };
    let output = Command::new(env!("CARGO_BIN_EXE_bowline"))
        .args(["bench", "load", "--quiet", "--sec", "krb5p", "--workload", "null"])
        .args(["--server", &format!("127.0.0.1:{}", lab.server.port)])
        .env("KRB5_CONFIG", lab.realm.config())
        .env("KRB5CCNAME", "FILE:/nonexistent/cc")
        .env("KRB5_CLIENT_KTNAME", "FILE:/nonexistent/keytab")
        .output()
        .unwrap();
    let told = text(&output.stderr);
    assert!(!output.status.success() && told.contains("--sec krb5p: "), "{told}");
}

/// What one round has measured, in microseconds of processor time per call.
type Round = Vec<(String, f64)>;

/// The limits of a READ, by the example program `sealed_read`.
fn limits(program: &Path, file: &Path) -> Round {
    let output = Command::new(program).arg(file).arg("200").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let row = |line: &str| {
        let (name, us) = line.split_once(' ').unwrap();
        (format!("limit {name}"), us.parse().unwrap())
    };
    lines.lines().map(row).collect()
}

fn round(lab: &Lab, copying: &Lab, program: &Path, file: &Path) -> Round {
    let version = std::env::var("VERS").unwrap_or_else(|_| "3".to_owned());
    let cost = |lab: &Lab, sec: &str, more: &[&str]| {
        let rest = ["--seconds", "1.5", "--warmup", "0.3", "--vers", &version];
        lab.load(sec, &[more, &rest].concat()).server.unwrap().cpu_us_per_call
    };
    let getattr = ["--workload", "getattr", "--clients", "16", "--depth", "1"];
    let read = ["--workload", "read", "--clients", "1", "--depth", "1", "--size", "1M"];
    let mut rows = limits(program, file);
    for sec in SECS {
        rows.push((format!("getattr {sec}"), cost(lab, sec, &getattr)));
        rows.push((format!("read {sec}"), cost(lab, sec, &read)));
    }
    rows.push(("read copied".to_owned(), cost(copying, "sys", &read)));
    rows
}

/// Prints what each protection costs a server, medians of rounds in which all of them alternate; `VERS=4.1` for another
/// version.
#[test]
#[ignore = "by hand: LIMITS=PROGRAM cargo test --release -p bowline --test it cost_of_each -- --ignored --nocapture"]
fn cost_of_each_protection() {
    let Some(lab) = Lab::start(&[]) else { return };
    let copying = Lab::start(&["zero-copy=off"]).unwrap();
    let program = PathBuf::from(std::env::var("LIMITS").expect("LIMITS=the example sealed_read"));
    let rounds = std::env::var("ROUNDS").map_or(7, |rounds| rounds.parse().unwrap());
    let file = lab.dir.path().join("file");
    std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    let rounds: Vec<Round> = (0..rounds).map(|_| round(&lab, &copying, &program, &file)).collect();
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let of = |name: &str, round: &Round| round.iter().find(|row| row.0 == name).unwrap().1;
    for (name, _) in &rounds[0] {
        println!("{name}: {:.2} us", median(rounds.iter().map(|r| of(name, r)).collect()));
    }
    for (cost, base) in [
        ("getattr krb5", "getattr sys"),
        ("getattr krb5i", "getattr sys"),
        ("getattr krb5p", "getattr sys"),
        ("getattr tls", "getattr sys"),
        ("read krb5", "read sys"),
        ("read copied", "limit copy"),
        ("read krb5i", "limit hmac"),
        ("read krb5p", "limit cbc-hmac"),
        ("read tls", "limit gcm"),
    ] {
        let mut ratios: Vec<f64> = rounds.iter().map(|r| of(cost, r) / of(base, r)).collect();
        ratios.sort_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        println!("{cost} / {base}: {:.3} ({least:.3} to {most:.3})", median(ratios));
    }
}

/// Prints what TLS costs a server whose records are in the kernel and one that encrypts by itself, and what the same calls
/// cost without: medians of rounds in which all of them alternate, and the ratios within rounds.
#[test]
#[ignore = "by hand, with the module tls loaded: cargo test --release -p bowline --test it cost_of_kernel_tls -- --ignored --nocapture"]
fn cost_of_kernel_tls() {
    let Some(kernel) = Lab::start(&["ktls=auto"]) else { return };
    let process = Lab::start(&["ktls=off"]).unwrap();
    let state = kernel.server.json("status")["kernel_tls"].clone();
    println!("{state}");
    assert!(state.as_str().is_some_and(|state| state.contains("GCM")), "the kernel has none");
    let rounds = std::env::var("ROUNDS").map_or(7, |rounds| rounds.parse().unwrap());
    let one = ["--clients", "1", "--depth", "1", "--size", "1M"];
    let many = ["--clients", "16", "--depth", "1"];
    let loads = [("getattr", &many[..]), ("read", &one[..]), ("write", &one[..])];
    let servers =
        [("none", &process, "sys"), ("process", &process, "tls"), ("kernel", &kernel, "tls")];
    let mut costs: HashMap<(&str, &str), Vec<f64>> = HashMap::new();
    for _ in 0..rounds {
        for (workload, shape) in loads {
            for (name, lab, sec) in servers {
                let rest =
                    ["--workload", workload, "--seconds", "1.5", "--warmup", "0.3", "--vers", "3"];
                let report = lab.load(sec, &[shape, &rest].concat());
                costs
                    .entry((workload, name))
                    .or_default()
                    .push(report.server.unwrap().cpu_us_per_call);
            }
        }
    }
    let spread = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (values[values.len() / 2], values[0], values[values.len() - 1])
    };
    for (workload, _) in loads {
        for (name, ..) in servers {
            let (median, least, most) = spread(costs[&(workload, name)].clone());
            println!("{workload} {name}: {median:.2} us ({least:.2} to {most:.2})");
        }
        let pairs = costs[&(workload, "kernel")].iter().zip(&costs[&(workload, "process")]);
        let (median, least, most) =
            spread(pairs.map(|(kernel, process)| kernel / process).collect());
        println!("{workload} kernel / process: {median:.3} ({least:.3} to {most:.3})");
    }
}
