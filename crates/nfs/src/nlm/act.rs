//! Executes what the state core requests: sets the kernel's locks, stores records, releases silent hosts, and retries
//! until there is an answer.
//!
//! No lock is held here: the core has released its locks when its calls return.

use super::locked_file::{LocalResult, let_go};
use super::{Nlm, status};
use proto::nlm::Status;
use rpc::Blocking;
use state::{
    Conflict, Effect, Effects, HostId, HostRemoval, LocalAnswer, LocalOp, Plan, Record, Tag, Ticket,
};
use std::time::Duration;

/// How often a call asks again while another request for the same bytes is being decided.
const AGAIN_MAX: u32 = 2;
/// How long it waits before that.
const AGAIN_WAIT: Duration = Duration::from_millis(1);
/// How often a call asks again after it has stored a record or released a host: each such step is needed once, and a
/// host that is released at the same moment may cost another.
const STEPS_MAX: u32 = 8;

/// What asking comes to.
#[derive(Debug)]
pub(super) enum Answer {
    /// This status.
    Status(Status),
    /// DENIED, because of this.
    Denied(Conflict),
    /// BLOCKED: it waits under this tag.
    Blocked(Tag),
}

impl Answer {
    pub const fn status(&self) -> Status {
        match self {
            Self::Status(status) => *status,
            Self::Denied(_) => Status::Denied,
            Self::Blocked(_) => Status::Blocked,
        }
    }
}

/// What follows from a plan.
enum Next {
    Answer(Answer),
    /// Something was done: ask again.
    Step,
    /// Another request is being decided: ask again in a moment.
    Again,
}

impl Nlm {
    /// Asks the core by `ask`, and does what it says until there is an answer.
    pub(super) fn decide(
        &self,
        blocking: &dyn Blocking,
        mut ask: impl FnMut() -> (Plan, Effects),
    ) -> Answer {
        let (mut again, mut steps) = (0, 0);
        loop {
            let (plan, effects) = ask();
            self.run(blocking, effects);
            match self.follow(blocking, plan) {
                Next::Answer(answer) => return answer,
                Next::Step if steps < STEPS_MAX => steps += 1,
                Next::Again if again < AGAIN_MAX => {
                    again += 1;
                    blocking.will_block();
                    std::thread::sleep(AGAIN_WAIT);
                }
                // neither granted nor denied falsely: the client asks later
                Next::Step | Next::Again => return Answer::Status(status::LATER),
            }
        }
    }

    fn follow(&self, blocking: &dyn Blocking, plan: Plan) -> Next {
        let mut cause = None;
        let plan = match plan {
            Plan::Local(ticket, op) => {
                let result = self.set_local(blocking, &op);
                cause = result.cause;
                self.settle(blocking, &ticket, result.answer)
            }
            plan => plan,
        };
        let status = match plan {
            Plan::Granted => Status::Granted,
            Plan::Denied(conflict) if self.has_expired(blocking, &conflict) => return Next::Step,
            Plan::Denied(conflict) => return Next::Answer(Answer::Denied(conflict)),
            Plan::Blocked(tag) => return Next::Answer(Answer::Blocked(tag)),
            Plan::Record(record) => return self.stored(blocking, &record),
            Plan::Silent(host) => return self.released(blocking, host),
            // what a settled question comes to is none
            Plan::Local(..) | Plan::Again => return Next::Again,
            Plan::Grace => Status::DeniedGracePeriod,
            Plan::NoGrace | Plan::Gone => Status::Denied,
            Plan::Deadlock => Status::Deadlock,
            Plan::NoRoom | Plan::UnknownHost => Status::DeniedNoLocks,
            Plan::Failed => cause.map_or(Status::Failed, status::of),
        };
        Next::Answer(Answer::Status(status))
    }

    /// Stores what has to be stored before the core grants.
    fn stored(&self, blocking: &dyn Blocking, record: &Record) -> Next {
        blocking.will_block();
        match self.nfs.store.append(record) {
            Ok(()) => {
                let effects = self.state().persisted(self.now(), record);
                self.machine_monitor.note(record);
                self.run(blocking, effects);
                Next::Step
            }
            Err(_) => {
                self.state().not_persisted(record);
                Next::Answer(Answer::Status(Status::DeniedNoLocks))
            }
        }
    }

    /// Takes everything from a host that has not called for so long that others may have its locks.
    fn released(&self, blocking: &dyn Blocking, host: HostId) -> Next {
        match self.state().release_host(self.now(), host) {
            HostRemoval::Record(record) => self.stored(blocking, &record),
            HostRemoval::Gone(_, effects) => {
                self.run(blocking, effects);
                Next::Step
            }
            HostRemoval::Unknown => Next::Again,
        }
    }

    /// Takes everything from a host, if nothing is in the way.
    pub(super) fn release(&self, blocking: &dyn Blocking, host: HostId) {
        let _done = self.released(blocking, host);
    }

    /// Asks the kernel on behalf of a file with state.
    fn set_local(&self, blocking: &dyn Blocking, op: &LocalOp) -> LocalResult {
        // the core keeps the file as long as it asks
        match self.files.find(&op.file) {
            Some(file) => {
                let result = file.set(blocking, op);
                if op.last && self.idle_files.add(self.now().0, file) {
                    self.wake();
                }
                result
            }
            None => LocalAnswer::Failed.into(),
        }
    }

    fn settle(&self, blocking: &dyn Blocking, ticket: &Ticket, answer: LocalAnswer) -> Plan {
        let (plan, effects) = self.state().settle(self.now(), ticket, answer);
        self.run(blocking, effects);
        plan
    }

    /// Runs what the core left to do, and what follows from that.
    pub(super) fn run(&self, blocking: &dyn Blocking, mut effects: Effects) {
        while !effects.is_empty() {
            let mut more = Effects::default();
            for effect in effects {
                match effect {
                    Effect::Local(ticket, op) => {
                        let answer = self.set_local(blocking, &op).answer;
                        let (_, next) = self.state().settle(self.now(), &ticket, answer);
                        more.append(next);
                    }
                    Effect::Granted(granted) => self.tell(&granted),
                    Effect::LetGo(kept) => let_go(kept),
                }
            }
            effects = more;
        }
    }
}
