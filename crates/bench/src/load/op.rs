//! The operations that a load consists of, whatever the version: names, numbers on the wire.

use proto::{nfs2, nfs3, nlm};

/// The NFS version that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 1094.
    V2,
    /// RFC 1813.
    V3,
}

impl Version {
    /// The number.
    pub const fn number(self) -> u32 {
        match self {
            Self::V2 => nfs2::VERSION,
            Self::V3 => nfs3::VERSION,
        }
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

            /// As in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$op => $name,)* }
            }

            /// The procedure's number; `None` where the version has no such procedure.
            pub const fn procedure(self, version: Version) -> Option<u32> {
                match (version, self) {
                    $((Version::V3, Self::$op) => Some($v3),)*
                    $((Version::V2, Self::$op) => $v2,)*
                }
            }

            /// The program and its version: NFS, but for locks, which are NLM's (version 4 beside NFS version 3).
            pub const fn program(self, version: Version) -> (u32, u32) {
                match self {
                    Self::Lock | Self::Unlock => (nlm::PROGRAM, NLM_VERSION),
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
    /// Nothing.
    Null = "null", nfs3::procedure::NULL, Some(nfs2::procedure::NULL);
    /// Attributes.
    Getattr = "getattr", nfs3::procedure::GETATTR, Some(nfs2::procedure::GETATTR);
    /// Sets times.
    Setattr = "setattr", nfs3::procedure::SETATTR, Some(nfs2::procedure::SETATTR);
    /// A name in a directory.
    Lookup = "lookup", nfs3::procedure::LOOKUP, Some(nfs2::procedure::LOOKUP);
    /// What is allowed.
    Access = "access", nfs3::procedure::ACCESS, None;
    /// What a link says.
    Readlink = "readlink", nfs3::procedure::READLINK, Some(nfs2::procedure::READLINK);
    /// Data.
    Read = "read", nfs3::procedure::READ, Some(nfs2::procedure::READ);
    /// Data.
    Write = "write", nfs3::procedure::WRITE, Some(nfs2::procedure::WRITE);
    /// A new file.
    Create = "create", nfs3::procedure::CREATE, Some(nfs2::procedure::CREATE);
    /// A name less.
    Remove = "remove", nfs3::procedure::REMOVE, Some(nfs2::procedure::REMOVE);
    /// Entries.
    Readdir = "readdir", nfs3::procedure::READDIR, Some(nfs2::procedure::READDIR);
    /// Entries with attributes and handles.
    Readdirplus = "readdirplus", nfs3::procedure::READDIRPLUS, None;
    /// Space.
    Fsstat = "fsstat", nfs3::procedure::FSSTAT, Some(nfs2::procedure::STATFS);
    /// Data onto the disk.
    Commit = "commit", nfs3::procedure::COMMIT, None;
    /// A byte range of a file, by NLM.
    Lock = "lock", nlm::procedure::LOCK, None;
    /// It is given back.
    Unlock = "unlock", nlm::procedure::UNLOCK, None;
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
    fn operations_missing_in_version_2_have_no_number() {
        let lacking: Vec<_> =
            Op::ALL.iter().filter(|op| op.procedure(Version::V2).is_none()).collect();
        assert_eq!(lacking, [&Op::Access, &Op::Readdirplus, &Op::Commit, &Op::Lock, &Op::Unlock]);
        assert_eq!(Op::Fsstat.procedure(Version::V2), Some(17));
    }
}
