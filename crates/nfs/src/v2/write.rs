//! WRITE (RFC 1094 §2.2.9). On disk before the answer: version 2 has no COMMIT.

use super::{after, serve};
use crate::share_denial::ShareDenial;
use crate::{Nfs, verbs};
use proto::nfs2::WriteArgs2;
use rpc::{Call, Fault};
use state::ShareBits;
use vfs::{Stability, Status};
use xdr::{Reader, Writer};

pub(super) fn write(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: WriteArgs2<'_>| {
        let (offset, data) = (u64::from(a.offset), a.data.0);
        let mut count = 0;
        let denial = ShareDenial::of(nfs, call);
        let written = nfs.on_object_v2(call, &a.file, |file| {
            nfs.before_change(file, &file.fid, None)?;
            denial.check(nfs, file, ShareBits::WRITE)?;
            let done = verbs::write(file, offset, data, Stability::FileSync)?.done;
            nfs.after_change(file, &file.fid, None)?;
            count = done.count;
            // Version 2 cannot say how much was written: all, or an error.
            if done.count < data.len() {
                return Err(Status::NoSpc);
            }
            after(file, &done.file)
        });
        call.outcome.bytes_written = u32::try_from(count).unwrap_or_default();
        written
    })
}
