//! FSINFO (RFC 1813 §3.3.19). What it advises depends on the transport: see [`crate::NfsSettings`].

use super::failed::Failed;
use super::{arguments, attr, finish};
use crate::{Nfs, settings, verbs};
use proto::nfs3::{Fh, FsinfoOk, Nfstime3, Res, fsf};
use rpc::{Call, Fault};
use vfs::Limits;
use xdr::{Reader, Writer};

pub(super) fn fsinfo(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let root: Fh<'_> = arguments(args)?;
    let rtmax = nfs.settings.read_max(call.peer.transport);
    let wtmax = nfs.settings.write_max(call.peer.transport);
    let result = match nfs.on_object(call, root.0, verbs::fsinfo) {
        Ok(info) => Res::Ok(FsinfoOk {
            attr: Some(attr::fattr3(&info.attr)),
            rtmax,
            rtpref: rtmax,
            rtmult: settings::BLOCK,
            wtmax,
            wtpref: wtmax,
            wtmult: settings::BLOCK,
            dtpref: settings::LISTING.min(rtmax),
            maxfilesize: info.limits.file_size_max,
            time_delta: time_delta(info.limits.time_delta_ns),
            properties: properties(&info.limits),
        }),
        Err(status) => Failed::from(status).post_op(),
    };
    finish(call, reply, &result)
}

const fn time_delta(ns: u32) -> Nfstime3 {
    Nfstime3 { seconds: ns / 1_000_000_000, nseconds: ns % 1_000_000_000 }
}

fn properties(limits: &Limits) -> u32 {
    let link = if limits.hard_links { fsf::LINK } else { 0 };
    let symlink = if limits.symlinks { fsf::SYMLINK } else { 0 };
    link | symlink | fsf::HOMOGENEOUS | fsf::CANSETTIME
}
