//! Callbacks of version 4.0: over a connection of the server's to the address that SETCLIENTID came from (RFC 7530 §17), as
//! whom SETCLIENTID came from (§3.3.3).
//!
//! CB_NULL says whether a client's callback program answers; until then, and after a callback that it has not answered, the
//! client gets no delegation. One that answers callbacks by something else is not tried again until SETCLIENTID names it anew. Linux takes CB_NULL by AUTH_NONE and CB_COMPOUND by AUTH_SYS.
//!
//! Of a client at most [`UNDER_WAY_MAX`] callbacks are under way and [`WAITING_MAX`] wait for these; of all clients of an address
//! (64 bits of IPv6) at most [`OF_ADDRESS_MAX`] are under way, so that none takes all connections. When one cannot be delivered those that wait fail with it, as they would after its time: whoever recalls a delegation does so again.
//! [`rpc::Outbound`] bounds the connections and their times, and pauses after failures.
//!
//! One mutex guards the queues and is held for operations on lists. No call is made and no completion runs under it.
//!
//! Invariants: a client is in the table as long as a callback to it is under way; `of_address` counts those of each address.

use super::client_program;
use super::counters::Counters;
use super::operation::{CallbackAnswer, CallbackFailure, Done, Operation};
use proto::nfs4::{CbCompoundHead, CbCompoundResult, cb_op};
use rpc::{
    CallCredential, CallFailure, CallTarget, CallUser, CallerAddress, Outbound, ProgramPort,
    Transport, client_network,
};
use state::v4::{Callback, CallbackCredential, CallbackPath};
use std::collections::hash_map::{Entry, OccupiedEntry};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use xdr::{Reader, Writer};

/// Callbacks that are under way to a client.
const UNDER_WAY_MAX: usize = 8;
/// The same of all clients of an address.
const OF_ADDRESS_MAX: usize = 32;
/// Callbacks that wait for those of their client.
const WAITING_MAX: usize = 1024;

/// A callback to a client's address.
struct Addressed {
    client: u64,
    to: Arc<Callback>,
    operation: Operation,
    done: Done,
}

/// The callbacks to a client.
#[derive(Default)]
struct Queue {
    under_way: usize,
    waiting: VecDeque<Addressed>,
}

/// The clients that are called back.
#[derive(Default)]
struct Queues {
    of_client: HashMap<u64, Queue>,
    of_address: HashMap<IpAddr, usize>,
}

impl Queues {
    /// The callback, if it is to be sent now; an error if too many wait.
    fn begin(&mut self, call: Addressed) -> Result<Option<Addressed>, Addressed> {
        let address = client_network(call.to.address);
        let queue = self.of_client.get(&call.client).map_or(0, |queue| queue.under_way);
        if queue < UNDER_WAY_MAX {
            let of_address = self.of_address.entry(address).or_default();
            if *of_address >= OF_ADDRESS_MAX {
                return Err(call);
            }
            *of_address = of_address.saturating_add(1);
            let queue = self.of_client.entry(call.client).or_default();
            queue.under_way = queue.under_way.saturating_add(1);
            return Ok(Some(call));
        }
        let queue = self.of_client.entry(call.client).or_default();
        if queue.waiting.len() >= WAITING_MAX {
            return Err(call);
        }
        queue.waiting.push_back(call);
        Ok(None)
    }

    /// One has ended: those that are to be sent, or that fail with it.
    fn ended(&mut self, (client, address): (u64, IpAddr), delivered: bool) -> VecDeque<Addressed> {
        if let Entry::Occupied(mut of_address) = self.of_address.entry(client_network(address)) {
            *of_address.get_mut() = of_address.get().saturating_sub(1);
            if *of_address.get() == 0 {
                of_address.remove();
            }
        }
        let Entry::Occupied(mut queue) = self.of_client.entry(client) else {
            return VecDeque::new();
        };
        if !delivered {
            let failed = std::mem::take(&mut queue.get_mut().waiting);
            leave(queue);
            return failed;
        }
        let Some(next) = queue.get_mut().waiting.pop_front() else {
            leave(queue);
            return VecDeque::new();
        };
        // it takes the place of the one that has ended
        let of_address = self.of_address.entry(client_network(next.to.address)).or_default();
        *of_address = of_address.saturating_add(1);
        VecDeque::from([next])
    }
}

/// One callback less is under way to a client.
fn leave(mut queue: OccupiedEntry<'_, u64, Queue>) {
    queue.get_mut().under_way = queue.get().under_way.saturating_sub(1);
    if queue.get().under_way == 0 {
        queue.remove();
    }
}

/// The target of calls; `None` if the client has given no address that may be called.
fn target(to: &Callback) -> Option<CallTarget> {
    let port = match to.path() {
        CallbackPath::Up => ProgramPort::Answered(to.port?),
        CallbackPath::Unknown | CallbackPath::Down => ProgramPort::Known(to.port?),
    };
    let address = CallerAddress::recorded(to.address, to.local);
    Some(CallTarget::Machine { to: address, port, transport: Transport::Tcp })
}

