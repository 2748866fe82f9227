//! `cargo xtask kernel-bar [--program FILE] [--seconds N] [--vers V] [--export-options O] [PART...]`: Bowline beside the kernel's own
//! server and Ganesha, in an emulated machine (`tests/speed/emulated/run`), over version 3 of NFS or another; what it
//! needs with an option of its export is another row.
//!
//! Each part is one boot of less than five minutes: a machine, a peer and the loads whose names contain a text, for example
//! `counted/knfsd/getattr`. Without parts all are measured ([`parts`]). What a part measures replaces the same rows of
//! `docs/bench/kernel-server.json`; `docs/bench/kernel-server.md` is made from that file, so that parts that were not
//! measured again keep their figures and their dates.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version that is spoken if no other is named.
const VERSION: &str = "3";
/// Versions that can be compared.
const VERSIONS: [&str; 4] = [VERSION, "4.0", "4.1", "4.2"];
/// Texts that divide the loads into parts; of those of version 4 the empty call has another name, and more are there.
const LOADS: [&str; 11] = [
    "null",
    "getattr",
    "access",
    "lookup",
    "read 4",
    "read 32",
    "read 1 m",
    "write",
    "create",
    "readdirplus",
    "walk",
];
const LOADS_4: [&str; 12] = [
    "sequence", "getattr", "access", "lookup", "read 4", "read 32", "read 1 m", "write", "create",
    "readdir", "walk", "open",
];
/// A boot is ended after so long, unless `--seconds` allows more: where other programs run beside.
const BOOT_SECONDS: u32 = 290;
/// Where `./do release` puts the program that is measured.
const PROGRAM: &str = "target/dist/bowline";
const DATA: &str = "docs/bench/kernel-server.json";
const PAGE: &str = "docs/bench/kernel-server.md";

/// How the emulated machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Machine {
    /// One CPU; its clock counts instructions, 1 ns for each.
    Counted,
    /// Two CPUs in time.
    TwoCpus,
}

impl Machine {
    const fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::TwoCpus => "two-cpus",
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Counted => &["--count"],
            Self::TwoCpus => &["--cpus", "2"],
        }
    }
}

/// What is measured in one boot.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    machine: Machine,
    version: String,
    peer: String,
    loads: String,
    /// More options of Bowline's export.
    export_options: Option<String>,
}

impl Part {
    /// Of `MACHINE/PEER/LOADS`, over a version.
    fn parse(text: &str, version: &str) -> Result<Self> {
        let mut words = text.splitn(3, '/');
        let (machine, peer, loads) = (words.next(), words.next(), words.next());
        let (Some(machine), Some(peer), Some(loads)) = (machine, peer, loads) else {
            bail!("{text}: a part is MACHINE/PEER/LOADS, for example counted/knfsd/getattr");
        };
        let machine =
            [Machine::Counted, Machine::TwoCpus].into_iter().find(|m| m.name() == machine);
        let machine = machine.context("a machine is counted or two-cpus")?;
        let version = version.to_owned();
        let (peer, loads) = (peer.to_owned(), loads.to_owned());
        Ok(Self { machine, version, peer, loads, export_options: None })
    }

    fn name(&self) -> String {
        format!("{}/{}/{}", self.machine.name(), self.peer, self.loads)
    }
}

/// All parts of a version: both machines beside the kernel's server, and instructions beside Ganesha.
fn parts(version: &str) -> Vec<Part> {
    let texts = if version == VERSION { &LOADS[..] } else { &LOADS_4[..] };
    let of = |machine, peer: &'static str| {
        texts.iter().map(move |loads| Part {
            machine,
            version: version.to_owned(),
            peer: peer.to_owned(),
            loads: (*loads).to_owned(),
            export_options: None,
        })
    };
    let counted = of(Machine::Counted, "knfsd").chain(of(Machine::Counted, "ganesha"));
    counted.chain(of(Machine::TwoCpus, "knfsd")).collect()
}

