//! MKDIR.

use crate::local::Local;
use crate::made::Place;
use crate::maker::Maker;
use sys::namespace::make_dir;
use vfs::{Created, Cx, Fid, FileType, Name, Result, SetAttr};

/// The mode of a directory until its owner says otherwise.
const MODE_DEFAULT: u32 = 0o700;

/// See [`vfs::Backend::mkdir`].
pub fn mkdir(
    local: &Local,
    cx: &Cx<'_>,
    dir: &Fid,
    name: Name<'_>,
    set: &SetAttr,
) -> Result<Created> {
    let place = Place::new(local, cx, dir)?;
    let maker = Maker::of(&place, FileType::Directory);
    let mode = set.mode.unwrap_or(MODE_DEFAULT);
    place.as_caller(|| make_dir(place.file.path(), name.bytes(), mode))?;
    place.finish(name, &maker, set)
}
