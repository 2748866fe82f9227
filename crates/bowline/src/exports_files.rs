//! The exports files that are named: a file is itself, a directory is its files `*.exports`, as
//! exportfs reads `/etc/exports.d`.

use anyhow::{Context, bail};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Largest exports file, in bytes; a larger one is some other file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most files of a directory; one with more was not meant.
const FILES_MAX: usize = 4096;
/// How the name of a file ends that a directory is read for.
const ENDING: &[u8] = b".exports";

/// A file that was read.
#[derive(Debug)]
pub struct ExportsFile {
    /// Its path, for remarks.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// All that was named, in order.
#[derive(Debug, Default)]
pub struct ExportsFiles {
    /// The files.
    pub files: Vec<ExportsFile>,
    /// What may have been meant otherwise.
    pub notes: Vec<String>,
}

/// Reads all files that are named, or that are in directories that are named.
///
/// # Errors
/// One that cannot be read; then none counts.
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

/// The bytes of one file.
///
/// # Errors
/// That it cannot be read.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let named = || format!("cannot read {}", path.display());
    let length = std::fs::metadata(path).with_context(named)?.len();
    if length > FILE_BYTES_MAX {
        bail!("{}: is larger than any exports file", path.display());
    }
    std::fs::read(path).with_context(named)
}

/// The files of a directory that count, in the order of their names' bytes.
fn files_of(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let named = || format!("cannot read {}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(named)? {
        let entry = entry.with_context(named)?;
        let name = entry.file_name();
        let counts = name.as_bytes().ends_with(ENDING) && !name.as_bytes().starts_with(b".");
        // what is neither file nor directory, as a link to nothing, is to be told when it is read
        if counts && !entry.path().is_dir() {
            files.push(entry.path());
        }
        if files.len() > FILES_MAX {
            bail!("{}: has more than {FILES_MAX} files *.exports", dir.display());
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// What to say of files that exportfs would read beside `file`, and that nobody named.
fn unread_directory_note(file: &Path, named: &[PathBuf]) -> Option<String> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".d");
    let beside = PathBuf::from(beside).canonicalize().ok()?;
    let is_named =
        named.iter().filter_map(|path| path.canonicalize().ok()).any(|path| path == beside);
    let files = if is_named { Vec::new() } else { files_of(&beside).ok()? };
    let first = files.first()?.file_name()?.to_string_lossy().into_owned();
    Some(format!(
        "{} is not read, {first} in it for example: name it as well, or nothing in it is exported",
        beside.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::read_all;
    use std::fs::write;

    #[test]
    fn a_directory_is_its_exports_files_in_order_of_name() {
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
        let told = format!("{:#}", read_all(&[dir.path().into()]).unwrap_err());
        assert!(told.contains("g.exports: No such file"), "{told}");
    }

    #[test]
    fn what_may_have_been_meant_is_pointed_out() {
        let dir = tempfile::tempdir().unwrap();
        let (file, beside) = (dir.path().join("exports"), dir.path().join("exports.d"));
        write(&file, "").unwrap();
        std::fs::create_dir(&beside).unwrap();
        let notes = |named: &[_]| read_all(named).unwrap().notes.join("\n");
        assert_eq!(notes(std::slice::from_ref(&file)), "");
        assert!(notes(std::slice::from_ref(&beside)).contains("has no file"));
        write(beside.join("a.exports"), "").unwrap();
        assert!(notes(std::slice::from_ref(&file)).contains("exports.d is not read, a.exports"));
        assert_eq!(notes(&[file, beside]), "");
    }
}