fn credential(to: &Callback) -> Option<CallCredential> {
    match &to.credential {
        CallbackCredential::None => Some(CallCredential::None),
        CallbackCredential::User(user) => Some(CallCredential::User(Arc::new(CallUser {
            machine: user.machine.clone(),
            uid: user.uid,
            gid: user.gid,
            groups: user.groups.clone(),
        }))),
        CallbackCredential::Unavailable => None,
    }
}

/// The arguments of CB_COMPOUND.
fn encode(operation: &Operation, to: &Callback) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&CbCompoundHead { tag: b"", minor: 0, ident: to.ident, count: 1 });
    operation.encode(&mut w);
    w.bytes().to_vec()
}

/// The answer to the operation of a CB_COMPOUND that was executed; `None` if this is none.
fn decode(result: &[u8], number: u32) -> Option<CallbackAnswer<'_>> {
    let mut r = Reader::new(result);
    let head: CbCompoundResult<'_> = r.get().ok()?;
    if head.count == 0 {
        return (head.status != 0).then_some(CallbackAnswer { status: head.status, results: &[] });
    }
    let [answered, status] = r.words().ok()?;
    let is_fit = head.count == 1 && (answered == number || status != 0);
    is_fit.then(|| CallbackAnswer { status, results: r.rest() })
}

/// Whether a failure says that callbacks do not reach the client. It is not one if the server has too much to do.
const fn is_of_path(failure: CallFailure) -> bool {
    !matches!(
        failure,
        CallFailure::Stopped
            | CallFailure::NoRoom
            | CallFailure::Displaced
            | CallFailure::Cancelled
            | CallFailure::ConnClosed
    )
}

/// Callbacks to addresses.
#[derive(Default)]
pub struct AddressCallbacks {
    queues: Mutex<Queues>,
    /// What makes calls, and counts them.
    outbound: OnceLock<(Arc<dyn Outbound>, Arc<Counters>)>,
}

