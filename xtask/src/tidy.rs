//! The rules of CONTRIBUTING.md that a line counter can check.

use anyhow::Result;
use std::path::Path;

/// Longest file, in lines.
const FILE_LINES_MAX: usize = 800;
/// Longest function, in lines.
const FUNCTION_LINES_MAX: usize = 100;
/// Names that say nothing.
const EMPTY_NAMES: [&str; 7] = ["util", "utils", "helper", "helpers", "common", "manager", "misc"];

/// Findings in all Rust sources.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for dir in ["crates", "xtask", "fuzz"] {
        for path in crate::source_files::files(&root.join(dir), "rs")? {
            let text = std::fs::read_to_string(&path)?;
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            findings.extend(source(&shown, &text));
        }
    }
    Ok(findings)
}

/// Findings in one file.
fn source(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().find(|l| !l.starts_with("#!["));
    if !first.is_some_and(|l| l.starts_with("//!")) {
        findings.push(format!("{path}:1: begin with `//!`: what the file owns and its invariants"));
    }
    if lines.len() > FILE_LINES_MAX {
        findings.push(format!("{path}:1: {} lines: split it by concern", lines.len()));
    }
    let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
    if EMPTY_NAMES.contains(&stem) {
        findings.push(format!("{path}:1: name the file by what it does"));
    }
    findings.extend(functions(path, &lines));
    findings.extend(words(path, &lines));
    findings
}

/// Functions that are too long; one ends at the first `}` with the indentation of its `fn`.
fn functions(path: &str, lines: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if !is_function(body) || !has_body(lines, start) {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent));
        let end = lines.iter().skip(start).position(|l| *l == close);
        if let Some(length) = end.filter(|length| *length > FUNCTION_LINES_MAX) {
            findings.push(format!("{path}:{}: a function of {length} lines", start + 1));
        }
    }
    findings
}

/// Whether the function that begins in line `start` has a body of lines of its own.
fn has_body(lines: &[&str], start: usize) -> bool {
    let end = lines.iter().skip(start).find(|l| l.ends_with([';', '{', '}']));
    end.is_some_and(|l| l.ends_with('{'))
}

fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.find(|w| {
        !matches!(
            *w,
            "pub" | "const" | "unsafe" | "async" | "extern" | "pub(crate)" | "pub(super)" | "\"C\""
        )
    }) == Some("fn")
}

/// Lines that a rule forbids.
fn words(path: &str, lines: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    let sys = path.starts_with("crates/sys/") || path.starts_with("fuzz/");
    for (number, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        let mut found = |what: &str| findings.push(format!("{path}:{}: {what}", number + 1));
        if code.contains(concat!("unsafe", " {")) && !sys && !path.contains("/tests") {
            found("unsafe code lives in crates/sys only");
        }
        let ignored = code.trim_start().strip_prefix("#[ignore");
        let reasons = [" = \"runs inside", " = \"by hand"];
        if ignored.is_some_and(|rest| !reasons.iter().any(|reason| rest.starts_with(reason))) {
            found("an ignored test says `runs inside …` or `by hand: …`");
        }
        let name = code.trim_start().trim_start_matches("pub ").strip_prefix("fn get_");
        if name.is_some_and(|rest| !rest.starts_with("mut(")) {
            found("no get_ prefix");
        }
        if ["TO", "FIX"].iter().zip(["DO", "ME"]).any(|(a, b)| line.contains(&format!("{a}{b}:"))) {
            found("an unfinished mark: finish it, or name it as missing in docs/features.md");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::source;

    const UNSAFE: &str = concat!("//! x\nlet a = unsafe", " { b };\n");

    #[test]
    fn a_file_in_order_has_no_finding() {
        assert!(source("crates/x/src/a.rs", "//! Owns a.\n\nfn a() {\n}\n").is_empty());
    }

    #[test]
    fn each_rule_finds_its_violation() {
        let long = format!("//! x\nfn a() {{\n{}}}\n", "    a();\n".repeat(101));
        assert!(
            source("crates/x/src/a.rs", &long)[0].contains("101 lines")
                || source("crates/x/src/a.rs", &long)[0].contains("102 lines")
        );
        assert!(source("crates/x/src/a.rs", "fn a() {}\n")[0].contains("begin with"));
        assert!(source("crates/x/src/utils.rs", "//! x\n")[0].contains("name the file"));
        assert!(source("crates/x/src/a.rs", UNSAFE)[0].contains("unsafe"));
        assert!(source("crates/sys/src/a.rs", UNSAFE).is_empty());
        let huge = format!("//! x\n{}", "a();\n".repeat(800));
        assert!(source("crates/x/src/a.rs", &huge)[0].contains("split it"));
    }
}
