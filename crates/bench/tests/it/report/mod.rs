//! The report as a whole: required and forbidden contents, and errors of invalid input.
//!
//! `BLESS=1 cargo test -p bowline-bench --test it report` rewrites the golden files;
//! `REPORT_OUT=DIR cargo test … -- --ignored` writes sample results and their page to DIR, to be
//! viewed in a browser.

mod golden;
mod odd;
mod sample_results;

use bench::report::{ReportError, write};
use bench::result::{Findings, Machine};
use std::path::Path;

/// Writes results like `bowline bench run --out`.
fn store(dir: &Path, machine: &Machine, findings: &[Findings]) {
    let text = serde_json::to_string_pretty(machine).unwrap();
    std::fs::write(dir.join("machine.json"), text).unwrap();
    for f in findings {
        let text = serde_json::to_string_pretty(f).unwrap();
        std::fs::write(dir.join(format!("{}.json", f.name)), text).unwrap();
    }
}

/// The page of these results.
fn page(findings: &[Findings]) -> String {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), &sample_results::machine(), findings);
    let path = write(dir.path()).unwrap();
    assert_eq!(path, dir.path().join("report.html"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_page_describes_all_thirteen_experiments() {
    let findings = sample_results::thirteen();
    let page = page(&findings);
    for f in &findings {
        assert!(page.contains(&format!("<code>{}</code>", f.name)), "{}", f.name);
        for plot in &f.plots {
            assert!(page.contains(&plot.title), "{}", plot.title);
        }
        for command in &f.commands {
            assert!(page.contains(command), "{command}");
        }
        for note in &f.notes {
            assert!(page.contains(note), "{note}");
        }
    }
    assert!(
        page.contains("13 experiments in 10 min 28 s: 10 measured in full, 1 in part, "),
        "summary"
    );
    assert!(page.contains("Imaginary Processor 9000"));
    // Raw trials with all their digits.
    let trial = &findings[3].trials[17];
    let rate = trial.measures["calls_per_s"];
    let digits: String = format!("{rate}").chars().take(14).collect();
    assert!(page.contains(&digits), "{digits}");
}

#[test]
#[ignore = "by hand: leaves pages to look at in the directory REPORT_OUT"]
fn write_pages_for_visual_inspection() {
    let dir = std::env::var_os("REPORT_OUT").unwrap();
    store(Path::new(&dir), &sample_results::machine(), &sample_results::thirteen());
    write(Path::new(&dir)).unwrap();
    let dir = Path::new(&dir).join("odd");
    std::fs::create_dir_all(&dir).unwrap();
    store(&dir, &sample_results::machine(), &[odd::findings()]);
    write(&dir).unwrap();
}

#[test]
fn the_page_has_no_external_references() {
    let page = page(&sample_results::thirteen());
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for outside in
        ["http:", "https:", "src=", "url(", "@import", "<script", "<link", "<img", "javascript"]
    {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_page_is_reproducible() {
    assert_eq!(page(&sample_results::thirteen()), page(&sample_results::thirteen()));
}

#[test]
fn markup_in_names_is_never_rendered() {
    let evil = "<b onload=\"x\">&'\u{1}</b>";
    let page = page(&[odd::named(evil)]);
    assert!(!page.contains("<b onload"), "a name became an element");
    assert!(page.contains("&lt;b onload=&quot;x&quot;&gt;&amp;&#39;\u{fffd}&lt;/b&gt;"));
    // Everything that contains the name is still well-formed.
    odd::check_pictures(&page);
}

#[test]
fn every_experiment_is_linked_from_the_overview() {
    let page = page(&sample_results::thirteen());
    for number in 1..=13 {
        assert!(page.contains(&format!("href=\"#e{number}\"")));
        assert!(page.contains(&format!("id=\"e{number}\"")));
    }
}

fn error_of(files: &[(&str, &str)]) -> (ReportError, String) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let error = write(dir.path()).unwrap_err();
    let text = error.to_string().replace(&dir.path().display().to_string(), "DIR");
    assert!(!text.contains('\n'), "{text}");
    assert!(!dir.path().join("report.html").exists());
    (error, text)
}

#[test]
fn broken_input_is_named_with_its_file_and_line() {
    let machine = serde_json::to_string(&sample_results::machine()).unwrap();
    let finding = serde_json::to_string_pretty(&sample_results::thirteen()[0]).unwrap();

    let (error, text) = error_of(&[("udp-read.json", &finding)]);
    assert!(matches!(error, ReportError::NoMachine { .. }));
    assert!(text.starts_with("DIR/machine.json is missing"), "{text}");

    let (error, text) = error_of(&[("machine.json", &machine)]);
    assert!(matches!(error, ReportError::Empty { .. }), "{text}");

    let broken = finding.replacen("\"quick\": false", "\"quick\": maybe", 1);
    let line = finding.lines().position(|l| l.contains("\"quick\"")).unwrap() + 1;
    let (_, text) = error_of(&[("machine.json", &machine), ("udp-read.json", &broken)]);
    let start = format!("DIR/udp-read.json:{line}: this is not the result of an experiment: ");
    assert!(text.starts_with(&start), "{text}");

    let cut = &finding[..finding.len() / 2];
    let (_, text) = error_of(&[("machine.json", &machine), ("udp-read.json", cut)]);
    let last = cut.lines().count();
    assert!(text.starts_with(&format!("DIR/udp-read.json:{last}: ")), "{text}");

    let (_, text) = error_of(&[("machine.json", "[]"), ("udp-read.json", &finding)]);
    assert!(
        text.starts_with("DIR/machine.json:1: this is not the description of a machine"),
        "{text}"
    );
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let error = write(Path::new("/nonexistent/results")).unwrap_err();
    assert!(error.to_string().starts_with("cannot read /nonexistent/results: "), "{error}");
}

#[test]
fn an_old_page_is_replaced_and_other_files_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), &sample_results::machine(), &sample_results::thirteen()[..1]);
    std::fs::write(dir.path().join("report.html"), "old").unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let path = write(dir.path()).unwrap();
    assert!(std::fs::read_to_string(path).unwrap().starts_with("<!DOCTYPE html>"));
    let mut names: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["machine.json", "notes.txt", "report.html", "udp-read.json"]);
}

