//! LOCK and NM_LOCK.
//!
//! NM_LOCK is for clients without a status monitor: what they hold is not recorded, and a restart forgets it.

use super::Nlm;
use super::act::Answer;
use super::locked_file::LockedFile;
use super::request::{Sender, Wanted, arguments, finish, mode, range, width};
use super::waiting::{GrantCallback, GrantTarget};
use proto::nlm::{self, LockArgs, Status};
use rpc::{Blocking, Call, CallerAddress, Fault};
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
    let status = nlm.lock::<VERSION>(call, &args, monitored, GrantCallback::Granted);
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
        callback: GrantCallback,
    ) -> Status {
        match self.try_lock::<VERSION>(call, args, monitored, callback) {
            Ok(answer) => answer.status(),
            Err(status) => status,
        }
    }

    fn try_lock<const VERSION: u32>(
        &self,
        call: &mut Call<'_>,
        args: &LockArgs<'_>,
        monitored: bool,
        callback: GrantCallback,
    ) -> Result<Answer, Status> {
        let LockArgs { block, lock, exclusive, reclaim, state, .. } = *args;
        let range = range(&lock, width::<VERSION>())?;
        let file = self.file(call, lock.handle, Wanted::Lock { exclusive })?;
        let sender = Sender { name: lock.caller_name, version: VERSION, nsm_state: state };
        let host = self.host(call, sender)?;
        let who = Who::Nlm { host, svid: lock.svid, oh: lock.oh };
        let how = if reclaim { How::Reclaim } else { How::Try };
        let local = self.excludes_local(&file);
        let kept = Some(file.for_core());
        let request =
            LockRequest { who, range, mode: mode(exclusive), how, local, monitored, kept };
        let ask = || self.state().lock(self.now(), &file.key, &request);
        let answer = self.decide(call.blocking, ask);
        if !block || !matches!(answer, Answer::Denied(_)) {
            return Ok(answer);
        }
        let (to, transport) = (CallerAddress::of(call.peer), call.peer.transport);
        let target =
            GrantTarget { to, transport, version: VERSION, callback, handle: lock.handle.into() };
        Ok(self.wait(call.blocking, &file, request, target).unwrap_or(answer))
    }

    /// Asks for a lock that may be waited for. `None` if there is no room for another request.
    ///
    /// A request that need not wait costs no entry: it was tried before.
    fn wait(
        &self,
        blocking: &dyn Blocking,
        file: &LockedFile,
        request: LockRequest<'_>,
        target: GrantTarget,
    ) -> Option<Answer> {
        let tag = self.waiting.add(self.now(), file.key, target)?;
        let request = LockRequest { how: How::Wait(tag), ..request };
        let answer = self.decide(blocking, || self.state().lock(self.now(), &file.key, &request));
        match &answer {
            Answer::Blocked(own) if *own == tag => self.wake(),
            // it waits already, under another tag, or has its answer
            Answer::Blocked(_) | Answer::Denied(_) | Answer::Status(_) => {
                self.waiting.remove(tag);
            }
        }
        Some(answer)
    }
}
