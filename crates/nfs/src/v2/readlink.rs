//! READLINK (RFC 1094 §2.2.6).

use super::serve;
use crate::{Nfs, verbs};
use proto::nfs2::{Fh2, MAXPATHLEN};
use rpc::{Call, Fault};
use vfs::Status;
use xdr::{Encode, Reader, Writer};

/// A link's target, owned.
struct LinkTarget(Vec<u8>);

impl Encode for LinkTarget {
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
        // A client that decodes strictly drops the reply with a longer one, and retransmits for ever.
        if target.len() > MAXPATHLEN {
            return Err(Status::NameTooLong);
        }
        Ok(LinkTarget(target))
    })
}
