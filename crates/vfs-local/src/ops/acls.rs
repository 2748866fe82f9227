//! Getting and setting POSIX ACLs, as the caller.

use crate::errno;
use crate::fs::LocalFs;
use vfs::acl::{Acl, AclKind, Acls};
use vfs::{Change, Cx, Fid, FileType, Result, Status};

impl Acls for LocalFs {
    fn acl(&self, cx: &Cx<'_>, fid: &Fid, kind: AclKind) -> Result<Option<Acl>> {
        let (file, attr) = self.hold(cx, fid)?;
        if attr.ftype == FileType::Symlink {
            return Ok(None);
        }
        self.will_block(cx)?;
        self.identity.act_as_server().map_err(errno::from)?;
        let value = sys::acl::get(file.path(), attribute(kind)).map_err(errno::from)?;
        value.map(|value| Acl::parse(&value).ok_or(Status::Io)).transpose()
    }

    fn set_acl(&self, cx: &Cx<'_>, fid: &Fid, kind: AclKind, acl: Option<&Acl>) -> Result<Change> {
        self.will_block(cx)?;
        let (file, before) = self.begin_change(cx, fid)?;
        if before.ftype == FileType::Symlink {
            return Err(Status::NotSupp);
        }
        if kind == AclKind::Default && before.ftype != FileType::Directory {
            return Err(Status::Inval);
        }
        if before.ftype == FileType::Directory {
            self.files.leases.check_directory(|| self.key(fid))?;
        }
        self.identity.act_as_caller(&cx.cred).map_err(errno::from)?;
        let value = acl.map(Acl::encode);
        sys::acl::set(file.path(), attribute(kind), value.as_deref()).map_err(errno::from)?;
        let change = self.wcc_data(&file, &before);
        if self.has_to_sync(cx) {
            self.sync_leased(cx, fid, &file)?;
        }
        Ok(change)
    }
}

const fn attribute(kind: AclKind) -> &'static str {
    match kind {
        AclKind::Access => sys::acl::ACCESS,
        AclKind::Default => sys::acl::DEFAULT,
    }
}