impl AddressCallbacks {
    /// Sets what makes calls, once; further ones are ignored. Without it no address is called.
    pub(super) fn set_outbound(&self, outbound: Arc<dyn Outbound>, counters: Arc<Counters>) {
        let _first = self.outbound.set((outbound, counters));
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a client's callback program, to learn whether it answers, unless that is under way.
    pub fn probe(&self, to: Arc<Callback>) {
        let (Some(target), Some((outbound, _))) = (target(&to), self.outbound.get()) else {
            return;
        };
        if !to.begin_probe() {
            return;
        }
        let program = to.program;
        let done = Box::new(move |answer: Result<&[u8], CallFailure>| {
            to.end_probe(match answer {
                Ok(_) => Some(true),
                Err(failure) => is_of_path(failure).then_some(false),
            });
        });
        outbound.call(client_program::null(target, program, done));
    }

    /// Sends a callback to a client's address; `done` is called with the answer.
    pub fn call(
        self: &Arc<Self>,
        (client, to): (u64, Arc<Callback>),
        operation: Operation,
        done: Done,
    ) {
        // version 4.0 has no others
        if !matches!(operation.number(), cb_op::RECALL | cb_op::GETATTR) {
            return done(Err(CallbackFailure::NoPath));
        }
        let begun = self.queues().begin(Addressed { client, to, operation, done });
        match begun {
            Ok(Some(call)) => self.send(call),
            Ok(None) => {}
            Err(call) => self.finish(call.done, Err(CallbackFailure::NoRoom)),
        }
    }

    fn send(self: &Arc<Self>, call: Addressed) {
        let ready = (target(&call.to), credential(&call.to), self.outbound.get());
        let (Some(target), Some(credential), Some((outbound, counters))) = ready else {
            return self.ended(call, Err(CallbackFailure::NoPath));
        };
        counters.sent.fetch_add(1, Relaxed);
        let args = encode(&call.operation, &call.to);
        let (program, callbacks) = (call.to.program, Arc::clone(self));
        let done =
            Box::new(move |result: Result<&[u8], CallFailure>| callbacks.answered(call, result));
        outbound.call(client_program::compound(target, program, (credential, args), done));
    }

    fn answered(self: &Arc<Self>, call: Addressed, result: Result<&[u8], CallFailure>) {
        let answer = match result {
            Ok(result) => match decode(result, call.operation.number()) {
                Some(answer) => {
                    call.to.tried(true);
                    Ok(answer)
                }
                None => {
                    call.to.misunderstood();
                    Err(CallbackFailure::Unanswered)
                }
            },
            Err(CallFailure::Refused(_) | CallFailure::Garbled) => {
                call.to.misunderstood();
                Err(CallbackFailure::Unanswered)
            }
            Err(failure) if is_of_path(failure) => {
                call.to.tried(false);
                Err(CallbackFailure::Unanswered)
            }
            Err(CallFailure::Stopped) => Err(CallbackFailure::Stopped),
            Err(_) => Err(CallbackFailure::NoRoom),
        };
        self.ended(call, answer);
    }

    fn ended(
        self: &Arc<Self>,
        call: Addressed,
        answer: Result<CallbackAnswer<'_>, CallbackFailure>,
    ) {
        let next = self.queues().ended((call.client, call.to.address), answer.is_ok());
        self.finish(call.done, answer);
        for call in next {
            match answer {
                Ok(_) => self.send(call),
                Err(failure) => self.finish(call.done, Err(failure)),
            }
        }
    }

    fn finish(&self, done: Done, answer: Result<CallbackAnswer<'_>, CallbackFailure>) {
        if let Some((_, counters)) = self.outbound.get() {
            match answer {
                Ok(_) => counters.answered.fetch_add(1, Relaxed),
                Err(_) => counters.failed.fetch_add(1, Relaxed),
            };
        }
        done(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::{Addressed, OF_ADDRESS_MAX, Operation, Queues, UNDER_WAY_MAX, WAITING_MAX, decode};
    use proto::nfs4::cb_op;
    use state::v4::{Callback, CallbackCredential};
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn call(client: u64) -> Addressed {
        call_at(client, HERE)
    }

    fn call_at(client: u64, here: IpAddr) -> Addressed {
        let credential = CallbackCredential::None;
        let to = Arc::new(Callback::new((1, 1), (here, here), Some(1), credential));
        let operation = Operation::Getattr { handle: Box::default(), keeps_times: false };
        Addressed { client, to, operation, done: Box::new(|_| {}) }
    }

    #[test]
    fn callbacks_of_a_client_are_bounded_and_those_that_wait_follow() {
        let mut queues = Queues::default();
        for _ in 0..UNDER_WAY_MAX {
            assert!(queues.begin(call(1)).is_ok_and(|sent| sent.is_some()));
        }
        for _ in 0..WAITING_MAX {
            assert!(queues.begin(call(1)).is_ok_and(|sent| sent.is_none()));
        }
        assert!(queues.begin(call(1)).is_err());
        assert!(queues.begin(call(2)).is_ok_and(|sent| sent.is_some()), "another client's");
        assert_eq!(queues.ended((1, HERE), true).len(), 1);
        assert!(queues.begin(call(1)).is_ok_and(|sent| sent.is_none()), "the next one goes");
        assert_eq!(
            queues.ended((1, HERE), false).len(),
            WAITING_MAX,
            "none waits for its time to be over"
        );
        for _ in 1..UNDER_WAY_MAX {
            assert_eq!(queues.ended((1, HERE), true).len(), 0);
        }
        assert_eq!(queues.ended((2, HERE), true).len(), 0);
        assert!(queues.of_client.is_empty() && queues.of_address.is_empty());
    }

    #[test]
    fn the_clients_of_an_address_do_not_take_all_connections() {
        let mut queues = Queues::default();
        let at = |host: u64| IpAddr::V6((0x2001_u128 << 112 | u128::from(host)).into());
        for client in 0..OF_ADDRESS_MAX as u64 {
            assert!(queues.begin(call_at(client, at(client))).is_ok_and(|sent| sent.is_some()));
        }
        assert!(queues.begin(call_at(100, at(100))).is_err());
        assert!(queues.begin(call(101)).is_ok_and(|sent| sent.is_some()), "from elsewhere");
        assert_eq!(queues.ended((1, at(1)), false).len(), 0);
        assert!(queues.begin(call_at(100, at(100))).is_ok_and(|sent| sent.is_some()));
    }

    #[test]
    fn an_answer_is_one_result_of_the_operation() {
        let answer = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            decode(&bytes, cb_op::RECALL).map(|answer| (answer.status, answer.results.len()))
        };
        assert_eq!(answer(&[0, 0, 1, cb_op::RECALL, 0]), Some((0, 0)));
        assert_eq!(answer(&[10_001, 0, 1, cb_op::RECALL, 10_001]), Some((10_001, 0)));
        assert_eq!(answer(&[0, 0, 1, cb_op::RECALL, 0, 7]), Some((0, 4)));
        // of another minor version, or of no operation that the client has
        assert_eq!(answer(&[10_021, 0, 0]), Some((10_021, 0)));
        assert_eq!(answer(&[10_044, 0, 1, 10_044, 10_044]), Some((10_044, 0)));
        for wrong in [&[][..], &[0, 0, 0], &[0, 0, 1, cb_op::GETATTR, 0], &[0, 0, 1], &[0, 9, 1]] {
            assert_eq!(answer(wrong), None, "{wrong:?}");
        }
        assert_eq!(answer(&[0, 0, 2, cb_op::RECALL, 0]), None);
    }
}
