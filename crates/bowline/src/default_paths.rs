//! Default paths: in the system's directories for root, in the user's own for an ordinary user.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The user id of this process.
pub fn own_uid() -> u32 {
    sys::identity::own().map_or(u32::MAX, |own| own.uid)
}

/// The default path of the control socket.
pub fn control_socket() -> PathBuf {
    control_socket_of(own_uid(), variable("XDG_RUNTIME_DIR"))
}

/// The default state directory.
pub fn state_dir() -> PathBuf {
    let uid = own_uid();
    // HOME can be another user's: setpriv and containers do not change it
    let home = variable("HOME").filter(|home| belongs_to(home, uid));
    state_dir_of(uid, variable("XDG_STATE_HOME"), home)
}

/// Whether a file exists and belongs to a user.
pub fn belongs_to(path: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == uid)
}

/// An absolute path in an environment variable.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn control_socket_of(uid: u32, runtime: Option<PathBuf>) -> PathBuf {
    match (uid, runtime) {
        (0, _) => "/run/bowline/control.sock".into(),
        (_, Some(dir)) => dir.join("bowline.sock"),
        (uid, None) => format!("/tmp/bowline-{uid}/control.sock").into(),
    }
}

fn state_dir_of(uid: u32, state_home: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    match (uid, state_home, home) {
        (0, _, _) => "/var/lib/bowline".into(),
        (_, Some(dir), _) => dir.join("bowline"),
        (_, None, Some(home)) => home.join(".local/state/bowline"),
        (uid, None, None) => format!("/var/tmp/bowline-{uid}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{belongs_to, control_socket_of, own_uid, state_dir_of};
    use std::path::Path;

    #[test]
    fn a_home_of_another_user_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        assert!(belongs_to(dir.path(), own_uid()));
        assert!(!belongs_to(dir.path(), own_uid() ^ 1));
        assert!(!belongs_to(&dir.path().join("none"), own_uid()));
    }

    #[test]
    fn root_uses_the_system_directories() {
        assert_eq!(control_socket_of(0, Some("/x".into())), Path::new("/run/bowline/control.sock"));
        assert_eq!(state_dir_of(0, Some("/x".into()), None), Path::new("/var/lib/bowline"));
    }

    #[test]
    fn an_ordinary_user_uses_its_own_directories() {
        let runtime = Some("/run/user/7".into());
        assert_eq!(control_socket_of(7, runtime), Path::new("/run/user/7/bowline.sock"));
        assert_eq!(control_socket_of(7, None), Path::new("/tmp/bowline-7/control.sock"));
        let home = Some("/home/u".into());
        assert_eq!(state_dir_of(7, None, home), Path::new("/home/u/.local/state/bowline"));
        assert_eq!(state_dir_of(7, Some("/s".into()), None), Path::new("/s/bowline"));
    }
}
