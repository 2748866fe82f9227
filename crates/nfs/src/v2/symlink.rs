//! SYMLINK (RFC 1094 §2.2.14).

use super::serve;
use crate::{Nfs, verbs};
use proto::nfs2::{MAXPATHLEN, SymlinkArgs2};
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use vfs::{SetAttr, Status};
use xdr::{Reader, Writer};

pub(super) fn symlink(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: SymlinkArgs2<'_>| {
        if a.target.0.len() > MAXPATHLEN {
            return Err(Status::NameTooLong);
        }
        // The attributes are not used (RFC 1094 §2.2.14).
        let set = Ok(SetAttr::default());
        nfs.on_object_v2(call, &a.place.dir, |dir| {
            nfs.before_new_entry(dir, a.place.name.0)?;
            verbs::symlink(dir, a.place.name.0, a.target.0, set)?;
            Ok(NoBody)
        })
    })
}
