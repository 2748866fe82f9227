//! WRITE (RFC 1094 §2.2.9). On disk before the answer: version 2 has no COMMIT.

use super::{attributes, serve};
use crate::verbs::Failed;
use crate::{Nfs, verbs};
use proto::nfs2::WriteArgs2;
use rpc::{Call, Fault};
use vfs::{Stability, Status};
use xdr::{Reader, Writer};

pub(super) fn write(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, a: WriteArgs2<'_>| {
        let (file, data) = (nfs.long(&a.file)?, a.data.0);
        let offset = u64::from(a.offset);
        let stable = Stability::FileSync;
        let done = verbs::write(nfs, call, file.bytes(), offset, data, stable)?.done;
        call.outcome.bytes_written = u32::try_from(done.count).unwrap_or_default();
        // Nor has it a way to say how much was written: all, or an error.
        if done.count < data.len() {
            return Err(Failed::bare(Status::NoSpc));
        }
        attributes::after(nfs, call, file.bytes(), &done.file)
    })
}
