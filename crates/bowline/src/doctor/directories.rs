//! What `doctor` asks of exports files and of the directories that they name.

use super::finding::{Finding, within};
use crate::export_specs;
use crate::exports_files::{self, ExportsFile};
use export::exports_file::parse_onto;
use export::{ExportSpec, Source};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

const ABOUT_FILES: &str = "exports files";
const ABOUT_DIRECTORY: &str = "directory";

/// Of these files and all directories in them.
pub fn findings(files: &[PathBuf]) -> Vec<Finding> {
    if files.is_empty() {
        return vec![Finding::ok(ABOUT_FILES, "none: name directories, or write /etc/exports")];
    }
    let found = match exports_files::read_all(files) {
        Ok(found) => found.files,
        Err(error) => {
            let text = format!("{error:#}");
            return vec![Finding::problem(ABOUT_FILES, text, "name a file that can be read")];
        }
    };
    let (specs, errors) = parsed(found);
    let summary = match errors {
        0 => Finding::ok(ABOUT_FILES, format!("{} exports", specs.len())),
        n => Finding::problem(
            ABOUT_FILES,
            format!("{n} errors; {} exports without any", specs.len()),
            "`bowline check FILE` shows where",
        ),
    };
    let directories = specs.iter().filter_map(directory);
    std::iter::once(summary).chain(directories).collect()
}

/// The exports of all files, and how many errors there are.
fn parsed(files: Vec<ExportsFile>) -> (Vec<ExportSpec>, usize) {
    let (mut specs, mut errors) = (Vec::new(), 0);
    for ExportsFile { bytes, .. } in files {
        let parsed = parse_onto(specs, &bytes);
        errors += parsed.errors.len();
        specs = parsed.entries;
    }
    (specs, errors)
}

fn directory(spec: &ExportSpec) -> Option<Finding> {
    let Source::Directory(path) = &spec.source else { return None };
    let (path, spec) = (path.clone(), spec.clone());
    let name = path.display().to_string();
    let looked = within(move || look(&path, &spec));
    Some(looked.unwrap_or_else(|| {
        Finding::problem(
            ABOUT_DIRECTORY,
            format!("{name}: its file system does not answer"),
            "its server or its disk hangs: it is served as soon as it answers",
        )
    }))
}

fn look(path: &Path, spec: &ExportSpec) -> Finding {
    let name = path.display();
    if let Err(error) = export_specs::check_directory(spec) {
        return Finding::problem(ABOUT_DIRECTORY, format!("{error:#}"), "make or mount it");
    }
    let Ok(dir) = std::fs::File::open(path) else {
        let text = format!("{name} cannot be opened by this user");
        return Finding::problem(
            ABOUT_DIRECTORY,
            text,
            "run as a user who may, or change its mode",
        );
    };
    if vfs_local::is_overlay(dir.as_fd()) {
        return Finding::problem(
            ABOUT_DIRECTORY,
            format!("{name} is on overlayfs, where files change their identity"),
            "export a volume of the container instead",
        );
    }
    if vfs_local::lacks_journal(dir.as_fd()) {
        return Finding::note(
            ABOUT_DIRECTORY,
            format!("{name} is on ext4 without a journal: a power cut can lose new files"),
            "tune2fs -j adds one while it is not mounted",
        );
    }
    if sys::file_handle::of_fd(dir.as_fd()).is_err() {
        return Finding::note(
            ABOUT_DIRECTORY,
            format!("{name}: its file system has no handles; files are found by a table of names"),
            "nothing has to be done; keep the state directory, which has the table",
        );
    }
    Finding::ok(ABOUT_DIRECTORY, format!("{name}"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::findings;

    #[test]
    fn existing_and_missing_directories_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let (file, here) = (dir.path().join("exports"), dir.path().join("here"));
        std::fs::create_dir(&here).unwrap();
        let lines = format!("{} *(ro)\n/no/such/directory *(ro)\n/x *(fast)\n", here.display());
        std::fs::write(&file, lines).unwrap();
        let found = findings(&[file]);
        assert_eq!(found[0].level, Level::Problem, "{found:?}");
        assert!(found[0].text.contains("1 errors"), "{found:?}");
        assert!(found[1].text.contains("here") && found[1].level != Level::Problem, "{found:?}");
        assert!(found[2].text.contains("/no/such/directory"), "{found:?}");
        assert_eq!(found[2].level, Level::Problem);
        assert_eq!(findings(&[dir.path().join("none")])[0].level, Level::Problem);
    }
}
