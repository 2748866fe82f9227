//! Reads a directory of results or one compact file; errors name the file and the line.

use super::error::{FILE_BYTES_MAX, ReportError};
use crate::result::{Findings, Machine};
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;

/// What a directory holds.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) machine: Machine,
    /// In the order in which they ran; never empty.
    pub(super) findings: Vec<Findings>,
}

/// Reads a directory of results, or a compact file.
pub(super) fn results(dir: &Path) -> Result<Results, ReportError> {
    if dir.is_file() {
        return parsed(dir, "a compact file of results", super::compact::parse);
    }
    let mut paths = Vec::new();
    let failed = |source| ReportError::Read { path: dir.to_path_buf(), source };
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|e| e == "json") && !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    let machine_path = dir.join("machine.json");
    let known = paths.len();
    paths.retain(|path| *path != machine_path);
    if paths.is_empty() {
        return Err(ReportError::Empty { dir: dir.to_path_buf() });
    }
    if paths.len() == known {
        return Err(ReportError::NoMachine { path: machine_path });
    }
    let machine: Machine = parsed(&machine_path, "the description of a machine", from_json)?;
    let mut findings = Vec::new();
    for path in paths {
        findings.push(parsed::<Findings>(&path, "the result of an experiment", from_json)?);
    }
    findings.sort_by(|a, b| (&a.started, &a.name).cmp(&(&b.started, &b.name)));
    Ok(Results { machine, findings })
}

fn from_json<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
}

/// Reads one file.
fn parsed<T>(
    path: &Path,
    what: &str,
    parse: impl FnOnce(&[u8]) -> serde_json::Result<T>,
) -> Result<T, ReportError> {
    let failed = |source: io::Error| ReportError::Read { path: path.to_path_buf(), source };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(ReportError::Large { path: path.to_path_buf(), bytes });
    }
    let text = std::fs::read(path).map_err(failed)?;
    parse(&text).map_err(|error| {
        let position = format!(" at line {} column {}", error.line(), error.column());
        let why = error.to_string();
        let why = why.strip_suffix(&position).unwrap_or(&why);
        ReportError::Content {
            path: path.to_path_buf(),
            line: error.line().max(1),
            why: format!("this is not {what}: {why}"),
        }
    })
}
