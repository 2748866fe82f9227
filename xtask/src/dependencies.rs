//! Foreign crates: each has its row in docs/dependencies.md, each is used, and the licence and the
//! source of everything that is built are allowed (`deny.toml`, which cargo-deny reads as well).

use anyhow::{Context, Result};
use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const TABLE: &str = "docs/dependencies.md";
/// What is built for another platform does not count.
pub const PLATFORM: &str = "x86_64-unknown-linux-gnu";

#[derive(Deserialize)]
struct Policy {
    licenses: Licenses,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// Findings about foreign crates.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(["--locked".to_owned(), "--filter-platform".to_owned(), PLATFORM.to_owned()])
        .exec()?;
    let rows = rows(&std::fs::read_to_string(root.join(TABLE))?);
    let mut findings = table(&rows, &used(&metadata, root)?);
    findings.extend(unused(&metadata)?);
    findings.extend(policy(&metadata, root)?);
    Ok(findings)
}

/// Foreign crates → the crates of ours that the row says use it; None where the table has no such
/// column, which is that of tests and measurements.
type Rows = BTreeMap<String, Option<BTreeSet<String>>>;
/// Foreign crates → the crates of ours that use it in the product, and whether only tests do.
type Used = BTreeMap<String, BTreeSet<String>>;

/// The rows of the tables.
fn rows(text: &str) -> Rows {
    let mut rows = Rows::new();
    let words = |cell: &str| -> Vec<String> {
        let words = cell.split(',').map(|word| word.trim().to_owned());
        words.filter(|word| !word.is_empty()).collect()
    };
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let (names, users) = match cells.as_slice() {
            [names, users, _] => (words(names), Some(words(users).into_iter().collect())),
            [names, _] => (words(names), None),
            _ => continue,
        };
        for name in names.into_iter().filter(|name| name != "crate" && name != "---") {
            rows.insert(name, users.clone());
        }
    }
    rows
}

/// The foreign crates that ours name in their manifests. Of those that only tests use, no users.
fn used(metadata: &Metadata, root: &Path) -> Result<Used> {
    let mut used = Used::new();
    for package in metadata.workspace_packages() {
        for dependency in package.dependencies.iter().filter(|found| found.path.is_none()) {
            let users = used.entry(dependency.name.clone()).or_default();
            if dependency.kind != DependencyKind::Development {
                users.insert(short(package.name.as_str()).to_owned());
            }
        }
    }
    let fuzz: toml::Table =
        toml::from_str(&std::fs::read_to_string(root.join("fuzz/Cargo.toml"))?)?;
    for (name, value) in fuzz.get("dependencies").and_then(|d| d.as_table()).into_iter().flatten() {
        if value.get("path").is_none() {
            used.entry(name.clone()).or_default();
        }
    }
    Ok(used)
}

fn short(package: &str) -> &str {
    package.strip_prefix("bowline-").unwrap_or(package)
}

/// Where the table and the manifests differ.
fn table(rows: &Rows, used: &Used) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, users) in used {
        match rows.get(name) {
            None => findings.push(format!("{TABLE}: no row for {name}")),
            Some(Some(told)) if told != users => {
                findings.push(format!("{TABLE}: {name} is used by {}", list(users)));
            }
            Some(None) if !users.is_empty() => {
                findings.push(format!("{TABLE}: {name} is not only for tests: {}", list(users)));
            }
            Some(_) => {}
        }
    }
    for name in rows.keys().filter(|name| !used.contains_key(*name)) {
        findings.push(format!("{TABLE}: nothing uses {name}: remove its row"));
    }
    findings
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Dependencies that no file of their crate names.
fn unused(metadata: &Metadata) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for package in metadata.workspace_packages() {
        let dir = package.manifest_path.parent().context("a manifest without a folder")?;
        let product = words_below(dir.join("src").as_std_path())?;
        let mut all = product.clone();
        for folder in ["tests", "benches"] {
            all.extend(words_below(dir.join(folder).as_std_path())?);
        }
        for dependency in &package.dependencies {
            let is_test = dependency.kind == DependencyKind::Development;
            let seen = if is_test { &all } else { &product };
            if !seen.contains(&name_in_code(dependency, package)) {
                findings.push(format!(
                    "{}: {} is not used",
                    package.manifest_path.strip_prefix(&metadata.workspace_root)?,
                    dependency.name
                ));
            }
        }
    }
    Ok(findings)
}

