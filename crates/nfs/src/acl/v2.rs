//! The procedures of version 2, with the attributes and the status of NFS version 2.

use super::lists::{self, Lists};
use crate::v2::{arguments, attr, finish, serve};
use crate::{Nfs, verbs};
use proto::nfs2::Fh2;
use proto::nfsacl::{Access2Args, Access2Ok, GetAcl2Args, GetAcl2Ok, SetAcl2Args};
use rpc::{Call, Fault};
use vfs::{AccessMask, Want};
use xdr::{Reader, Writer};

pub(super) fn getacl(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: GetAcl2Args = arguments(args)?;
    let found = nfs.on_object_v2(call, &a.handle, |object| {
        nfs.before_read(object, &object.fid, None)?;
        Lists::of(object, a.mask)
    });
    let answer = found
        .as_ref()
        .map(|lists| GetAcl2Ok { attr: attr::fattr2(&lists.attr), acl: lists.sec_attr() });
    finish(call, reply, &answer.map_err(|status| *status))
}

pub(super) fn setacl(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: SetAcl2Args<'_> = arguments(args)?;
    let after = nfs.on_object_v2(call, &a.handle, |object| {
        nfs.before_change(object, &object.fid, None)?;
        lists::set(object, &a.acl)
    });
    finish(call, reply, &after.map(|after| attr::fattr2(&after)))
}

pub(super) fn getattr(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, handle: Fh2| {
        let found = nfs.on_object_v2(call, &handle, |object| {
            match nfs.attrs_by_holder(object, &object.fid, None, Want::STAT)? {
                Some(held) => Ok(held),
                None => verbs::getattr(object),
            }
        });
        found.map(|found| attr::fattr2(&found))
    })
}

/// The bits are those of RFC 1813 §3.3.4.
pub(super) fn access(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: Access2Args| {
        let asked = AccessMask(a.access);
        let (granted, found) = nfs.on_object_v2(call, &a.handle, |object| {
            nfs.before_read(object, &object.fid, None)?;
            verbs::access(object, asked)
        })?;
        Ok(Access2Ok { attr: attr::fattr2(&found), access: granted.0 })
    })
}
