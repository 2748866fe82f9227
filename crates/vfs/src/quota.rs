//! Disk quotas, as clients query them (rquota; the quota attributes of RFC 8881 §5.8.2).

use crate::{Cx, Fid, Result};

/// The kind of quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaKind {
    /// A user's.
    User,
    /// A group's.
    Group,
    /// A project's: of a tree of directories.
    Project,
}

/// Limits and usage of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaUsage {
    /// The hard limit.
    pub hard: Option<u64>,
    /// The soft limit, which may be exceeded for the grace time.
    pub soft: Option<u64>,
    /// The usage.
    pub used: u64,
    /// End of the grace time, in seconds since 1970, if the soft limit is exceeded.
    pub grace_ends_s: Option<u64>,
}

/// A quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Bytes.
    pub bytes: QuotaUsage,
    /// Inodes.
    pub files: QuotaUsage,
}

/// Back ends that support quotas.
pub trait Quotas: Send + Sync {
    /// The quota of a user, group or project on the file system that an object is on; `None` if there are
    /// no quotas of this kind.
    ///
    /// # Errors
    /// [`crate::Status::Perm`] unless the caller is root or a subject of the quota.
    fn quota(&self, cx: &Cx<'_>, fid: &Fid, kind: QuotaKind, id: u32) -> Result<Option<Quota>>;
}
