//! READ (RFC 1813 §3.3.6). The data is a range of the file, which the kernel sends from the page
//! cache; or the backend fills the reply in place, where it is not copied again.
//!
//! The attributes stand before the data on the wire and are known only after it: space is
//! reserved for all that comes before the data, and filled when the data is there.

use super::{arguments, attr, finish, status};
use crate::Nfs;
use crate::share_denial::ShareDenial;
use crate::verbs::{self, ReadData, ReadRequest};
use proto::nfs3::{FATTR3_LEN, Nfsstat3, NoBody, ReadArgs, Res};
use rpc::{Call, Fault};
use state::ShareBits;
use vfs::ReadDone;
use xdr::{FileRange, Reader, Writer};

/// What comes before the data: status, attributes with their boolean, count, eof and the data's
/// length.
const HEAD: usize = 4 + 4 + FATTR3_LEN + 4 + 4 + 4;

pub(super) fn read(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: ReadArgs<'_> = arguments(args)?;
    let count = a.count.min(nfs.settings.read_max(call.peer.transport)) as usize;
    let request = ReadRequest { offset: a.offset, count, range_min: reply.range_min() };
    let start = reply.mark();
    reply.space(HEAD);
    reply.advance(HEAD);
    let denial = ShareDenial::of(nfs, call);
    let read = nfs.on_object_v3(call, a.file.0, |file| {
        nfs.before_read(file, &file.fid, None)?;
        denial.check(nfs, file, ShareBits::READ)?;
        verbs::read(file, &request, |count| reply.try_space(count))
    });
    reply.rewind(start);
    match read {
        Ok(read) => {
            let count = head(reply, &read.done);
            match read.data {
                ReadData::File(file) => {
                    reply.range(FileRange { file, offset: a.offset, len: read.done.count });
                }
                ReadData::Copied(why) => {
                    reply.advance(read.done.count);
                    call.outcome.copied = Some(why);
                }
            }
            reply.pad(read.done.count);
            call.outcome.status = Nfsstat3::Ok.number();
            call.outcome.bytes_read = count;
            Ok(())
        }
        Err(failed) => {
            let status = status::of_data(failed.status);
            finish(call, reply, &Res::<NoBody, _>::Fail(status, failed.fattr3()))
        }
    }
}

/// Writes exactly [`HEAD`] bytes.
fn head(reply: &mut Writer, done: &ReadDone) -> u32 {
    let count = u32::try_from(done.count).unwrap_or(u32::MAX);
    reply.put(&Nfsstat3::Ok);
    reply.put(&Some(attr::fattr3(&done.attr)));
    reply.u32(count);
    reply.bool(done.eof);
    reply.u32(count);
    count
}
