//! Import cycles between the files of a crate: none may be larger than [`CYCLE_FILES_MAX`] files.
//!
//! `modules` reads the files and knows which name of which module is defined where, `graph` finds
//! the cycles. A file uses another if it names an item that is defined there; re-exports are
//! followed to the definition and are no use themselves. Tests (`#[cfg(test)]`) do not count. A call
//! of a method is seen only if its type or trait is named.

mod graph;
mod modules;

use anyhow::Result;
use graph::Graph;
use std::path::{Path, PathBuf};

/// Files of the largest cycle that is allowed.
const CYCLE_FILES_MAX: usize = 3;
/// Uses that are proposed for removal.
const PROPOSALS_MAX: usize = 8;

/// Findings: cycles of more files than allowed.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut names = vec!["xtask".to_owned()];
    for entry in std::fs::read_dir(root.join("crates"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut findings = Vec::new();
    for name in names {
        let graph = modules::graph(&src(root, &name))?;
        for cycle in graph.cycles().into_iter().filter(|cycle| cycle.len() > CYCLE_FILES_MAX) {
            let files = cycle.iter().map(|file| graph.names[*file].as_str()).collect::<Vec<_>>();
            findings.push(format!(
                "{name}: {} files import one another in a cycle, {CYCLE_FILES_MAX} are the limit \
                 (`cargo xtask cycles {name}` shows where): {}",
                files.len(),
                files.join(" ")
            ));
        }
    }
    Ok(findings)
}

/// The source folder of a crate.
fn src(root: &Path, name: &str) -> PathBuf {
    let folder = if name == "xtask" { root.join(name) } else { root.join("crates").join(name) };
    folder.join("src")
}

/// Prints all cycles of one crate, however small, each use in them, and which uses hold most of the
/// cycle together.
pub fn print(root: &Path, name: &str) -> Result<()> {
    let graph = modules::graph(&src(root, name))?;
    let cycles = graph.cycles();
    for cycle in &cycles {
        let files = cycle.iter().map(|file| graph.names[*file].as_str()).collect::<Vec<_>>();
        println!("\n{} files: {}", files.len(), files.join(" "));
        for (from, to) in graph.uses_within(cycle) {
            println!("  {}", shown(&graph, from, to));
        }
        let proposals = graph.by_remaining_cycle(cycle);
        if proposals.first().is_some_and(|(left, ..)| *left < cycle.len()) {
            println!("  without one of these, so many files remain in the largest cycle:");
        }
        for (left, from, to) in proposals.into_iter().take(PROPOSALS_MAX) {
            if left < cycle.len() {
                println!("    {left:3}  {} -> {}", graph.names[from], graph.names[to]);
            }
        }
    }
    println!("{name}: {} files, {} cycles", graph.names.len(), cycles.len());
    Ok(())
}

/// One use with the names and lines that make it.
fn shown(graph: &Graph, from: usize, to: usize) -> String {
    let mut names = Vec::new();
    for (name, line) in &graph.uses[&(from, to)] {
        names.push(format!("{name}:{line}"));
    }
    format!("{} -> {}: {}", graph.names[from], graph.names[to], names.join(" "))
}
