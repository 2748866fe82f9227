//! UMNT and UMNTALL (RFC 1813 §5.2.3, §5.2.4): remove entries of the mount list. Neither can
//! fail, and only entries of the caller's own address are removed.

use super::Mount;
use super::mount_list::client_of;
use super::path::normalise;
use proto::mount::DirPath;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

/// UMNT: one path.
pub(super) fn umnt(
    state: &Mount,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let path = args.get::<DirPath<'_>>()?;
    args.end()?;
    if let Some(path) = normalise(path.0) {
        state.lock().remove(client_of(call), &String::from_utf8_lossy(&path));
    }
    Ok(())
}

/// UMNTALL: all paths.
pub(super) fn umntall(
    state: &Mount,
    call: &mut Call<'_>,
    _: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    state.lock().remove_all(client_of(call));
    Ok(())
}
