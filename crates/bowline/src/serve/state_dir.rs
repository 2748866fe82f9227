//! Making the state directory; `export::Identity` locks it for the life of the server.

use crate::default_paths::{belongs_to, own_uid};
use anyhow::{Context, bail};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// What to do about a state directory that cannot be.
const HINT: &str = "name another state directory with --state-dir";

/// Makes the directory with mode 0700 if it is not there.
///
/// # Errors
/// What is in the way, and what to do.
pub fn make(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => own(path),
        Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
            bail!("the state directory {shown} is not a directory: {HINT}")
        }
        Err(e) => Err(e).with_context(|| format!("cannot make {shown}; {HINT}")),
    }
}

/// An ordinary user's state must be the user's own: in a place like `/var/tmp` somebody else may
/// have made the directory first, to read the key that seals handles.
fn own(path: &Path) -> anyhow::Result<()> {
    let uid = own_uid();
    if uid != 0 && !belongs_to(path, uid) {
        bail!("the state directory {} belongs to somebody else: {HINT}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::make;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_private_and_may_be_there() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("deep/state");
        make(&path).unwrap();
        make(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(base.path().join("file"), "").unwrap();
        let told = make(&base.path().join("file")).unwrap_err().to_string();
        assert!(told.contains("not a directory") && told.contains("--state-dir"), "{told}");
    }
}
