//! The allowed arrows between crates: `docs/layers.toml` against the manifests.

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
struct Table {
    /// Crate → the crates of ours that it may use.
    crates: BTreeMap<String, Vec<String>>,
    /// Foreign crate → the only crates of ours that may use it.
    confined: BTreeMap<String, Vec<String>>,
}

/// Findings: arrows that the table does not allow, crates that it does not know, stale rows.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("docs/layers.toml"))?;
    let table: Table = toml::from_str(&text).context("docs/layers.toml")?;
    let metadata =
        MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec()?;
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for package in &metadata.packages {
        let name = short(package.name.as_str());
        seen.push(name.to_owned());
        let Some(allowed) = table.crates.get(name) else {
            findings.push(format!("docs/layers.toml: the crate {name} has no row"));
            continue;
        };
        for dependency in &package.dependencies {
            if dependency.kind == DependencyKind::Development {
                continue;
            }
            let target = short(&dependency.name);
            if dependency.path.is_some() {
                if !allowed.iter().any(|a| a == target) {
                    findings.push(format!("crates/{name}/Cargo.toml: must not use {target}"));
                }
            } else if let Some(only) = table.confined.get(target)
                && !only.iter().any(|o| o == name)
            {
                findings.push(format!("crates/{name}/Cargo.toml: {target} is only for {only:?}"));
            }
        }
    }
    for row in table.crates.keys().filter(|row| !seen.contains(row)) {
        findings.push(format!("docs/layers.toml: there is no crate {row}"));
    }
    Ok(findings)
}

fn short(package: &str) -> &str {
    package.strip_prefix("bowline-").unwrap_or(package)
}
