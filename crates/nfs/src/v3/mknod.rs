//! MKNOD (RFC 1813 §3.3.11).

use super::{arguments, attr, create_object};
use crate::{Nfs, verbs};
use proto::nfs3::{MknodArgs, MknodData3, Sattr3, Specdata3};
use rpc::{Call, Fault};
use vfs::{NodeKind, SetAttr, Status};
use xdr::{Reader, Writer};

pub(super) fn mknod(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: MknodArgs<'_> = arguments(args)?;
    let what = what(&a.what);
    create_object(nfs, call, reply, a.place.dir.0, |dir| {
        nfs.before_new_entry(dir, a.place.name.0)?;
        verbs::mknod(dir, a.place.name.0, what)
    })
}

/// What is to be made; regular files, directories and links are not made in this way.
fn what(data: &MknodData3) -> vfs::Result<(NodeKind, SetAttr)> {
    let with = |kind, set: &Sattr3| Ok((kind, attr::set(set)?));
    match data {
        MknodData3::Char(set, Specdata3 { major, minor }) => {
            with(NodeKind::Char(*major, *minor), set)
        }
        MknodData3::Block(set, Specdata3 { major, minor }) => {
            with(NodeKind::Block(*major, *minor), set)
        }
        MknodData3::Socket(set) => with(NodeKind::Socket, set),
        MknodData3::Fifo(set) => with(NodeKind::Fifo, set),
        MknodData3::Reg | MknodData3::Dir | MknodData3::Lnk => Err(Status::BadType),
    }
}
