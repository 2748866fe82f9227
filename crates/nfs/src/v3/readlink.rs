//! READLINK (RFC 1813 §3.3.5).

use super::{arguments, attr, finish};
use crate::{Nfs, verbs};
use proto::nfs3::{Bytes, Fh, ReadlinkOk, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn readlink(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let link: Fh<'_> = arguments(args)?;
    let mut target = Vec::new();
    let read = nfs.on_object_v3(call, link.0, |link| verbs::readlink(link, &mut target));
    let result = match read {
        Ok(found) => {
            Res::Ok(ReadlinkOk { attr: Some(attr::fattr3(&found)), target: Bytes(&target) })
        }
        Err(failed) => failed.post_op(),
    };
    finish(call, reply, &result)
}
