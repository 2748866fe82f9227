//! TEST: what is in the way of a lock.

use super::act::Answer;
use super::request::{Sender, Wanted, arguments, finish, mode, range, width};
use super::{Nlm, status};
use proto::nlm::{Holder, Status, TestAnswer, TestArgs, TestResult};
use rpc::{Call, Fault};
use state::{ByteRange, Conflict, Mode, Plan, Who};
use xdr::{Reader, Writer};

/// The owner handle by which a program of this machine is named.
const LOCAL_OWNER: &[u8] = b"local";

pub(super) fn test<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let args: TestArgs<'_> = arguments::<VERSION, _>(args)?;
    let found = nlm.test::<VERSION>(call, &args);
    let answer = TestAnswer { cookie: args.cookie, result: found.result() };
    finish::<VERSION>(call, reply, &answer, found.status());
    Ok(())
}

/// What TEST finds.
pub(super) enum Found {
    /// What is in the way.
    Conflict(Conflict),
    Other(Status),
}

impl Found {
    pub const fn status(&self) -> Status {
        match self {
            Self::Conflict(_) => Status::Denied,
            Self::Other(status) => *status,
        }
    }

    /// As the answer has it.
    pub fn result(&self) -> TestResult<'_> {
        let conflict = match self {
            Self::Conflict(conflict) => conflict,
            Self::Other(status) => return TestResult::Other(*status),
        };
        TestResult::Denied(match conflict {
            Conflict::Lock { holder, range, mode } => {
                let (svid, name) = match holder.who() {
                    Who::Nlm { svid, oh, .. } => (svid, oh),
                    // there is no process that this protocol could name
                    Who::V4 { owner, .. } => (0, owner),
                };
                held(svid, name, *range, *mode)
            }
            Conflict::Local(found) => held(found.pid, LOCAL_OWNER, found.range, found.mode),
            Conflict::Share(_) | Conflict::Open => held(0, &[], ByteRange::ALL, Mode::Write),
        })
    }
}

const fn held(svid: i32, oh: &[u8], range: ByteRange, mode: Mode) -> Holder<'_> {
    let exclusive = matches!(mode, Mode::Write);
    Holder { exclusive, svid, oh, offset: range.start(), len: range.wire_len() }
}

impl Nlm {
    /// What is in the way of the lock that the arguments describe.
    pub(super) fn test<const VERSION: u32>(
        &self,
        call: &mut Call<'_>,
        args: &TestArgs<'_>,
    ) -> Found {
        self.try_test::<VERSION>(call, args).unwrap_or_else(Found::Other)
    }

    fn try_test<const VERSION: u32>(
        &self,
        call: &mut Call<'_>,
        args: &TestArgs<'_>,
    ) -> Result<Found, Status> {
        let TestArgs { lock, exclusive, .. } = *args;
        let (range, mode) = (range(&lock, width::<VERSION>())?, mode(exclusive));
        let file = self.file(call, lock.handle, Wanted::Lock { exclusive })?;
        let sender = Sender { name: lock.caller_name, version: VERSION, nsm_state: 0 };
        let host = self.host(call, sender)?;
        if self.state().in_grace(self.now()) {
            return Ok(Found::Other(Status::DeniedGracePeriod));
        }
        let who = Who::Nlm { host, svid: lock.svid, oh: lock.oh };
        let answer = self.decide(call.blocking, || {
            let plan = match self.state().test(&file.key, &who, range, mode) {
                state::TestAnswer::Free => Plan::Granted,
                state::TestAnswer::Held(found) => Plan::Denied(found),
                state::TestAnswer::Again => Plan::Again,
            };
            (plan, state::Effects::default())
        });
        match answer {
            Answer::Denied(found) => Ok(Found::Conflict(found)),
            Answer::Status(Status::Granted) if self.excludes_local(&file) => {
                let found = file.local_conflict(call.blocking, range, mode);
                let found = found.map_err(status::of)?.map(Conflict::Local);
                Ok(found.map_or(Found::Other(Status::Granted), Found::Conflict))
            }
            other => Ok(Found::Other(other.status())),
        }
    }
}