/// The run in docs/bench is in the format of `bowline bench report --compact`, and has a page.
#[test]
fn the_committed_run_is_compact_and_renders() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench/2026-11-21.json");
    let kept = std::fs::read_to_string(&run).unwrap();
    assert!(kept.len() < 300_000, "{} bytes", kept.len());
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("run.json");
    bench::report::write_compact(&run, &copy).unwrap();
    assert!(std::fs::read_to_string(&copy).unwrap() == kept, "the file differs when written again");
    let page = write(&copy).unwrap();
    assert_eq!(page, dir.path().join("run.html"));
    let page = std::fs::read_to_string(page).unwrap();
    for name in ["rsync-walk", "zc-read", "wan-write"] {
        assert!(page.contains(&format!("<code>{name}</code>")), "{name}");
    }
}

#[test]
fn a_compact_file_keeps_trials_and_names_the_line_of_an_error() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), &sample_results::machine(), &sample_results::thirteen());
    let file = dir.path().join("out.json");
    bench::report::write_compact(dir.path(), &file).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let trials: usize = sample_results::thirteen().iter().map(|f| f.trials.len()).sum();
    let rows = text.lines().filter(|line| line.starts_with("[\"")).count();
    assert_eq!(rows, trials);
    std::fs::write(&file, text.replacen("\"machine\"", "machine", 1)).unwrap();
    let error = write(&file).unwrap_err().to_string();
    assert!(error.contains("out.json:1: this is not a compact file of results"), "{error}");
}
