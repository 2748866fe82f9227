//! COMMIT (RFC 1813 §3.3.21).

use super::failed::Failed;
use super::{arguments, attr, finish_encoded, status};
use crate::{Nfs, verbs};
use proto::nfs3::{CommitArgs, CommitOk, Res, WccData};
use rpc::{Call, Fault};
use vfs::Change;
use xdr::{Reader, Writer};

pub(super) fn commit(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: CommitArgs<'_> = arguments(args)?;
    let committed = nfs.on_object_v3(call, a.file.0, |file| {
        let done = verbs::commit(file, a.offset, u64::from(a.count))?;
        // what another writes under a delegation is not in them
        let is_old = nfs.is_written_by_other(file, &file.fid, None);
        let around = if is_old { Change { before: None, after: None } } else { done.file };
        let result = CommitOk { file: attr::wcc(&around), verf: done.verifier };
        reply.put(&Res::<_, WccData>::Ok(result));
        Ok(())
    });
    let failed = |failed: Failed| failed.wcc_as::<CommitOk>(status::of_data(failed.status));
    finish_encoded(call, reply, committed.map_err(failed))
}
