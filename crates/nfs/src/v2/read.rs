//! READLINK and READ (RFC 1094 §2.2.6, §2.2.7). As in version 3, the backend fills the reply in
//! place, behind room that is left for the attributes.

use super::{arguments, attr, finish, serve};
use crate::{Nfs, verbs};
use proto::nfs2::{Fh2, MAXDATA, Nfsstat2, ReadArgs2};
use proto::nfs3::NoBody;
use rpc::{Call, Fault};
use xdr::{Encode, Reader, Writer};

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
        verbs::readlink(nfs, call, nfs.long(&link)?.bytes(), &mut target)?;
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
    let start = reply.mark();
    reply.space(HEAD);
    reply.advance(HEAD);
    let done = nfs.long(&a.file).and_then(|file| {
        verbs::read(nfs, call, file.bytes(), u64::from(a.offset), reply.space(count))
    });
    reply.rewind(start);
    let done = match done {
        Ok(done) => done,
        Err(failed) => return finish::<NoBody>(call, reply, &Err(failed)),
    };
    let len = u32::try_from(done.count).unwrap_or_default();
    reply.put(&Nfsstat2::Ok);
    reply.put(&attr::fattr2(&done.attr));
    reply.u32(len);
    reply.advance(done.count);
    reply.pad(done.count);
    call.outcome.status = Nfsstat2::Ok.number();
    call.outcome.bytes_read = len;
    Ok(())
}
