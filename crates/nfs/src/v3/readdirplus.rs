//! READDIRPLUS (RFC 1813 §3.3.17). `maxcount` bounds the whole result, `dircount` the part of it
//! that READDIR would give.

use super::{arguments, listing};
use crate::Nfs;
use proto::nfs3::ReaddirplusArgs;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn readdirplus(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: ReaddirplusArgs<'_> = arguments(args)?;
    let request = listing::Request {
        dir: a.dir.0,
        cookie: a.cookie,
        max_bytes: a.maxcount,
        max_info: a.dircount,
        plus: true,
    };
    listing::list(nfs, call, reply, &request)
}
