//! FSSTAT (RFC 1813 §3.3.18).

use super::{arguments, attr, finish};
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
    let result = match nfs.on_object_v3(call, root.0, verbs::fsstat) {
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
        Err(failed) => failed.post_op(),
    };
    finish(call, reply, &result)
}
