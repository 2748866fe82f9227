//! Creates the state directory. `export::Identity` locks it while the server runs.

use crate::default_paths::{belongs_to, own_uid};
use anyhow::{Context, bail};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// What to do if it cannot be created.
const HINT: &str = "name another state directory with --state-dir";

/// Creates the directory with mode 0700 if it does not exist.
///
/// # Errors
/// Why it cannot be used, and what to do.
pub fn make(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => check_owner(path),
        Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
            bail!("the state directory {shown} is not a directory: {HINT}")
        }
        Err(e) => Err(e).with_context(|| format!("cannot make {shown}; {HINT}")),
    }
}

/// An ordinary user's state directory must belong to the user: in `/var/tmp`, another user may have created it
/// to read the key of file handles.
fn check_owner(path: &Path) -> anyhow::Result<()> {
    let uid = own_uid();
    if uid != 0 && !belongs_to(path, uid) {
        bail!("the state directory {} belongs to another user: {HINT}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::make;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_state_directory_is_private_and_may_already_exist() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("deep/state");
        make(&path).unwrap();
        make(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(base.path().join("file"), "").unwrap();
        let error = make(&base.path().join("file")).unwrap_err().to_string();
        assert!(error.contains("not a directory") && error.contains("--state-dir"), "{error}");
    }
}
