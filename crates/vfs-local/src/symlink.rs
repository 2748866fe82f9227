//! SYMLINK: the target is stored as it is.

use crate::local::Local;
use crate::made::Place;
use crate::maker::Maker;
use sys::namespace::make_symlink;
use vfs::{Created, Cx, Fid, FileType, Name, Result, SetAttr, Status};

/// See [`vfs::Backend::symlink`].
pub fn symlink(
    local: &Local,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    target: &[u8],
    set: &SetAttr,
) -> Result<Created> {
    if target.is_empty() || target.contains(&0) {
        return Err(Status::Inval);
    }
    let place = Place::new(local, cx, dir)?;
    let maker = Maker::of(&place, FileType::Symlink);
    place.as_caller(|| make_symlink(place.file.path(), name.bytes(), target))?;
    // Linux keeps no mode of links
    place.finish(name, &maker, &SetAttr { mode: None, ..*set })
}
