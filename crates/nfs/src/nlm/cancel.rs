//! CANCEL: takes a request back that waits.
//!
//! If the lock was granted meanwhile the answer is DENIED and the lock stays: the client, which may have the GRANTED
//! call in its hands at this moment, unlocks what it does not want.

use super::Nlm;
use super::request::{arguments, finish, mode};
use proto::nlm::{Answer, CancelArgs, Status};
use rpc::{Call, Fault};
use state::{Cancelled, Who};
use xdr::{Reader, Writer};

pub(super) fn cancel<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let args: CancelArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = nlm.cancel::<VERSION>(call, &args);
    finish::<VERSION>(call, reply, &Answer { cookie: args.cookie, status }, status);
    Ok(())
}

impl Nlm {
    /// The status of taking a request back.
    pub(super) fn cancel<const VERSION: u32>(
        &self,
        call: &Call<'_>,
        args: &CancelArgs<'_>,
    ) -> Status {
        let lock = &args.lock;
        let (range, key, host) = match self.to_release::<VERSION>(call, lock) {
            Ok(found) => found,
            Err(status) => return status,
        };
        let (who, mode) = (Who::Nlm { host, svid: lock.svid, oh: lock.oh }, mode(args.exclusive));
        let (cancelled, effects) = self.state().cancel(self.now(), &key, &who, range, mode);
        self.run(call.blocking, effects);
        match cancelled {
            Cancelled::Removed(tag) => {
                self.waiting.remove(tag);
                Status::Granted
            }
            Cancelled::Held | Cancelled::Unknown => Status::Denied,
        }
    }
}
