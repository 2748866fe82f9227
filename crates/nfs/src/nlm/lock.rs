//! LOCK and NM_LOCK.
//!
//! NM_LOCK is for clients without a status monitor: what they hold is not recorded, and a restart forgets it.

use super::Nlm;
use super::act::Answer;
use super::request::{Sender, arguments, finish, mode, range, width};
use proto::nlm::{self, LockArgs, Status};
use rpc::{Call, Fault};
use state::{How, LockRequest, Who};
use xdr::{Reader, Writer};

pub(super) fn lock<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    answered::<VERSION>(nlm, call, args, reply, true)
}

pub(super) fn nm_lock<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    answered::<VERSION>(nlm, call, args, reply, false)
}

fn answered<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
    monitored: bool,
) -> Result<(), Fault> {
    let args: LockArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = nlm.lock::<VERSION>(call, &args, monitored);
    finish::<VERSION>(call, reply, &nlm::Answer { cookie: args.cookie, status }, status);
    Ok(())
}

impl Nlm {
    /// The status of a request for a lock.
    pub(super) fn lock<const VERSION: u32>(
        &self,
        call: &mut Call<'_>,
        args: &LockArgs<'_>,
        monitored: bool,
    ) -> Status {
        match self.try_lock::<VERSION>(call, args, monitored) {
            Ok(answer) => answer.status(),
            Err(status) => status,
        }
    }

    fn try_lock<const VERSION: u32>(
        &self,
        call: &mut Call<'_>,
        args: &LockArgs<'_>,
        monitored: bool,
    ) -> Result<Answer, Status> {
        let LockArgs { lock, exclusive, reclaim, state, .. } = *args;
        let range = range(&lock, width::<VERSION>())?;
        let file = self.file(call, lock.handle, exclusive)?;
        let sender = Sender { name: lock.caller_name, version: VERSION, nsm_state: state };
        let host = self.host(call, sender)?;
        let who = Who::Nlm { host, svid: lock.svid, oh: lock.oh };
        let how = if reclaim { How::Reclaim } else { How::Try };
        let local = self.excludes_local(&file);
        let kept = Some(file.for_core());
        let request =
            LockRequest { who, range, mode: mode(exclusive), how, local, monitored, kept };
        let ask = || self.state().lock(self.now(), &file.key, &request);
        Ok(self.decide(call.blocking, ask))
    }
}