/// The name by which the code knows a dependency.
fn name_in_code(dependency: &Dependency, package: &Package) -> String {
    let name = dependency.rename.as_deref().unwrap_or(&dependency.name);
    // a package of ours under its full name is known by that of its library
    let name =
        if name == "bowline-bench" && package.name.as_str() != name { "bench" } else { name };
    name.replace('-', "_")
}

/// All words of the Rust files below a folder, which need not exist.
fn words_below(dir: &Path) -> Result<BTreeSet<String>> {
    let mut words = BTreeSet::new();
    if !dir.exists() {
        return Ok(words);
    }
    for file in crate::source_files::files(dir, "rs")? {
        let text = std::fs::read_to_string(file)?;
        let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
        for line in code {
            let found = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.extend(found.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    Ok(words)
}

/// Packages whose licence or source is not allowed.
fn policy(metadata: &Metadata, root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("deny.toml"))?;
    let policy: Policy = toml::from_str(&text).context("deny.toml")?;
    let allowed = |license: &str| policy.licenses.allow.iter().any(|name| name == license);
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let license = package.license.as_deref().unwrap_or("none");
        if !permits(license, &allowed) {
            findings.push(format!("deny.toml: the licence of {} is {license}", package.name));
        }
        let Some(source) = &package.source else { continue };
        let registries = &policy.sources.allow_registry;
        if !registries.iter().any(|url| source.repr.strip_prefix("registry+") == Some(url)) {
            findings.push(format!("deny.toml: {} comes from {source}", package.name));
        }
    }
    Ok(findings)
}

/// Whether a licence expression (SPDX, and `/` as crates used to write OR) can be met with what is
/// allowed.
fn permits(expression: &str, allowed: &impl Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (met, rest) = either(&words, allowed);
    met && rest.is_empty()
}

fn either<'a>(words: &'a [&'a str], allowed: &impl Fn(&str) -> bool) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = both(words, allowed);
    while let Some((_, after)) = rest.split_first().filter(|(w, _)| w.eq_ignore_ascii_case("or")) {
        let (other, left) = both(after, allowed);
        (met, rest) = (met || other, left);
    }
    (met, rest)
}

fn both<'a>(words: &'a [&'a str], allowed: &impl Fn(&str) -> bool) -> (bool, &'a [&'a str]) {
    let (mut met, mut rest) = one(words, allowed);
    while let Some((_, after)) = rest.split_first().filter(|(w, _)| w.eq_ignore_ascii_case("and")) {
        let (other, left) = one(after, allowed);
        (met, rest) = (met && other, left);
    }
    (met, rest)
}

fn one<'a>(words: &'a [&'a str], allowed: &impl Fn(&str) -> bool) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => match either(inner, allowed) {
            (met, [")", rest @ ..]) => (met, rest),
            (_, rest) => (false, rest),
        },
        [license, "WITH", exception, rest @ ..] => {
            (allowed(&format!("{license} WITH {exception}")), rest)
        }
        [license, rest @ ..] => (allowed(license), rest),
        [] => (false, words),
    }
}

#[cfg(test)]
mod tests {
    use super::{Used, permits, rows, table};
    use std::collections::BTreeSet;

    #[test]
    fn licence_expressions_are_read_as_spdx_has_them() {
        let allowed = |license: &str| ["MIT", "Unicode-3.0"].contains(&license);
        for good in
            ["MIT", "Apache-2.0 OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-2.0) AND Unicode-3.0"]
        {
            assert!(permits(good, &allowed), "{good}");
        }
        for bad in ["", "none", "GPL-2.0", "MIT AND GPL-2.0", "MIT WITH x", "(MIT", "MIT MIT"] {
            assert!(!permits(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn the_dependency_table_matches_the_manifests() {
        let text = "| crate | used by | why |\n| --- | --- | --- |\n| a, b | x, y | z |\n\n\
             | crate | why |\n| --- | --- |\n| c | z |\n";
        let users = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        let used = |a: &[&str], c: &[&str]| {
            Used::from([
                ("a".into(), users(a)),
                ("b".into(), users(&["x", "y"])),
                ("c".into(), users(c)),
            ])
        };
        assert_eq!(table(&rows(text), &used(&["x", "y"], &[])), Vec::<String>::new());
        assert!(table(&rows(text), &used(&["x"], &[]))[0].contains("a is used by x"));
        assert!(table(&rows(text), &used(&["x", "y"], &["x"]))[0].contains("not only for tests"));
        let mut more = used(&["x", "y"], &[]);
        more.insert("d".into(), users(&[]));
        more.remove("b");
        let found = table(&rows(text), &more);
        assert!(
            found[0].contains("no row for d") && found[1].contains("nothing uses b"),
            "{found:?}"
        );
    }
}
