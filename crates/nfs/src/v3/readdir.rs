//! READDIR (RFC 1813 §3.3.16). `count` bounds the whole result; names are not bounded on their own.

use super::{arguments, listing};
use crate::Nfs;
use proto::nfs3::ReaddirArgs;
use rpc::{Call, Fault};
use xdr::{Reader, Writer};

pub(super) fn readdir(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: ReaddirArgs<'_> = arguments(args)?;
    let request = listing::Request {
        dir: a.dir.0,
        cookie: a.cookie,
        max_bytes: a.count,
        max_info: u32::MAX,
        plus: false,
    };
    listing::list(nfs, call, reply, &request)
}
