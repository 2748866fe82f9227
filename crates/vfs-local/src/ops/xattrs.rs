//! Extended attributes of users, by the kernel as the caller.

use crate::cache::open_file::OpenFile;
use crate::errno;
use crate::fs::LocalFs;
use crate::ops::permission::check;
use vfs::access::Permission;
use vfs::{
    Attr, Change, Cx, Fid, FileType, Result, SetXattr, Status, XATTR_VALUE_MAX, XattrName, Xattrs,
};

/// What the names of users' attributes begin with.
const PREFIX: &[u8] = b"user.";

fn whole(name: XattrName<'_>) -> Vec<u8> {
    [PREFIX, name.bytes()].concat()
}

/// Refuses objects for which the kernel has no attributes of users.
const fn check_type(attr: &Attr) -> Result<()> {
    match attr.ftype {
        FileType::Regular | FileType::Directory => Ok(()),
        FileType::Symlink
        | FileType::Block
        | FileType::Char
        | FileType::Fifo
        | FileType::Socket => Err(Status::WrongType),
    }
}

/// Changes the attributes of an object as the caller, durably.
fn change(
    local: &LocalFs,
    cx: &Cx<'_>,
    fid: &Fid,
    change: impl FnOnce(&OpenFile) -> std::io::Result<()>,
) -> Result<Change> {
    local.will_block(cx)?;
    let (file, before) = local.begin_change(cx, fid)?;
    check_type(&before)?;
    if before.ftype == FileType::Directory {
        local.files.leases.check_directory(|| local.key(fid))?;
    }
    local.identity.act_as_caller(&cx.cred).map_err(errno::from)?;
    change(&file).map_err(errno::from)?;
    let change = local.wcc_data(&file, &before);
    if local.has_to_sync(cx) {
        local.sync_leased(cx, fid, &file)?;
    }
    Ok(change)
}

impl Xattrs for LocalFs {
    fn xattr(&self, cx: &Cx<'_>, fid: &Fid, name: XattrName<'_>) -> Result<Vec<u8>> {
        self.will_block(cx)?;
        let (file, attr) = self.hold(cx, fid)?;
        check_type(&attr)?;
        self.identity.act_as_caller(&cx.cred).map_err(errno::from)?;
        sys::xattr::get(file.path(), &whole(name)).map_err(errno::from)
    }

    fn set_xattr(
        &self,
        cx: &Cx<'_>,
        fid: &Fid,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
    ) -> Result<Change> {
        if value.len() > XATTR_VALUE_MAX {
            return Err(Status::XattrTooBig);
        }
        let how = match how {
            SetXattr::Any => sys::xattr::How::Any,
            SetXattr::Create => sys::xattr::How::Create,
            SetXattr::Replace => sys::xattr::How::Replace,
        };
        change(self, cx, fid, |file| sys::xattr::set(file.path(), &whole(name), value, how))
    }

    fn xattr_names(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Vec<Vec<u8>>> {
        self.will_block(cx)?;
        let (file, attr) = self.hold(cx, fid)?;
        check_type(&attr)?;
        // the kernel shows them to everybody; whoever may not read their values need not know them
        check(self, cx, &file, &attr, Permission::READ)?;
        self.identity.act_as_server().map_err(errno::from)?;
        let list = sys::xattr::list(file.path()).map_err(errno::from)?;
        let names = list.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(PREFIX));
        Ok(names.filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    fn remove_xattr(&self, cx: &Cx<'_>, fid: &Fid, name: XattrName<'_>) -> Result<Change> {
        change(self, cx, fid, |file| sys::xattr::remove(file.path(), &whole(name)))
    }
}