/// A server's medians.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Medians {
    /// µs of the server's CPU per call: thousands of instructions where they are counted.
    us_per_call: f64,
    calls_per_s: f64,
}

/// One load beside one peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    machine: Machine,
    #[serde(default = "version_3")]
    version: String,
    peer: String,
    load: String,
    /// More options of Bowline's export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    export_options: Option<String>,
    /// When it was measured, to the day.
    date: String,
    bowline: Medians,
    other: Medians,
}

impl Row {
    /// The load, with the version if it is not 3, and the export's options.
    fn label(&self) -> String {
        let mut label = self.load.clone();
        if self.version != VERSION {
            let _ = write!(label, " ({})", self.version);
        }
        if let Some(options) = &self.export_options {
            let _ = write!(label, ", {options}");
        }
        label
    }
}

fn version_3() -> String {
    VERSION.to_owned()
}

/// What `bowline bench compare --json` writes, as far as it is used.
#[derive(Deserialize)]
struct Comparison {
    started: String,
    loads: Vec<Compared>,
}

#[derive(Deserialize)]
struct Compared {
    load: String,
    figures: Vec<Figures>,
}

#[derive(Deserialize)]
struct Figures {
    us_per_call: Vec<f64>,
    calls_per_s: Vec<f64>,
}

impl Figures {
    fn medians(&self) -> Option<Medians> {
        let (us_per_call, calls_per_s) = (median(&self.us_per_call)?, median(&self.calls_per_s)?);
        Some(Medians { us_per_call, calls_per_s })
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Measures what is asked for, and writes the data and the page.
pub fn run(root: &Path, args: &[String]) -> Result<()> {
    let (mut program, mut wanted) = (root.join(PROGRAM), Vec::new());
    let (mut boot_seconds, mut version, mut export_options) = (BOOT_SECONDS, VERSION, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--program" {
            program = PathBuf::from(args.next().context("--program needs a file")?);
        } else if arg == "--seconds" {
            let seconds = args.next().context("--seconds needs a number")?;
            boot_seconds = seconds.parse().with_context(|| format!("--seconds {seconds}"))?;
        } else if arg == "--vers" {
            version = args.next().context("--vers needs a version")?;
        } else if arg == "--export-options" {
            export_options = Some(args.next().context("--export-options needs options")?.clone());
        } else {
            wanted.push(arg);
        }
    }
    if !VERSIONS.contains(&version) {
        bail!("--vers {version}: one of {}", VERSIONS.join(", "));
    }
    if !program.exists() {
        bail!(
            "{} does not exist: make it with ./do release, or name a --program",
            program.display()
        );
    }
    let program = program.canonicalize()?;
    let named: Result<Vec<_>> = wanted.iter().map(|text| Part::parse(text, version)).collect();
    let mut wanted = if wanted.is_empty() { parts(version) } else { named? };
    for part in &mut wanted {
        part.export_options.clone_from(&export_options);
        let rows = measure(root, &program, boot_seconds, part).with_context(|| part.name())?;
        let data = root.join(DATA);
        let mut all: Vec<Row> = match std::fs::read_to_string(&data) {
            Ok(text) => serde_json::from_str(&text).with_context(|| DATA)?,
            Err(_) => Vec::new(),
        };
        replace(&mut all, rows);
        std::fs::write(&data, data_text(&all)?)?;
        std::fs::write(root.join(PAGE), page(&all))?;
        println!("{}: done", part.name());
    }
    Ok(())
}

/// Boots once, for as many seconds as are allowed.
fn measure(root: &Path, program: &Path, boot_seconds: u32, part: &Part) -> Result<Vec<Row>> {
    let (program, peer, loads) = (program.display(), &part.peer, &part.loads);
    let version = &part.version;
    let options = part.export_options.as_ref();
    let options = options.map_or_else(String::new, |with| format!(" --export-options '{with}'"));
    let command = format!(
        "'{program}' bench compare --peer {peer} --vers {version} --quick --only '{loads}'{options} --json /run/figures >/run/table 2>&1 || \
         {{ cat /run/table; exit 1; }}; cat /run/figures"
    );
    let output = Command::new(root.join("tests/speed/emulated/run"))
        .args(part.machine.options())
        .args(["--seconds", &boot_seconds.to_string(), "--", &command])
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{}: {said}", output.status);
    }
    let json = said.get(said.find('{').unwrap_or(0)..).unwrap_or_default();
    let comparison: Comparison = serde_json::from_str(json).with_context(|| said.to_string())?;
    rows(part, &comparison)
}

