//! Extended attributes of files and directories. Names and values count as data.

use crate::inode::Inode;
use crate::mem::{MemFs, State, check};
use vfs::access::Permission;
use vfs::{
    Change, Cx, Fid, FileType, Result, SetXattr, Status, XATTR_VALUE_MAX, XattrName, Xattrs,
};

/// The most bytes of the names of an object: Linux's `XATTR_LIST_MAX`.
const NAMES_MAX: usize = 64 * 1024;

/// An object that can have attributes, if the caller has this permission on it.
fn object<'s>(state: &'s State, cx: &Cx<'_>, fid: &Fid, want: Permission) -> Result<&'s Inode> {
    let inode = state.get(fid)?;
    if !matches!(inode.ftype(), FileType::Regular | FileType::Directory) {
        return Err(Status::WrongType);
    }
    check(&inode.attr(), &cx.cred, want)?;
    Ok(inode)
}

impl Xattrs for MemFs {
    fn xattr(&self, cx: &Cx<'_>, fid: &Fid, name: XattrName<'_>) -> Result<Vec<u8>> {
        let state = self.lock();
        let inode = object(&state, cx, fid, Permission::READ)?;
        inode.xattrs.get(name.bytes()).cloned().ok_or(Status::NoXattr)
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
        let mut state = self.lock();
        let inode = object(&state, cx, fid, Permission::WRITE)?;
        let old = inode.xattrs.get(name.bytes()).map(Vec::len);
        match (how, old) {
            (SetXattr::Create, Some(_)) => return Err(Status::Exist),
            (SetXattr::Replace, None) => return Err(Status::NoXattr),
            (SetXattr::Any | SetXattr::Create | SetXattr::Replace, _) => {}
        }
        let names = inode.xattrs.keys().map(Vec::len).sum::<usize>();
        if old.is_none() && names.saturating_add(name.bytes().len()) > NAMES_MAX {
            return Err(Status::NoSpc);
        }
        let freed = old.map_or(0, |len| len.saturating_add(name.bytes().len())) as u64;
        let used = state.used.saturating_sub(freed);
        let used = used.saturating_add(name.bytes().len().saturating_add(value.len()) as u64);
        if used > state.options.bytes_max {
            return Err(Status::NoSpc);
        }
        let now = state.now();
        let before = state.get(fid)?.attr().wcc();
        let inode = state.get_mut(fid)?;
        inode.xattrs.insert(name.bytes().to_vec(), value.to_vec());
        inode.touch(now);
        state.used = used;
        Ok(state.change(fid, before))
    }

    fn xattr_names(&self, cx: &Cx<'_>, fid: &Fid) -> Result<Vec<Vec<u8>>> {
        let state = self.lock();
        let inode = object(&state, cx, fid, Permission::READ)?;
        Ok(inode.xattrs.keys().cloned().collect())
    }

    fn remove_xattr(&self, cx: &Cx<'_>, fid: &Fid, name: XattrName<'_>) -> Result<Change> {
        let mut state = self.lock();
        object(&state, cx, fid, Permission::WRITE)?;
        let now = state.now();
        let before = state.get(fid)?.attr().wcc();
        let inode = state.get_mut(fid)?;
        let value = inode.xattrs.remove(name.bytes()).ok_or(Status::NoXattr)?;
        inode.touch(now);
        let freed = name.bytes().len().saturating_add(value.len()) as u64;
        state.used = state.used.saturating_sub(freed);
        Ok(state.change(fid, before))
    }
}
