//! RefusalReason a mount was refused, for the operator: the client learns no more than a number.

use crate::object::ClientRefused;
use proto::mount::MountError;
use std::fmt;
use std::net::SocketAddr;
use vfs::Status;

/// Most characters of a path that are shown.
const SHOWN_MAX: usize = 200;

/// RefusalReason a path may not be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// It is no path.
    NoPath,
    /// No export has it.
    NoExport,
    /// The export is not for the client.
    Client(ClientRefused),
    /// The walk through the export ended with this.
    Tree(Status),
}

impl RefusalReason {
    /// What the client is told (RFC 1813 §5.1.5).
    pub(super) const fn error(self) -> MountError {
        match self {
            Self::NoPath => MountError::Inval,
            Self::NoExport => MountError::NoEnt,
            Self::Client(_) => MountError::Acces,
            Self::Tree(status) => tree_error(status),
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPath => f.write_str("not a path that begins with /"),
            Self::NoExport => f.write_str("no such export"),
            Self::Client(refused) => refused.fmt(f),
            Self::Tree(status) => write!(f, "in the export: {status}"),
        }
    }
}

/// A mount that was refused.
#[derive(Debug, Clone, Copy)]
pub struct RefusedMount<'a> {
    /// Who asked, and from which port.
    pub client: SocketAddr,
    /// What for, as it was sent.
    pub path: &'a [u8],
    /// RefusalReason not.
    pub why: RefusalReason,
}

/// One line, whatever the client sent.
impl fmt::Display for RefusedMount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = SocketAddr::new(self.client.ip().to_canonical(), self.client.port());
        let path = String::from_utf8_lossy(self.path);
        let shown: String = path.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
        let more = if path.chars().nth(SHOWN_MAX).is_some() { "..." } else { "" };
        write!(f, "refused {client} {shown}{more}: {}", self.why)
    }
}

/// The status of MOUNT for what the backend says.
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
    fn a_refusal_is_one_short_line() {
        let client = "[::ffff:192.0.2.1]:40112".parse().unwrap();
        let shown = |path: &[u8], why| RefusedMount { client, path, why }.to_string();
        assert_eq!(
            shown(b"/data", RefusalReason::Client(ClientRefused::Port)),
            "refused 192.0.2.1:40112 /data: its port is not below 1024 (option insecure)"
        );
        let odd = shown(b"/a\n\x1b[2J\xff", RefusalReason::NoExport);
        assert!(!odd.contains(['\n', '\x1b']) && odd.ends_with(": no such export"), "{odd}");
        assert!(shown(&[b'x'; 1024], RefusalReason::NoPath).len() < 300);
    }
}
