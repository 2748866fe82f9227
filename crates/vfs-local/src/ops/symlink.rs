//! SYMLINK: the target is stored unchanged.

use crate::fs::LocalFs;
use crate::ops::dir_change::DirChange;
use crate::ops::expected_object::ExpectedObject;
use sys::namespace::make_symlink;
use vfs::{Created, Cx, Fid, FileType, Name, Result, SetAttr, Status};

/// See [`vfs::Backend::symlink`].
pub fn symlink(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    target: &[u8],
    set: &SetAttr,
) -> Result<Created> {
    if target.is_empty() || target.contains(&0) {
        return Err(Status::Inval);
    }
    let dir_change = DirChange::new(local, cx, dir)?;
    let expected = ExpectedObject::new(dir_change.caller_uid(), FileType::Symlink);
    dir_change.as_caller(|| make_symlink(dir_change.file.path(), name.bytes(), target))?;
    // Linux keeps no mode of links
    dir_change.finish(name, &expected, &SetAttr { mode: None, ..*set })
}
