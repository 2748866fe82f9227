//! COMMIT (RFC 1813 §3.3.21).

use super::{arguments, attr, finish, status};
use crate::{Nfs, verbs};
use proto::nfs3::{CommitArgs, CommitOk, Res};
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn commit(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: CommitArgs<'_> = arguments(args)?;
    let committed =
        nfs.on_object_v3(call, a.file.0, |file| verbs::commit(file, a.offset, u64::from(a.count)));
    let result = match committed {
        Ok(done) => Res::Ok(CommitOk { file: attr::wcc(&done.file), verf: done.verifier }),
        Err(failed) => failed.wcc_as(status::of_data(failed.status)),
    };
    finish(call, reply, &result)
}
