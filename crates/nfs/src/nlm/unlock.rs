//! UNLOCK. The reply is GRANTED even if nothing was locked, also in the grace period: it can only release.

use super::Nlm;
use super::request::{arguments, finish};
use proto::nlm::{Answer, Status, UnlockArgs};
use rpc::{Call, Fault};
use state::Who;
use xdr::{Reader, Writer};

pub(super) fn unlock<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let args: UnlockArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = nlm.unlock::<VERSION>(call, &args);
    finish::<VERSION>(call, reply, &Answer { cookie: args.cookie, status }, status);
    Ok(())
}

impl Nlm {
    /// The status of giving a range back. The file need not exist any more, nor the caller's right to it.
    pub(super) fn unlock<const VERSION: u32>(
        &self,
        call: &Call<'_>,
        args: &UnlockArgs<'_>,
    ) -> Status {
        let lock = &args.lock;
        let (range, key, host) = match self.to_release::<VERSION>(call, lock) {
            Ok(found) => found,
            Err(status) => return status,
        };
        let who = Who::Nlm { host, svid: lock.svid, oh: lock.oh };
        self.decide(call.blocking, || self.state().unlock(self.now(), &key, &who, range)).status()
    }
}
