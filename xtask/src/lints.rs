//! The lints that CONTRIBUTING.md promises are on, in every crate, and the toolchain is the one that
//! the manifest names. `./do check` makes every warning an error.

use anyhow::{Context, Result};
use std::path::Path;
use toml::{Table, Value};

/// Lints of the workspace that must be on, and how.
const REQUIRED: [(&str, &str, &[&str]); 12] = [
    ("rust", "unsafe_code", &["forbid"]),
    ("rust", "missing_docs", ON),
    ("rust", "unused_must_use", &["deny"]),
    ("clippy", "unwrap_used", ON),
    ("clippy", "expect_used", ON),
    ("clippy", "panic", ON),
    ("clippy", "todo", ON),
    ("clippy", "unimplemented", ON),
    ("clippy", "dbg_macro", ON),
    ("clippy", "undocumented_unsafe_blocks", ON),
    ("clippy", "too_many_lines", ON),
    ("clippy", "cognitive_complexity", ON),
];
/// Those of `sys`, which may hold unsafe code and so has a table of its own.
const REQUIRED_OF_SYS: [(&str, &str, &[&str]); 6] = [
    ("rust", "missing_docs", ON),
    ("rust", "unsafe_op_in_unsafe_fn", &["deny"]),
    ("clippy", "undocumented_unsafe_blocks", &["deny"]),
    ("clippy", "unwrap_used", ON),
    ("clippy", "expect_used", ON),
    ("clippy", "panic", ON),
];
const ON: &[&str] = &["warn", "deny", "forbid"];
/// Lints that no crate may switch off as a whole.
const NEVER_ALLOWED: [&str; 6] = [
    "missing_docs",
    "unwrap_used",
    "expect_used",
    "clippy::panic",
    "unsafe_code",
    "unused_must_use",
];
/// The crate whose code is all for tests.
const TESTS_ONLY: &str = "crates/testing";

/// Findings in the manifests and in the first lines of the crates.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let manifest = read(&root.join("Cargo.toml"))?;
    let workspace = manifest.get("workspace").and_then(Value::as_table).context("no workspace")?;
    let mut findings = required("Cargo.toml", workspace.get("lints"), &REQUIRED);
    for member in workspace.get("members").and_then(Value::as_array).into_iter().flatten() {
        let member = member.as_str().unwrap_or_default();
        let shown = format!("{member}/Cargo.toml");
        let manifest = read(&root.join(&shown))?;
        let lints = manifest.get("lints");
        if member == "crates/sys" {
            findings.extend(required(&shown, lints, &REQUIRED_OF_SYS));
        } else if lints.and_then(|l| l.get("workspace")) != Some(&Value::Boolean(true)) {
            findings.push(format!("{shown}: [lints] workspace = true is missing"));
        }
        for file in ["lib.rs", "main.rs"] {
            let shown = format!("{member}/src/{file}");
            if member != TESTS_ONLY && root.join(&shown).exists() {
                findings.extend(allowed(&shown, &std::fs::read_to_string(root.join(&shown))?));
            }
        }
    }
    findings.extend(toolchain(root, workspace)?);
    Ok(findings)
}

fn read(file: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    toml::from_str(&text).with_context(|| file.display().to_string())
}

/// Required lints that are off.
fn required(shown: &str, lints: Option<&Value>, required: &[(&str, &str, &[&str])]) -> Vec<String> {
    let mut findings = Vec::new();
    for (tool, lint, levels) in required {
        let found = lints.and_then(|lints| lints.get(tool)?.get(lint));
        let level = found.and_then(|found| found.get("level").unwrap_or(found).as_str());
        if !level.is_some_and(|level| levels.contains(&level)) {
            findings
                .push(format!("{shown}: the lint {tool}::{lint} must be {}", levels.join(" or ")));
        }
    }
    findings
}

/// Promised lints that a whole crate switches off.
fn allowed(shown: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for block in text.split("#![allow(").skip(1) {
        let names = block.split(")]").next().unwrap_or_default();
        for lint in NEVER_ALLOWED.iter().filter(|lint| names.contains(*lint)) {
            findings.push(format!("{shown}: {lint} must not be allowed in a whole crate"));
        }
    }
    findings
}

/// The oldest Rust that the manifest names is the one that everything is built with.
fn toolchain(root: &Path, workspace: &Table) -> Result<Option<String>> {
    let file = read(&root.join("rust-toolchain.toml"))?;
    let channel = file.get("toolchain").and_then(|t| t.get("channel")?.as_str());
    let oldest = workspace.get("package").and_then(|p| p.get("rust-version")?.as_str());
    let (channel, oldest) = channel.zip(oldest).context("no channel or no rust-version")?;
    let same =
        channel == oldest || channel.strip_prefix(oldest).is_some_and(|r| r.starts_with('.'));
    Ok((!same).then(|| {
        format!("Cargo.toml: rust-version is {oldest}, but rust-toolchain.toml has {channel}")
    }))
}

#[cfg(test)]
mod tests {
    use super::{REQUIRED_OF_SYS, allowed, required};

    #[test]
    fn a_lint_that_is_off_is_found() {
        let table = "[rust]\nmissing_docs = \"warn\"\nunsafe_op_in_unsafe_fn = \"warn\"\n\
             [clippy]\nundocumented_unsafe_blocks = \"deny\"\nunwrap_used = \"allow\"\n\
             expect_used = { level = \"deny\", priority = 1 }\n";
        let lints: toml::Value = toml::from_str(table).unwrap();
        let found = required("x", Some(&lints), &REQUIRED_OF_SYS);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("unsafe_op_in_unsafe_fn") && found[2].contains("clippy::panic"));
    }

    #[test]
    fn a_lint_that_a_crate_switches_off_is_found() {
        assert_eq!(allowed("x", "//! x\n#![allow(dead_code, missing_docs)]\nfn a() {}\n").len(), 1);
        assert!(allowed("x", "//! x\n#[allow(missing_docs)]\nfn a() {}\n").is_empty());
    }
}
