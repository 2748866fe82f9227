//! Disk quotas, as clients ask for them (rquota; the quota attributes of RFC 8881 §5.8.2).

use crate::{Cx, Fid, Result};

/// Whose quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaKind {
    /// A user's.
    User,
    /// A group's.
    Group,
    /// A project's: of a tree of directories.
    Project,
}

/// Limits of one resource, and what is used of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaUsage {
    /// What is never exceeded.
    pub hard: Option<u64>,
    /// What may be exceeded for a while.
    pub soft: Option<u64>,
    /// What is used.
    pub used: u64,
    /// When the while ends, in seconds since 1970, if the soft limit is exceeded.
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

/// Back ends that have quotas.
pub trait Quotas: Send + Sync {
    /// The quota of a user, group or project on the file system that an object is on; `None` if there are
    /// no quotas of this kind.
    ///
    /// # Errors
    /// [`crate::Status::Perm`] for anybody but root and those whom it is about.
    fn quota(&self, cx: &Cx<'_>, fid: &Fid, kind: QuotaKind, id: u32) -> Result<Option<Quota>>;
}
