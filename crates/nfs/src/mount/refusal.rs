//! Why a mount was refused, for the log: the client gets a status only.

use crate::object::ClientRefused;
use proto::mount::MountError;
use std::fmt;
use std::net::SocketAddr;
use vfs::Status;

/// The most characters of a path that are shown.
const SHOWN_MAX: usize = 200;

/// Why a path may not be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// It is not an absolute path.
    NoPath,
    /// It is in no export.
    NoExport,
    /// Its export waits for its file system.
    NotServed,
    /// The export is not for the client.
    Client(ClientRefused),
    /// The look-up of the path in the export failed with this.
    Tree(Status),
}

impl RefusalReason {
    /// The status for the client (RFC 1813 §5.1.5).
    pub(super) const fn error(self) -> MountError {
        match self {
            Self::NoPath => MountError::Inval,
            Self::NoExport => MountError::NoEnt,
            // the client that was started together with the server tries again
            Self::NotServed => MountError::ServerFault,
            Self::Client(_) => MountError::Acces,
            Self::Tree(status) => tree_error(status),
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPath => f.write_str("the path does not begin with /"),
            Self::NoExport => f.write_str("no such export"),
            Self::NotServed => {
                f.write_str("the export is not served at present (see bowline exports)")
            }
            Self::Client(refused) => refused.fmt(f),
            Self::Tree(status) => write!(f, "in the export: {status}"),
        }
    }
}

/// A mount that was refused.
#[derive(Debug, Clone, Copy)]
pub struct RefusedMount<'a> {
    /// The client's address and port.
    pub client: SocketAddr,
    /// The path, as it was sent.
    pub path: &'a [u8],
    /// Why.
    pub reason: RefusalReason,
}

/// One line without control characters, whatever the client sent.
impl fmt::Display for RefusedMount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = SocketAddr::new(self.client.ip().to_canonical(), self.client.port());
        let path = String::from_utf8_lossy(self.path);
        let shown: String = path.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
        let more = if path.chars().nth(SHOWN_MAX).is_some() { "..." } else { "" };
        write!(f, "refused {client} {shown}{more}: {}", self.reason)
    }
}

/// The status of MOUNT for a failure of the backend.
const fn tree_error(status: Status) -> MountError {
    match status {
        Status::Perm => MountError::Perm,
        Status::NoEnt | Status::Stale | Status::BadHandle => MountError::NoEnt,
        Status::Acces | Status::XDev | Status::RoFs => MountError::Acces,
        Status::NotDir | Status::Symlink | Status::WrongType | Status::IsDir => MountError::NotDir,
        Status::NameTooLong => MountError::NameTooLong,
        Status::Inval | Status::BadCookie | Status::NotSync => MountError::Inval,
        Status::NotSupp | Status::BadType => MountError::NotSupp,
        Status::Io
        | Status::NoXattr
        | Status::XattrTooBig
        | Status::NxIo
        | Status::NoDev
        | Status::Exist
        | Status::FBig
        | Status::NoSpc
        | Status::MLink
        | Status::NotEmpty
        | Status::DQuot => MountError::Io,
        Status::TooSmall | Status::ServerFault | Status::Jukebox => MountError::ServerFault,
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientRefused, RefusalReason, RefusedMount};

    #[test]
    fn a_refused_mount_is_shown_in_one_short_line() {
        let client = "[::ffff:192.0.2.1]:40112".parse().unwrap();
        let shown = |path: &[u8], reason| RefusedMount { client, path, reason }.to_string();
        assert_eq!(
            shown(b"/data", RefusalReason::Client(ClientRefused::Port)),
            "refused 192.0.2.1:40112 /data: its port is not below 1024 (option insecure)"
        );
        let odd = shown(b"/a\n\x1b[2J\xff", RefusalReason::NoExport);
        assert!(!odd.contains(['\n', '\x1b']) && odd.ends_with(": no such export"), "{odd}");
        assert!(shown(&[b'x'; 1024], RefusalReason::NoPath).len() < 300);
    }
}
