//! The procedures of version 3: attributes also in failures, as in NFS version 3.

use super::lists::{self, Lists};
use crate::Nfs;
use crate::object::Object;
use crate::v3::{arguments, attr, finish};
use proto::nfs3::Res;
use proto::nfsacl::{GetAcl3Args, GetAcl3Ok, SetAcl3Args};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn getacl(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: GetAcl3Args<'_> = arguments(args)?;
    let found = nfs.on_object_v3(call, a.handle.0, |object| {
        nfs.before_read(object, &object.fid, None)?;
        Lists::of(object, a.mask)
    });
    let result = match &found {
        Ok(lists) => {
            Res::Ok(GetAcl3Ok { attr: Some(attr::fattr3(&lists.attr)), acl: lists.sec_attr() })
        }
        Err(failed) => failed.post_op(),
    };
    finish(call, reply, &result)
}

pub(super) fn setacl(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: SetAcl3Args<'_> = arguments(args)?;
    let set = |object: &Object<'_>| {
        nfs.before_change(object, &object.fid, None)?;
        lists::set(object, &a.acl)
    };
    let result = match nfs.on_object_v3(call, a.handle.0, set) {
        Ok(after) => Res::Ok(Some(attr::fattr3(&after))),
        Err(failed) => failed.post_op(),
    };
    finish(call, reply, &result)
}
