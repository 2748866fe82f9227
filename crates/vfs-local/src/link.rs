//! LINK: another name for an open object.

use crate::errno;
use crate::local::Local;
use crate::made::Place;
use sys::namespace::make_link;
use vfs::{Attr, Change, Cx, Fid, FileType, Name, Result, Status};

/// See [`vfs::Backend::link`].
pub fn link(
    local: &Local,
    cx: &Cx<'_>,
    fid: &Fid,
    dir: &Fid,
    name: Name<'_>,
) -> Result<(Attr, Change)> {
    let place = Place::new(local, cx, dir)?;
    let (file, attr) = local.hold(cx, fid)?;
    if attr.ftype == FileType::Directory {
        return Err(Status::Perm);
    }
    place.as_caller(|| make_link(file.path(), place.file.path(), name.bytes()))?;
    let change = place.change();
    local.finder.remember(dir, name.bytes(), fid)?;
    place.sync()?;
    place.sync_named(&file)?;
    let after = sys::stat::of_fd(file.path()).map_err(errno::from)?;
    Ok((crate::attr::convert(&after), change))
}
