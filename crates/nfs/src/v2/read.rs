//! READ (RFC 1094 §2.2.7). As in version 3, the data is a range of the
//! file, or the backend fills the reply in place, behind room that is left for the attributes.

use super::{arguments, attr, finish};
use crate::Nfs;
use crate::share_denial::ShareDenial;
use crate::verbs::{self, ReadData, ReadRequest};
use proto::nfs2::{MAXDATA, Nfsstat2, ReadArgs2};
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use state::ShareBits;
use xdr::{FileRange, Reader, Writer};

/// What comes before the data: status, attributes, the data's length.
const HEAD: usize = 4 + 68 + 4;

pub(super) fn read(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: ReadArgs2 = arguments(args)?;
    let count = MAXDATA.min(a.count as usize);
    let request = ReadRequest { offset: u64::from(a.offset), count, range_min: reply.range_min() };
    let start = reply.mark();
    reply.space(HEAD);
    reply.advance(HEAD);
    let denial = ShareDenial::of(nfs, call);
    let read = nfs.on_object_v2(call, &a.file, |file| {
        nfs.before_read(file, &file.fid, None)?;
        denial.check(nfs, file, ShareBits::READ)?;
        verbs::read(file, &request, |count| reply.try_space(count))
    });
    reply.rewind(start);
    let read = match read {
        Ok(read) => read,
        Err(status) => return finish::<NoBody>(call, reply, &Err(status)),
    };
    let done = read.done;
    let len = u32::try_from(done.count).unwrap_or_default();
    reply.put(&Nfsstat2::Ok);
    reply.put(&attr::fattr2(&done.attr));
    reply.u32(len);
    match read.data {
        ReadData::File(file) => {
            reply.range(FileRange { file, offset: request.offset, len: done.count });
        }
        ReadData::Copied(why) => {
            reply.advance(done.count);
            call.outcome.copied = Some(why);
        }
    }
    reply.pad(done.count);
    call.outcome.status = Nfsstat2::Ok.number();
    call.outcome.bytes_read = len;
    Ok(())
}
