//! The operations that a load consists of, whatever the version: names, numbers on the wire.

use proto::{nfs2, nfs3, nfs4, nlm};
use std::str::FromStr;

/// The NFS version that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 1094.
    V2,
    /// RFC 1813.
    V3,
    /// RFC 7530.
    V40,
    /// RFC 8881.
    V41,
    /// RFC 7862.
    V42,
}

impl Version {
    /// All.
    pub const ALL: [Self; 5] = [Self::V2, Self::V3, Self::V40, Self::V41, Self::V42];

    /// The number in calls.
    pub const fn number(self) -> u32 {
        match self {
            Self::V2 => nfs2::VERSION,
            Self::V3 => nfs3::VERSION,
            Self::V40 | Self::V41 | Self::V42 => nfs4::VERSION,
        }
    }

    /// The minor version of version 4; `None`: another version.
    pub const fn minor(self) -> Option<u32> {
        match self {
            Self::V2 | Self::V3 => None,
            Self::V40 => Some(0),
            Self::V41 => Some(1),
            Self::V42 => Some(2),
        }
    }

    /// Whether files are opened and closed, as in version 4.
    pub const fn opens(self) -> bool {
        self.minor().is_some()
    }

    /// As on the command line and in reports: `3`, `4.1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2 => "2",
            Self::V3 => "3",
            Self::V40 => "4.0",
            Self::V41 => "4.1",
            Self::V42 => "4.2",
        }
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|version| version.name() == text);
        found.ok_or_else(|| format!("{text}: not a version of NFS; one of {}", known()))
    }
}

/// The version of NLM beside NFS version 3.
pub(crate) const NLM_VERSION: u32 = 4;

macro_rules! operations {
    ($($(#[$meta:meta])* $op:ident = $name:literal, $v3:expr, $v2:expr;)*) => {
        /// One operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Op {
            $($(#[$meta])* $op,)*
        }

        impl Op {
            /// All, in the order of their indices.
            pub const ALL: &'static [Self] = &[$(Self::$op,)*];

            /// As in recorded lists.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$op => $name,)* }
            }

            /// As in reports.
            pub const fn name_in(self, version: Version) -> &'static str {
                match (self, version) {
                    (Self::Null, Version::V41 | Version::V42) => "sequence",
                    _ => self.name(),
                }
            }

            /// The procedure's number; `None` where the version has no such procedure.
            pub const fn procedure(self, version: Version) -> Option<u32> {
                match (version, self) {
                    (Version::V40, Self::Null) => Some(nfs4::procedure::NULL),
                    // without operations version 4.1 has SEQUENCE alone
                    (Version::V40 | Version::V41 | Version::V42, _) => {
                        Some(nfs4::procedure::COMPOUND)
                    }
                    $((Version::V3, Self::$op) => $v3,)*
                    $((Version::V2, Self::$op) => $v2,)*
                }
            }

            /// The program and its version: NFS, but for locks beside NFS version 3, which are NLM's (version 4).
            pub const fn program(self, version: Version) -> (u32, u32) {
                match self {
                    Self::Lock | Self::Unlock if !version.opens() => (nlm::PROGRAM, NLM_VERSION),
                    _ => (nfs3::PROGRAM, version.number()),
                }
            }

            /// The position in [`Op::ALL`].
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

operations! {
    /// NULL.
    Null = "null", Some(nfs3::procedure::NULL), Some(nfs2::procedure::NULL);
    /// Gets the attributes of an object.
    Getattr = "getattr", Some(nfs3::procedure::GETATTR), Some(nfs2::procedure::GETATTR);
    /// Sets the times of an object.
    Setattr = "setattr", Some(nfs3::procedure::SETATTR), Some(nfs2::procedure::SETATTR);
    /// Looks a name up in a directory.
    Lookup = "lookup", Some(nfs3::procedure::LOOKUP), Some(nfs2::procedure::LOOKUP);
    /// Checks permissions.
    Access = "access", Some(nfs3::procedure::ACCESS), None;
    /// Reads the target of a symbolic link.
    Readlink = "readlink", Some(nfs3::procedure::READLINK), Some(nfs2::procedure::READLINK);
    /// Reads data.
    Read = "read", Some(nfs3::procedure::READ), Some(nfs2::procedure::READ);
    /// Writes data.
    Write = "write", Some(nfs3::procedure::WRITE), Some(nfs2::procedure::WRITE);
    /// Creates a file; in version 4 by OPEN, with its handle and attributes.
    Create = "create", Some(nfs3::procedure::CREATE), Some(nfs2::procedure::CREATE);
    /// Removes a file.
    Remove = "remove", Some(nfs3::procedure::REMOVE), Some(nfs2::procedure::REMOVE);
    /// Lists a directory.
    Readdir = "readdir", Some(nfs3::procedure::READDIR), Some(nfs2::procedure::READDIR);
    /// Lists a directory with attributes and handles.
    Readdirplus = "readdirplus", Some(nfs3::procedure::READDIRPLUS), None;
    /// Gets the size and the free space of a file system.
    Fsstat = "fsstat", Some(nfs3::procedure::FSSTAT), Some(nfs2::procedure::STATFS);
    /// Makes written data stable.
    Commit = "commit", Some(nfs3::procedure::COMMIT), None;
    /// Locks a byte range of a file; in version 3 by NLM.
    Lock = "lock", Some(nlm::procedure::LOCK), None;
    /// Unlocks a byte range.
    Unlock = "unlock", Some(nlm::procedure::UNLOCK), None;
    /// Opens an existing file for reading.
    Open = "open", None, None;
    /// Closes a file.
    Close = "close", None, None;
}

#[cfg(test)]
mod tests {
    use super::{Op, Version};

    #[test]
    fn an_index_finds_its_operation() {
        for op in Op::ALL {
            assert_eq!(Op::ALL.get(op.index()), Some(op));
        }
    }

    #[test]
    fn operations_missing_in_a_version_have_no_number() {
        let lacking = |version| -> Vec<_> {
            Op::ALL.iter().copied().filter(|op| op.procedure(version).is_none()).collect()
        };
        let (open, close) = (Op::Open, Op::Close);
        let lacking2 = [Op::Access, Op::Readdirplus, Op::Commit, Op::Lock, Op::Unlock, open, close];
        assert_eq!(lacking(Version::V2), lacking2);
        assert_eq!(lacking(Version::V3), [Op::Open, Op::Close]);
        assert_eq!(lacking(Version::V41), []);
        assert_eq!(Op::Fsstat.procedure(Version::V2), Some(17));
        assert_eq!(Op::Lock.program(Version::V3).0, proto::nlm::PROGRAM);
        assert_eq!(Op::Lock.program(Version::V41), (proto::nfs3::PROGRAM, 4));
    }

    #[test]
    fn a_version_has_its_name() {
        for version in Version::ALL {
            assert_eq!(version.name().parse(), Ok(version));
        }
        assert!("4".parse::<Version>().unwrap_err().contains("4.0, 4.1, 4.2"));
    }
}
