//! The reports of `bowline bench` that the web page shows: those in the directory of `--reports`.
//!
//! A report is a directory of results, which has a `machine.json`, or a compact file, which begins with the machine; it is
//! named by its own name. A directory of results is a directory of one report as well. Nothing is opened that is not in
//! the list, and of what is no file nothing.

use admin::Refused;
use admin::api::ReportRow;
use bench::report::{Style, html};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most reports that are listed.
const LISTED_MAX: usize = 200;
/// Most entries of the directory that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// Most bytes of the results of one that are read.
const BYTES_MAX: u64 = 32 << 20;
/// How a compact file begins.
const COMPACT: &[u8] = b"{\"machine\":{";

/// The reports, the latest first.
pub fn list(dir: &Path) -> Vec<ReportRow> {
    let now = SystemTime::now();
    let mut rows: Vec<ReportRow> = paths(dir).iter().filter_map(|path| row(path, now)).collect();
    rows.sort_by(|a, b| a.age_s.cmp(&b.age_s).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(LISTED_MAX);
    rows
}

/// The page of a report.
///
/// # Errors
/// There is none of this name, or it cannot be read.
pub fn page(dir: &Path, name: &str) -> Result<String, Refused> {
    let paths = paths(dir);
    let found = paths.iter().find(|path| name_of(path) == Some(name) && size(path).is_some());
    let path = found.ok_or_else(|| Refused(format!("{name}: no such report")))?;
    if size(path).is_none_or(|bytes| bytes > BYTES_MAX) {
        return Err(Refused(format!("{name}: its results have more than {} MiB", BYTES_MAX >> 20)));
    }
    let style = Style::Linked { stylesheet: "/report.css", icon: "/icon.svg", back: "/#reports" };
    html(path, style).map_err(|error| Refused(error.to_string()))
}

/// What may be a report.
fn paths(dir: &Path) -> Vec<PathBuf> {
    if dir.join("machine.json").is_file() {
        return vec![fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf())];
    }
    let entries = fs::read_dir(dir).into_iter().flatten().take(ENTRIES_MAX);
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str().filter(|name| !name.starts_with('.'))
}

fn row(path: &Path, now: SystemTime) -> Option<ReportRow> {
    let bytes = size(path)?;
    let written = fs::metadata(path).and_then(|meta| meta.modified()).ok()?;
    let age_s = now.duration_since(written).map_or(0, |age| age.as_secs());
    Some(ReportRow { name: name_of(path)?.to_owned(), age_s, bytes })
}

/// The bytes of a report's results; none if it is no report.
fn size(path: &Path) -> Option<u64> {
    if path.is_dir() {
        path.join("machine.json").is_file().then_some(())?;
        let entries = fs::read_dir(path).ok()?.take(ENTRIES_MAX).filter_map(Result::ok);
        let results = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "json"));
        // what is no file, such as a pipe, would keep the reader waiting
        let sizes = results.map(|entry| {
            let meta = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file)?;
            Some(meta.len())
        });
        return sizes.sum();
    }
    let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut head = [0; COMPACT.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
    (head == COMPACT).then_some(meta.len())
}

#[cfg(test)]
mod tests {
    use super::{list, page};
    use std::fs;
    use std::path::Path;

    const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench/2026-11-21.json");

    fn names(dir: &Path) -> Vec<String> {
        list(dir).into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn reports_are_listed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("notes.json"), "{}").unwrap();
        fs::write(dir.path().join(".hidden.json"), "{\"machine\":{").unwrap();
        fs::create_dir(dir.path().join("empty")).unwrap();
        assert!(names(dir.path()).is_empty());
        fs::copy(RUN, dir.path().join("run.json")).unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        fs::write(dir.path().join("run/machine.json"), "{}").unwrap();
        let mut found = names(dir.path());
        found.sort();
        assert_eq!(found, ["run", "run.json"]);
        let results = dir.path().join("run");
        assert_eq!(names(&results), ["run"], "a directory of results is one report");
        assert!(names(Path::new("/no/such/directory")).is_empty());
    }

    #[test]
    fn a_page_has_no_style_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        fs::copy(RUN, dir.path().join("run.json")).unwrap();
        let html = page(dir.path(), "run.json").unwrap();
        assert!(html.contains("<link rel=\"stylesheet\" href=\"/report.css\">"));
        assert!(html.contains("href=\"/#reports\""));
        for inline in ["<style", " style=", "<script", "http-equiv"] {
            assert!(!html.contains(inline), "{inline}");
        }
        fs::write(dir.path().join("bad.json"), "{\"machine\":{").unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        for wrong in ["bad.json", "secret", "../secret", "", ".", "..", "run.json/../secret"] {
            assert!(page(dir.path(), wrong).is_err(), "{wrong}");
        }
    }
}
