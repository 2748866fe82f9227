//! Reads exports files. A directory stands for its files `*.exports`, as exportfs reads `/etc/exports.d`.

use anyhow::{Context, bail};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Largest exports file, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most files of a directory.
const FILES_MAX: usize = 4096;
/// The end of the file names that are read in a directory.
const ENDING: &[u8] = b".exports";

/// The content of a file.
#[derive(Debug)]
pub struct ExportsFile {
    /// Its path, for messages.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The files, in order.
#[derive(Debug, Default)]
pub struct ExportsFiles {
    /// The files.
    pub files: Vec<ExportsFile>,
    /// Notes about possible mistakes.
    pub notes: Vec<String>,
}

/// Reads the named files, and those in the named directories.
///
/// # Errors
/// One of them cannot be read.
pub fn read_all(named: &[PathBuf]) -> anyhow::Result<ExportsFiles> {
    let mut found = ExportsFiles::default();
    for path in named {
        if path.is_dir() {
            let files = files_of(path)?;
            if files.is_empty() {
                let text = "has no file whose name ends in .exports";
                found.notes.push(format!("{} {text}", path.display()));
            }
            for path in files {
                found.files.push(ExportsFile { bytes: read(&path)?, path });
            }
        } else {
            found.files.push(ExportsFile { path: path.clone(), bytes: read(path)? });
            found.notes.extend(unread_directory_note(path, named));
        }
    }
    Ok(found)
}

/// Reads one file.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let named = || format!("cannot read {}", path.display());
    let length = std::fs::metadata(path).with_context(named)?.len();
    if length > FILE_BYTES_MAX {
        bail!("{}: an exports file has at most 64 MiB", path.display());
    }
    std::fs::read(path).with_context(named)
}

/// The exports files of a directory, sorted by name.
fn files_of(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let named = || format!("cannot read {}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(named)? {
        let entry = entry.with_context(named)?;
        let name = entry.file_name();
        let counts = name.as_bytes().ends_with(ENDING) && !name.as_bytes().starts_with(b".");
        // a dangling symbolic link is an error when it is read
        if counts && !entry.path().is_dir() {
            files.push(entry.path());
        }
        if files.len() > FILES_MAX {
            bail!("{}: more than {FILES_MAX} files *.exports", dir.display());
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// A note if exportfs would also read the directory `FILE.d`, and it is not named.
fn unread_directory_note(file: &Path, named: &[PathBuf]) -> Option<String> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".d");
    let beside = PathBuf::from(beside).canonicalize().ok()?;
    let is_named =
        named.iter().filter_map(|path| path.canonicalize().ok()).any(|path| path == beside);
    let files = if is_named { Vec::new() } else { files_of(&beside).ok()? };
    let first = files.first()?.file_name()?.to_string_lossy().into_owned();
    Some(format!(
        "{} is not read (it contains {first}): name it as well to export what its files list",
        beside.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::read_all;
    use std::fs::write;

    #[test]
    fn a_directory_is_its_exports_files_sorted_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.exports", "a.exports", ".c.exports", "d.exports~", ".exports", "exports"] {
            write(dir.path().join(name), name).unwrap();
        }
        std::fs::create_dir(dir.path().join("e.exports")).unwrap();
        std::os::unix::fs::symlink("a.exports", dir.path().join("f.exports")).unwrap();
        let found = read_all(&[dir.path().into()]).unwrap();
        let texts: Vec<_> = found.files.iter().map(|file| file.bytes.as_slice()).collect();
        assert_eq!(texts, [&b"a.exports"[..], b"b.exports", b"a.exports"]);
        assert!(found.notes.is_empty());
        std::os::unix::fs::symlink("none", dir.path().join("g.exports")).unwrap();
        let error = format!("{:#}", read_all(&[dir.path().into()]).unwrap_err());
        assert!(error.contains("g.exports: No such file"), "{error}");
    }

    #[test]
    fn possible_mistakes_are_noted() {
        let dir = tempfile::tempdir().unwrap();
        let (file, beside) = (dir.path().join("exports"), dir.path().join("exports.d"));
        write(&file, "").unwrap();
        std::fs::create_dir(&beside).unwrap();
        let notes = |named: &[_]| read_all(named).unwrap().notes.join("\n");
        assert_eq!(notes(std::slice::from_ref(&file)), "");
        assert!(notes(std::slice::from_ref(&beside)).contains("has no file"));
        write(beside.join("a.exports"), "").unwrap();
        assert!(
            notes(std::slice::from_ref(&file))
                .contains("exports.d is not read (it contains a.exports)")
        );
        assert_eq!(notes(&[file, beside]), "");
    }
}
