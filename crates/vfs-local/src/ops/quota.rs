//! Querying quotas. The kernel checks the process's real user and not the identity of the call, so
//! permission is checked here.

use crate::errno;
use crate::fs::LocalFs;
use std::os::fd::AsFd;
use sys::quota::{self, Kind};
use vfs::{Cred, Cx, Fid, Quota, QuotaKind, QuotaUsage, Quotas, Result, Status};

impl Quotas for LocalFs {
    fn quota(&self, cx: &Cx<'_>, fid: &Fid, kind: QuotaKind, id: u32) -> Result<Option<Quota>> {
        // quotas belong to the file system, and an export is on one only: the object need only
        // exist
        self.hold(cx, fid)?;
        if !may_ask(&self.identity.cred(&cx.cred), kind, id) {
            return Err(Status::Perm);
        }
        self.will_block(cx)?;
        self.identity.act_as_server().map_err(errno::from)?;
        let kind = match kind {
            QuotaKind::User => Kind::User,
            QuotaKind::Group => Kind::Group,
            QuotaKind::Project => Kind::Project,
        };
        let found = quota::get(self.root.as_fd(), kind, id).map_err(errno::from)?;
        Ok(found.map(|found| Quota { bytes: usage(found.bytes), files: usage(found.files) }))
    }
}

fn may_ask(cred: &Cred<'_>, kind: QuotaKind, id: u32) -> bool {
    cred.uid == 0
        || match kind {
            QuotaKind::User => cred.uid == id,
            QuotaKind::Group => cred.in_group(id),
            QuotaKind::Project => false,
        }
}

fn usage(usage: quota::Usage) -> QuotaUsage {
    let set = |limit: u64| (limit != 0).then_some(limit);
    QuotaUsage {
        hard: set(usage.hard),
        soft: set(usage.soft),
        used: usage.used,
        grace_ends_s: set(usage.grace_ends_s),
    }
}
