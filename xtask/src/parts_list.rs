//! The list of the program's parts (SBOM) in the format CycloneDX 1.5: `cargo xtask sbom`.
//!
//! Made from what cargo resolves for the program and from the checksums in Cargo.lock; it holds no time and no path, so that
//! the same commit gives the same list.

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Node, Package, PackageId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The package whose parts are listed.
const PROGRAM: &str = "bowline";

/// The list as JSON.
pub fn list(root: &Path) -> Result<String> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .other_options(
            ["--locked", "--filter-platform", super::dependencies::PLATFORM].map(String::from),
        )
        .exec()?;
    let lock: toml::Table = toml::from_str(&std::fs::read_to_string(root.join("Cargo.lock"))?)?;
    let checksums = checksums(&lock);
    let nodes = metadata.resolve.as_ref().context("cargo has resolved nothing")?;
    let nodes: BTreeMap<_, _> = nodes.nodes.iter().map(|node| (&node.id, node)).collect();
    let program = metadata.packages.iter().find(|package| package.name.as_str() == PROGRAM);
    let program = program.context("the workspace has no program")?;
    let reached = reached(&nodes, &program.id);
    let mut parts: Vec<&Package> =
        metadata.packages.iter().filter(|package| reached.contains(&package.id)).collect();
    parts.sort_by_key(|package| (package.name.to_string(), package.version.clone()));
    let others = parts.iter().filter(|package| package.id != program.id);
    let components: Vec<Value> = others.map(|package| component(package, &checksums)).collect();
    let edges: Vec<Value> =
        parts.iter().filter_map(|package| edges(package, &nodes, &metadata)).collect();
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(program, &checksums) },
        "components": components,
        "dependencies": edges,
    });
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// What each foreign package's archive hashes to, by name and version.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key: &str| package.get(key)?.as_str().map(str::to_owned);
    let row = |package| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    };
    packages.into_iter().flatten().filter_map(row).collect()
}

/// What a package is built from: itself, and all but what only tests use.
fn reached<'m>(
    nodes: &BTreeMap<&'m PackageId, &'m Node>,
    from: &'m PackageId,
) -> BTreeSet<&'m PackageId> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(id) = next.pop() {
        if reached.insert(id)
            && let Some(node) = nodes.get(id)
        {
            next.extend(used(node));
        }
    }
    reached
}

fn used(node: &Node) -> impl Iterator<Item = &PackageId> {
    let built = |dep: &&cargo_metadata::NodeDep| {
        dep.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development)
    };
    node.deps.iter().filter(built).map(|dep| &dep.pkg)
}

fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Package, checksums: &BTreeMap<(String, String), String>) -> Value {
    let kind = if package.name.as_str() == PROGRAM { "application" } else { "library" };
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name.to_string(),
        "version": package.version.to_string(),
    });
    let Some(fields) = component.as_object_mut() else { return component };
    if package.source.is_some() {
        fields.insert("purl".to_owned(), json!(reference(package)));
    }
    if let Some(license) = &package.license {
        // old manifests separate alternatives by a slash
        let expression = license.replace('/', " OR ");
        fields.insert("licenses".to_owned(), json!([{ "expression": expression }]));
    }
    if let Some(sum) = checksums.get(&(package.name.to_string(), package.version.to_string())) {
        fields.insert("hashes".to_owned(), json!([{ "alg": "SHA-256", "content": sum }]));
    }
    component
}

fn edges(
    package: &Package,
    nodes: &BTreeMap<&PackageId, &Node>,
    metadata: &Metadata,
) -> Option<Value> {
    let node = nodes.get(&package.id)?;
    let on: BTreeSet<String> = used(node).map(|id| reference(&metadata[id])).collect();
    Some(json!({ "ref": reference(package), "dependsOn": on }))
}