fn rows(part: &Part, comparison: &Comparison) -> Result<Vec<Row>> {
    let row = |compared: &Compared| {
        let medians = |at: usize| {
            let figures = compared.figures.get(at).and_then(Figures::medians);
            figures.with_context(|| format!("{}: a server has no figures", compared.load))
        };
        Ok(Row {
            machine: part.machine,
            version: part.version.clone(),
            peer: part.peer.clone(),
            load: compared.load.clone(),
            export_options: part.export_options.clone(),
            date: comparison.started.chars().take(10).collect(),
            bowline: medians(0)?,
            other: medians(1)?,
        })
    };
    comparison.loads.iter().map(row).collect()
}

/// New rows take the place of those of the same machine, version, peer, load and options; others follow.
fn replace(all: &mut Vec<Row>, new: Vec<Row>) {
    for row in new {
        let same = |old: &&mut Row| {
            (old.machine, &old.version, &old.peer, &old.load, &old.export_options)
                == (row.machine, &row.version, &row.peer, &row.load, &row.export_options)
        };
        match all.iter_mut().find(same) {
            Some(old) => *old = row,
            None => all.push(row),
        }
    }
}

/// The data, a line for each row.
fn data_text(all: &[Row]) -> Result<String> {
    let lines: Result<Vec<String>, _> = all.iter().map(serde_json::to_string).collect();
    Ok(format!("[\n{}\n]\n", lines?.join(",\n")))
}

/// What the page says before its tables.
const INTRODUCTION: &str = "\
# Beside the kernel's own server

Made by `cargo xtask kernel-bar`, which boots Debian's kernel in an emulated machine (QEMU without KVM,
[tests/speed/emulated](../../tests/speed/emulated/run)) and runs `bowline bench compare` in it: the kernel's server (knfsd) with its default
of 16 threads and READs and WRITEs of up to 1 MiB, files in memory, 16 clients (8 for 1 MiB), the same load generator for all. Version 3 where no other is named. Medians of three rounds; `cargo xtask kernel-bar PART` measures a part
again, for example `counted/knfsd/getattr`, and `--vers 4.1` does so over that version. Rows with an option of exports (`--export-options attr-cache=1000`) have it on Bowline's
side only.

";
const COUNTED: &str = "\
## Instructions

One CPU whose clock counts instructions. What the threads of each server execute for a call, the kernel's part included, and calls/s
relative to knfsd. The counts repeat to 2 %, on any machine; they know nothing of caches, and of what entering the
kernel costs a real processor.

| load | Bowline | knfsd | Ganesha | Bowline / knfsd | calls/s, of knfsd | measured |
| --- | --- | --- | --- | --- | --- | --- |
";
const TWO_CPUS: &str = "\
## Two CPUs

Two emulated CPUs in time, where waiting, waking and interrupts between CPUs count, and user-space instructions are dear. Rounds
differ by up to half.

| load | CPU per call, of knfsd | calls/s, of knfsd | measured |
| --- | --- | --- | --- |
";

