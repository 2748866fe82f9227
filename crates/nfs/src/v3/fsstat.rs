//! FSSTAT (RFC 1813 §3.3.18).

use super::{arguments, attr, finish, post_op};
use crate::{Nfs, verbs};
use proto::nfs3::{Fh, FsstatOk, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn fsstat(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let root: Fh<'_> = arguments(args)?;
    let result = match verbs::fsstat(nfs, call, root.0) {
        Ok(s) => Res::Ok(FsstatOk {
            attr: Some(attr::fattr3(&s.attr)),
            tbytes: s.total_bytes,
            fbytes: s.free_bytes,
            abytes: s.avail_bytes,
            tfiles: s.total_files,
            ffiles: s.free_files,
            afiles: s.avail_files,
            // Nothing is promised: others may write to the file system at any time.
            invarsec: 0,
        }),
        Err(failed) => post_op(&failed),
    };
    finish(call, reply, &result)
}
