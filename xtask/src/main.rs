//! Rules that a machine can check: `cargo xtask all`, or one of them by its name ([`RULES`]);
//! `cargo xtask cycles CRATE` prints the import cycles of a crate, `cargo xtask sbom` the program's parts, and
//! `cargo xtask kernel-bar` measures beside the kernel's server ([`kernel_bar`]).
//!
//! Each rule prints what breaks it as `file:line: what and what to do`; any finding fails the run.

mod cycles;
mod dependencies;
mod kernel_bar;
mod layers;
mod links;
mod lints;
mod names;
mod parts_list;
mod source_files;
mod tidy;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// A rule: its name, and what finds what breaks it.
type Rule = (&'static str, fn(&Path) -> Result<Vec<String>>);

/// All rules, in the order in which `all` holds them.
const RULES: [Rule; 7] = [
    ("layers", layers::check),
    ("tidy", tidy::check),
    ("links", links::check),
    ("dependencies", dependencies::check),
    ("lints", lints::check),
    ("names", names::check),
    ("cycles", cycles::check),
];

fn main() -> Result<()> {
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "all".into());
    let root = root();
    if wanted == "kernel-bar" {
        let args: Vec<String> = std::env::args().skip(2).collect();
        return kernel_bar::run(&root, &args);
    }
    if let ("cycles", Some(name)) = (wanted.as_str(), std::env::args().nth(2)) {
        return cycles::print(&root, &name);
    }
    if wanted == "sbom" {
        print!("{}", parts_list::list(&root)?);
        return Ok(());
    }
    let mut findings = Vec::new();
    let rules = RULES.iter();
    let rules: Vec<_> = rules.filter(|(name, _)| wanted == "all" || wanted == *name).collect();
    if rules.is_empty() {
        let names: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
        bail!("no rule is called {wanted}: {} or all", names.join(", "));
    }
    for (_, check) in rules {
        findings.extend(check(&root)?);
    }
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        println!("xtask {wanted}: {} findings", findings.len());
        std::process::exit(1);
    }
    println!("xtask {wanted}: no findings");
    Ok(())
}

/// The workspace's folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::{RULES, root};

    /// So that CI, which compiles this anyway, need not compile `cargo xtask all` as well.
    #[test]
    fn the_tree_follows_the_rules() {
        let findings = RULES.iter().flat_map(|(_, check)| check(&root()).unwrap());
        assert_eq!(findings.collect::<Vec<_>>(), Vec::<String>::new());
    }
}
