//! GRANTED and GRANTED_MSG: calls to a client whose request waited.
//!
//! The lock is the client's from the moment of the grant. The client is called by the procedure that fits its request,
//! and after two calls without an answer by the other one, until it answers: after 2 s, then 4, 8, 16, and each 30 s.
//! GRANTED confirms; anything else gives the lock back. Of a client that has not answered for a minute the lock is
//! taken when somebody else waits for it: it may be gone, or a firewall be in between, and then it asks again and finds
//! out.
//!
//! Answers arrive on threads that must not block. They are noted, and [`Nlm::tick`] does what follows from them.

use super::Nlm;
use super::request::{arguments, finish};
use super::waiting::{Grant, GrantAnswer, GrantCallback, GrantTarget, patience_ms};
use proto::nlm::{Answer, Lock, Status, TestArgs, Versioned, Width, procedure};
use rpc::{
    Blocking, Call, CallCredential, CallFailure, CallTarget, Fault, OutboundCall, ProgramPort,
};
use state::{FileKey, Granted, Mode, Now, Tag, Who};
use std::sync::Arc;
use xdr::{Reader, Writer};

/// A client that has not answered for so long loses the lock to others who wait.
const SILENCE_MAX_MS: u64 = 60_000;
/// Calls by one procedure before the other is tried.
const CALLS_BY_ONE_PROCEDURE: u32 = 2;

/// The procedure of the next call.
const fn next_callback(target: &GrantTarget, calls: u32) -> GrantCallback {
    match (calls / CALLS_BY_ONE_PROCEDURE) % 2 {
        0 => target.callback,
        _ => target.callback.other(),
    }
}

/// GRANTED from elsewhere: nothing here waits for a lock.
pub(super) fn granted<const VERSION: u32>(
    _: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let args: TestArgs<'_> = arguments::<VERSION, _>(args)?;
    let status = Status::Denied;
    finish::<VERSION>(call, reply, &Answer { cookie: args.cookie, status }, status);
    Ok(())
}

/// GRANTED_RES: the answer to a GRANTED_MSG of ours. It counts only from the address of the client and with the cookie
/// that the client was given, so that nobody can give away another's lock.
pub(super) fn granted_res<const VERSION: u32>(
    nlm: &Nlm,
    call: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    let answer: Answer<'_> = arguments::<VERSION, _>(args)?;
    let tag = nlm.waiting.tag(answer.cookie);
    if let Some(tag) = tag.filter(|tag| nlm.waiting.is_of(*tag, call.peer.addr.ip())) {
        nlm.note_answer(tag, answer.status.into());
    }
    Ok(())
}

impl Nlm {
    /// Tells a client that its request was granted.
    pub(super) fn tell(&self, granted: &Granted) {
        if let Who::V4 { .. } = granted.holder.who() {
            return self.tell_v4(granted);
        }
        let now = self.now();
        if self.waiting.granted(now, granted) {
            self.call_about(now, granted.tag);
            self.wake();
        }
    }

    /// Makes the call about a grant that is due.
    fn call_about(&self, now: Now, tag: Tag) {
        let Some((grant, target)) = self.waiting.next_call(now, tag) else { return };
        let callback = next_callback(&target, grant.calls);
        let width = Width::of_version(target.version).unwrap_or(Width::Bits64);
        let done = self.answer_to(tag, callback, width);
        self.calls.call(OutboundCall {
            target: CallTarget::Machine {
                to: target.to,
                port: ProgramPort::AskPortmapper,
                transport: target.transport,
            },
            program: proto::nlm::PROGRAM,
            version: target.version,
            procedure: match callback {
                GrantCallback::Granted => procedure::GRANTED,
                GrantCallback::GrantedMsg => procedure::GRANTED_MSG,
            },
            credential: CallCredential::Root,
            args: self.grant_args(&grant, &target, width),
            timeout_ms: patience_ms(grant.calls),
            expects_reply: callback == GrantCallback::Granted,
            done,
        });
    }

    fn grant_args(&self, grant: &Grant, target: &GrantTarget, width: Width) -> Vec<u8> {
        let Granted { tag, holder, range, mode, .. } = &grant.granted;
        let (svid, oh) = match holder.who() {
            Who::Nlm { svid, oh, .. } => (svid, oh),
            // those of version 4 are told otherwise
            Who::V4 { owner, .. } => (0, owner),
        };
        let cookie = self.waiting.cookie(*tag);
        let args = TestArgs {
            cookie: &cookie,
            exclusive: *mode == Mode::Write,
            lock: Lock {
                caller_name: &self.own_name,
                handle: &target.handle,
                oh,
                svid,
                offset: range.start(),
                len: range.wire_len(),
            },
        };
        let mut w = Writer::new();
        args.encode(&mut w, width);
        w.bytes().to_vec()
    }

    /// What is done with the outcome of a call: an answer is noted; without one the next call comes in its time.
    fn answer_to(&self, tag: Tag, callback: GrantCallback, width: Width) -> rpc::Completion {
        let answers = Arc::clone(&self.answers);
        Box::new(move |outcome: Result<&[u8], CallFailure>| {
            let answer = match outcome {
                Ok(result) if callback == GrantCallback::Granted => {
                    Answer::decode(&mut Reader::new(result), width).ok()
                }
                Ok(_) | Err(_) => None,
            };
            if let Some(answer) = answer {
                answers.note(tag, answer.status.into());
            }
        })
    }

    pub(super) fn note_answer(&self, tag: Tag, answer: GrantAnswer) {
        self.answers.note(tag, answer);
    }

    /// Does what follows from the answers that have come.
    pub(super) fn run_answers(&self, blocking: &dyn Blocking) {
        for (tag, answer) in self.answers.take() {
            let Some(file) = self.waiting.remove(tag) else { continue };
            match answer {
                GrantAnswer::Confirmed => self.state().confirm(&file, tag),
                GrantAnswer::Refused => self.withdraw(blocking, &file, tag),
            }
        }
    }

    pub(super) fn withdraw(&self, blocking: &dyn Blocking, file: &FileKey, tag: Tag) {
        let (_went, effects) = self.state().withdraw(self.now(), file, tag);
        self.run(blocking, effects);
    }

    /// Calls the clients again that have not answered.
    pub(super) fn call_again(&self, blocking: &dyn Blocking, now: Now) {
        for (tag, file, since) in self.waiting.due(now) {
            let silent = now.0.saturating_sub(since.0) >= SILENCE_MAX_MS;
            match self.state().open_grant(&file, tag) {
                // it was given back, or asked for once more and thereby confirmed
                None => drop(self.waiting.remove(tag)),
                Some(others_wait) if silent && others_wait => {
                    self.waiting.remove(tag);
                    self.withdraw(blocking, &file, tag);
                }
                Some(_) => self.call_about(now, tag),
            }
        }
    }
}
