//! The attribute `fs_locations` (RFC 8881 §11.16, RFC 7530 §8): where an export is besides, or instead.

use super::frame::Frame;
use export::{Export, FsLocations};
use xdr::Writer;

/// The value of `fs_locations` (`fs_locations4`): the path of the export from the root of this server, and where else it
/// is; nowhere if the export does not say it.
#[cold]
pub(super) fn value(frame: &Frame<'_>, export: &Export) -> Vec<u8> {
    let mut w = Writer::new();
    put(frame, export, &mut w);
    w.bytes().to_vec()
}

/// Appends the value.
pub(super) fn put(frame: &Frame<'_>, export: &Export, w: &mut Writer) {
    let table = frame.caller.table();
    let from_root = table.pseudo().path_of(&export.path, table.exports());
    put_path(from_root.unwrap_or(&export.path), w);
    let list = export.locations.as_deref().map_or(&[][..], FsLocations::list);
    w.u32(u32::try_from(list.len()).unwrap_or(u32::MAX));
    for location in list {
        w.u32(u32::try_from(location.hosts.len()).unwrap_or(u32::MAX));
        location.hosts.iter().for_each(|host| w.opaque(host.as_bytes()));
        put_path(&location.path, w);
    }
}

/// `pathname4`: the names of a path.
fn put_path(path: &[u8], w: &mut Writer) {
    let names = || path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    w.u32(u32::try_from(names().count()).unwrap_or(u32::MAX));
    names().for_each(|name| w.opaque(name));
}