/// The page.
fn page(all: &[Row]) -> String {
    let mut text = String::from(INTRODUCTION);
    text.push_str(COUNTED);
    let of = |machine: Machine| {
        all.iter().filter(move |row| row.machine == machine && row.peer == "knfsd")
    };
    for row in of(Machine::Counted) {
        let is_same = |other: &&Row| {
            (other.machine, other.peer.as_str()) == (Machine::Counted, "ganesha")
                && (&other.version, &other.load) == (&row.version, &row.load)
        };
        let ganesha = all.iter().find(is_same);
        let ganesha = ganesha.map_or_else(|| "–".into(), |row| instructions(row.other));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {ganesha} | {:.2} | {:.2} | {} |",
            row.label(),
            instructions(row.bowline),
            instructions(row.other),
            row.bowline.us_per_call / row.other.us_per_call,
            row.bowline.calls_per_s / row.other.calls_per_s,
            row.date,
        );
    }
    text.push('\n');
    text.push_str(TWO_CPUS);
    for row in of(Machine::TwoCpus) {
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} | {} |",
            row.label(),
            row.bowline.us_per_call / row.other.us_per_call,
            row.bowline.calls_per_s / row.other.calls_per_s,
            row.date,
        );
    }
    text
}

/// µs of the counting clock as instructions, with spaces between thousands.
fn instructions(medians: Medians) -> String {
    let count = format!("{:.0}", medians.us_per_call * 1000.0);
    let mut text = String::new();
    for (at, digit) in count.chars().enumerate() {
        if at > 0 && (count.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Comparison, Machine, Part, VERSIONS, data_text, page, parts, replace, rows};

    const JSON: &str = r#"{"started": "2026-11-24T08:00:00Z", "loads": [{"load": "NULL", "figures": [
        {"server": "bowline", "us_per_call": [15.0, 16.0, 15.5], "calls_per_s": [1.0, 3.0, 2.0]},
        {"server": "knfsd", "us_per_call": [31.0, 20.0, 40.0], "calls_per_s": [4.0, 4.0, 4.0]}]}]}"#;

    #[test]
    fn a_part_is_a_machine_a_peer_and_a_text() {
        let part = Part::parse("two-cpus/knfsd/read 1 m", "3").unwrap();
        assert_eq!(part.machine, Machine::TwoCpus);
        assert_eq!((part.peer.as_str(), part.loads.as_str()), ("knfsd", "read 1 m"));
        assert!(Part::parse("three/knfsd/null", "3").is_err());
        assert!(Part::parse("counted", "3").is_err());
        for version in VERSIONS {
            let all = parts(version);
            assert!(all.iter().all(|part| Part::parse(&part.name(), version).unwrap() == *part));
        }
    }

    #[test]
    fn the_page_has_medians_ratios_and_the_day() {
        let part = Part::parse("counted/knfsd/null", "3").unwrap();
        let comparison: Comparison = serde_json::from_str(JSON).unwrap();
        let mut all = rows(&part, &comparison).unwrap();
        replace(&mut all, rows(&part, &comparison).unwrap());
        assert_eq!(all.len(), 1, "the same row is replaced");
        let ganesha = Part { peer: "ganesha".into(), ..part };
        replace(&mut all, rows(&ganesha, &comparison).unwrap());
        let text = page(&all);
        let line = "| NULL | 15 500 | 31 000 | 31 000 | 0.50 | 0.50 | 2026-11-24 |";
        assert!(text.contains(line), "{text}");
        let part = Part { version: "4.1".into(), peer: "knfsd".into(), ..ganesha };
        replace(&mut all, rows(&part, &comparison).unwrap());
        assert_eq!(all.len(), 3, "another version is another row");
        assert!(page(&all).contains("| NULL (4.1) | 15 500 | 31 000 | – |"), "{}", page(&all));
        let part = Part { export_options: Some("attr-cache=5".into()), ..part };
        replace(&mut all, rows(&part, &comparison).unwrap());
        assert_eq!(all.len(), 4, "and so are other options");
        assert!(page(&all).contains("| NULL (4.1), attr-cache=5 | 15 500 |"), "{}", page(&all));
        assert_eq!(
            serde_json::from_str::<Vec<super::Row>>(&data_text(&all).unwrap()).unwrap(),
            all
        );
    }
}
