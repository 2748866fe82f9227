//! House rules that a machine can check: `cargo xtask layers | tidy | links | cycles [CRATE] | all`.
//!
//! Each rule prints what breaks it as `file:line: what and what to do`; any finding fails the run.

mod cycles;
mod layers;
mod links;
mod tidy;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let rule = std::env::args().nth(1).unwrap_or_else(|| "all".into());
    let root = root();
    let findings = match rule.as_str() {
        "layers" => layers::check(&root)?,
        "tidy" => tidy::check(&root)?,
        "cycles" => match std::env::args().nth(2) {
            Some(name) => return cycles::print(&root, &name),
            None => cycles::check(&root)?,
        },
        "links" => links::check(&root)?,
        "all" => [layers::check(&root)?, tidy::check(&root)?, links::check(&root)?].concat(),
        other => bail!("no rule is called {other}: layers, tidy, links, cycles or all"),
    };
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        println!("xtask {rule}: {} findings", findings.len());
        std::process::exit(1);
    }
    println!("xtask {rule}: in order");
    Ok(())
}

/// The workspace's folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// All files below `dir` whose names end in `.ending`, without build output.
fn files(dir: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            if path.is_dir() && !matches!(name, "target" | ".git" | "corpus" | "artifacts") {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
