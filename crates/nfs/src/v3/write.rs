//! WRITE (RFC 1813 §3.3.7). The data is borrowed from the record. More of it than the server takes at
//! once is written in part, which a client must expect.

use super::{arguments, attr, finish, status, wcc_as};
use crate::{Nfs, verbs};
use proto::nfs3::{Res, StableHow, WriteArgs, WriteOk};
use rpc::{Call, Fault};
use vfs::Stability;
use xdr::{Reader, Writer};

pub(super) fn write(
    nfs: &Nfs,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let a: WriteArgs<'_> = arguments(args)?;
    let most = nfs.settings.write_max(call.peer.transport) as usize;
    let data = a.data.0.get(..most).unwrap_or(a.data.0);
    let result = match verbs::write(nfs, call, a.file.0, a.offset, data, stability(a.stable)) {
        Ok(written) => {
            let count = u32::try_from(written.done.count).unwrap_or(u32::MAX);
            call.outcome.bytes_written = count;
            Res::Ok(WriteOk {
                file: attr::wcc(&written.done.file),
                count,
                committed: stable_how(written.done.committed),
                verf: written.verifier,
            })
        }
        Err(failed) => wcc_as(status::of_data(failed.status), &failed),
    };
    finish(call, reply, &result)
}

const fn stability(how: StableHow) -> Stability {
    match how {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::DataSync,
        StableHow::FileSync => Stability::FileSync,
    }
}

const fn stable_how(stability: Stability) -> StableHow {
    match stability {
        Stability::Unstable => StableHow::Unstable,
        Stability::DataSync => StableHow::DataSync,
        Stability::FileSync => StableHow::FileSync,
    }
}
