//! MNT (RFC 1813 §5.2.1; RFC 1094 §A.5): gives the handle of a path, and adds the caller to the
//! mount list. Versions 1 and 2 give a handle for NFS version 2, version 3 one for NFS version 3.

use super::Mount;
use super::mount_list::MountEntry;
use super::walk::{MountPoint, find};
use crate::v2::handle;
use export::{Flavor, Handle};
use proto::mount::{DirPath, Flavors, HANDLE_V1, Mount1Result, Mount3Result, MountError, Mounted3};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

/// MNT of version 1.
pub(super) fn mnt1(
    state: &Mount,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    mnt_old(state, 1, call, args, reply)
}

/// MNT of version 2, the same as that of version 1.
pub(super) fn mnt2(
    state: &Mount,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    mnt_old(state, 2, call, args, reply)
}

fn mnt_old(
    state: &Mount,
    version: u32,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let path = args.get::<DirPath<'_>>()?;
    args.end()?;
    let result = find(state, call, path.0).and_then(|mount_point| {
        let handle = handle_v2(state, &mount_point.handle).ok_or(MountError::NotSupp)?;
        add_row(state, call, &mount_point, version);
        Ok(handle)
    });
    let result = match result {
        Ok(handle) => Mount1Result::Ok(handle),
        Err(error) => Mount1Result::Err(unix_number(error)),
    };
    call.outcome.status = match result {
        Mount1Result::Ok(_) => 0,
        Mount1Result::Err(number) => number,
    };
    reply.put(&result);
    Ok(())
}

/// MNT of version 3.
pub(super) fn mnt3(
    state: &Mount,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let path = args.get::<DirPath<'_>>()?;
    args.end()?;
    match find(state, call, path.0) {
        Ok(mount_point) => {
            add_row(state, call, &mount_point, 3);
            let numbers: Vec<u32> = mount_point.flavors.iter().map(Flavor::number).collect();
            let flavors = Flavors::new(&numbers).unwrap_or_default();
            let handle = mount_point.handle.bytes();
            reply.put(&Mount3Result::Ok(Mounted3 { handle, flavors }));
        }
        Err(error) => {
            call.outcome.status = error.number();
            reply.put(&Mount3Result::Err(error));
        }
    }
    Ok(())
}

fn add_row(state: &Mount, call: &Call<'_>, mount_point: &MountPoint, version: u32) {
    let row = MountEntry::new(call, &mount_point.path, version, (state.clock)());
    state.lock().add(row);
}

/// The handle for NFS version 2; `None` for a long one of a server without a table of aliases.
fn handle_v2(state: &Mount, sealed: &Handle) -> Option<[u8; HANDLE_V1]> {
    if let Some(nfs) = &state.nfs {
        return Some(nfs.v2.aliases.shorten(sealed.bytes()));
    }
    // Without the table of aliases, only a handle that needs none can be resolved again.
    (sealed.bytes().len() < HANDLE_V1).then(|| handle::short_handle(sealed.bytes()))
}

/// The error as versions 1 and 2 send it, a UNIX `errno`; two of version 3's have none.
const fn unix_number(error: MountError) -> u32 {
    /// EIO.
    const IO: u32 = 5;
    /// EOPNOTSUPP, as Linux numbers it.
    const NOT_SUPPORTED: u32 = 95;
    match error {
        MountError::NotSupp => NOT_SUPPORTED,
        MountError::ServerFault => IO,
        MountError::Perm
        | MountError::NoEnt
        | MountError::Io
        | MountError::Acces
        | MountError::NotDir
        | MountError::Inval
        | MountError::NameTooLong => error.number(),
    }
}
