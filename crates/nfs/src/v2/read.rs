//! READLINK and READ (RFC 1094 §2.2.6, §2.2.7). As in version 3, the data is a range of the
//! file, or the backend fills the reply in place, behind room that is left for the attributes.

use super::{arguments, attr, finish, serve};
use crate::Nfs;
use crate::verbs::{self, ReadData, ReadRequest};
use proto::nfs2::{Fh2, MAXDATA, MAXPATHLEN, Nfsstat2, ReadArgs2};
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use vfs::Status;
use xdr::{Encode, FileRange, Reader, Writer};

/// What comes before the data: status, attributes, the data's length.
const HEAD: usize = 4 + 68 + 4;

/// A link's target, owned: it comes from the backend and goes straight to the reply.
struct Target(Vec<u8>);

impl Encode for Target {
    fn encode(&self, w: &mut Writer) {
        w.opaque(&self.0);
    }
}

pub(super) fn readlink(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    serve(nfs, call, args, reply, |nfs, call, link: Fh2| {
        let mut target = Vec::new();
        nfs.on_object_v2(call, &link, |link| verbs::readlink(link, &mut target))?;
        // A client that decodes by RFC 1094 takes a longer one for no reply, and asks for ever.
        if target.len() > MAXPATHLEN {
            return Err(Status::NameTooLong);
        }
        Ok(Target(target))
    })
}

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
    let read = nfs.on_object_v2(call, &a.file, |file| {
        verbs::read(file, &request, |count| reply.space(count))
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
