//! MKDIR.

use crate::fs::LocalFs;
use crate::ops::dir_change::DirChange;
use crate::ops::expected_object::ExpectedObject;
use sys::namespace::make_dir;
use vfs::{Created, Cx, Fid, FileType, Name, Result, SetAttr};

/// The mode of a directory until its owner sets another.
const MODE_DEFAULT: u32 = 0o700;

/// See [`vfs::Backend::mkdir`].
pub fn mkdir(
    local: &LocalFs,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    set: &SetAttr,
) -> Result<Created> {
    let dir_change = DirChange::new(local, cx, dir)?;
    let expected = ExpectedObject::new(dir_change.caller_uid(), FileType::Directory);
    let mode = set.mode.unwrap_or(MODE_DEFAULT);
    dir_change.as_caller(|| make_dir(dir_change.file.path(), name.bytes(), mode))?;
    dir_change.finish(name, &expected, set)
}
