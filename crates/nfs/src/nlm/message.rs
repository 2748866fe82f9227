//! The `_MSG` procedures: calls that are answered at once with nothing, and whose answer, `_RES`, is a call back to
//! where they came from: over the same connection, or to the datagram's address and port from the socket that it came
//! to.

use super::Nlm;
use super::request::{arguments, width};
use super::waiting::GrantCallback;
use proto::nlm::{
    Answer, CancelArgs, LockArgs, PROGRAM, Status, TestAnswer, TestArgs, UnlockArgs, Versioned,
    procedure,
};
use rpc::{Call, Fault, Request};
use std::sync::atomic::Ordering::Relaxed;
use xdr::{Reader, Writer};

pub(super) fn test_msg<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let args: TestArgs<'_> = arguments::<VERSION, _>(args)?;
    let found = nlm.test::<VERSION>(call, &args);
    let answer = TestAnswer { cookie: args.cookie, result: found.result() };
    call.outcome.status = found.status().number();
    nlm.post::<VERSION>(call, procedure::TEST_RES, &answer);
    Ok(())
}

pub(super) fn lock_msg<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let args: LockArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = nlm.lock::<VERSION>(call, &args, true, GrantCallback::GrantedMsg);
    nlm.post_status::<VERSION>(call, procedure::LOCK_RES, args.cookie, status);
    Ok(())
}

pub(super) fn cancel_msg<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let args: CancelArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = nlm.cancel::<VERSION>(call, &args);
    nlm.post_status::<VERSION>(call, procedure::CANCEL_RES, args.cookie, status);
    Ok(())
}

pub(super) fn unlock_msg<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let args: UnlockArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = nlm.unlock::<VERSION>(call, &args);
    nlm.post_status::<VERSION>(call, procedure::UNLOCK_RES, args.cookie, status);
    Ok(())
}

/// GRANTED_MSG from elsewhere: nothing here waits for a lock.
pub(super) fn granted_msg<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let args: TestArgs<'_> = arguments::<VERSION, _>(args)?;
    nlm.post_status::<VERSION>(call, procedure::GRANTED_RES, args.cookie, Status::Denied);
    Ok(())
}

/// TEST_RES: an answer to a call that this server never makes.
pub(super) fn test_res<const VERSION: u32>(
    _: &Nlm,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let _answer: TestAnswer<'_> = arguments::<VERSION, _>(args)?;
    Ok(())
}

/// LOCK_RES, CANCEL_RES and UNLOCK_RES: the same.
pub(super) fn other_res<const VERSION: u32>(
    _: &Nlm,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let _answer: Answer<'_> = arguments::<VERSION, _>(args)?;
    Ok(())
}

impl Nlm {
    fn post_status<const VERSION: u32>(
        &self,
        call: &mut Call<'_>,
        procedure: u32,
        cookie: &[u8],
        status: Status,
    ) {
        call.outcome.status = status.number();
        self.post::<VERSION>(call, procedure, &Answer { cookie, status });
    }

    /// Sends an answer that is a call of its own. A client that does not get it asks again.
    fn post<'a, const VERSION: u32>(
        &self,
        call: &Call<'_>,
        procedure: u32,
        answer: &impl Versioned<'a>,
    ) {
        let Some(back) = call.back_channel() else { return };
        let xid = self.next_xid.fetch_add(1, Relaxed);
        let mut message = Writer::new();
        let (program, version, credential) = (PROGRAM, VERSION, None);
        message.put(&Request { xid, program, version, procedure, credential });
        answer.encode(&mut message, width::<VERSION>());
        let _sent = back.post(message);
    }
}
