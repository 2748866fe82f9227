//! A GSS mechanism without secrets, and a server with one program that uses it.

use bowline_gss::{
    Acceptor, Established, GssCounts, GssRefusal, Messages, Refusal, Room, RpcsecGss, Unprotected,
};
use rpc::{
    Blocking, Call, CallHost, ConnId, Credential, DispatchSettings, Dispatcher, Done, Fault, Line,
    Peer, Plan, Posted, Row, Service, Transport, Version,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use xdr::{Reader, Writer};

/// The program: NULL, ECHO, WHO (name, flavour), COUNT (not idempotent).
pub const PROGRAM: u32 = 400_000;

/// A checksum of these bytes.
pub fn checksum(message: &[u8]) -> Vec<u8> {
    let sum = message
        .iter()
        .fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    sum.to_be_bytes().to_vec()
}

/// A message as the toy seals it.
pub fn sealed(message: &[u8]) -> Vec<u8> {
    let mut token = [&[0; 4], message].concat();
    Toy.seal(&mut token).unwrap();
    token
}

/// The toy's messages.
pub struct Toy;

impl Messages for Toy {
    fn checksum(&self, message: &[u8]) -> Result<Vec<u8>, Unprotected> {
        Ok(checksum(message))
    }

    fn verify(&self, message: &[u8], sum: &[u8]) -> Result<(), Unprotected> {
        if checksum(message) == sum { Ok(()) } else { Err(Unprotected) }
    }

    fn room(&self) -> Room {
        Room { head: 4, tail: 0 }
    }

    fn seal(&self, token: &mut [u8]) -> Result<(), Unprotected> {
        let (place, message) = token.split_first_chunk_mut::<4>().ok_or(Unprotected)?;
        place.copy_from_slice(&checksum(message));
        message.iter_mut().for_each(|byte| *byte ^= 0x5a);
        Ok(())
    }

    fn open(&self, sealed: &[u8], buffer: &mut Vec<u8>) -> Result<Range<usize>, Unprotected> {
        let (sum, xor) = sealed.split_first_chunk::<4>().ok_or(Unprotected)?;
        *buffer = xor.iter().map(|byte| byte ^ 0x5a).collect();
        self.verify(buffer, sum)?;
        Ok(0..buffer.len())
    }
}

/// Accepts tokens that are a name and, behind a space, a lifetime in seconds. A name that begins with "held" waits at the
/// gate.
struct ToyAcceptor(Arc<Gate>);

/// Holds tokens until it is opened.
#[derive(Default)]
pub struct Gate {
    /// How many wait, and whether it is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, open)| !*open).unwrap());
    }

    /// Waits until so many wait.
    pub fn until(&self, count: usize) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |(waiting, _)| *waiting < count).unwrap());
    }

    pub fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

impl Acceptor for ToyAcceptor {
    fn accept(&self, token: &[u8]) -> Result<Established, Refusal> {
        let text = String::from_utf8_lossy(token).into_owned();
        if text.starts_with("held") {
            self.0.pass();
        }
        if text.starts_with("wrong") {
            return Err(Refusal { major: 9 << 16, minor: 77, text: "a wrong token".into() });
        }
        let (name, lifetime) = text.split_once(' ').unwrap_or((&text, "3600"));
        Ok(Established {
            messages: Box::new(Toy),
            token: token.iter().rev().copied().collect(),
            principal: name.into(),
            user: None,
            lifetime_s: lifetime.parse().ok(),
        })
    }
}

fn null(
    _: &AtomicU32,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    _: &mut Writer,
) -> Result<(), Fault> {
    Ok(args.end()?)
}

fn echo(
    _: &AtomicU32,
    _: &mut Call<'_>,
    args: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    reply.opaque(args.opaque(1024)?);
    Ok(args.end()?)
}

fn who(
    _: &AtomicU32,
    call: &mut Call<'_>,
    _: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    let Credential::Principal(principal) = call.credential else { return Err(Fault::TooWeak) };
    reply.opaque(&principal.name);
    reply.u32(principal.flavor);
    Ok(())
}

fn count(
    n: &AtomicU32,
    _: &mut Call<'_>,
    _: &mut Reader<'_>,
    reply: &mut Writer,
) -> Result<(), Fault> {
    reply.u32(n.fetch_add(1, Ordering::SeqCst));
    Ok(())
}

static ROWS: [Row<AtomicU32>; 4] = [
    Row::new("NULL", Plan::IDEMPOTENT, null),
    Row::new("ECHO", Plan::IDEMPOTENT, echo),
    Row::new("WHO", Plan::IDEMPOTENT, who),
    Row::new("COUNT", Plan::NON_IDEMPOTENT, count),
];
static VERSIONS: [Version<AtomicU32>; 1] = [Version { number: 1, rows: &ROWS, operations: &[] }];

/// A server with the flavour.
pub struct Server {
    pub dispatcher: Dispatcher,
    pub counts: Box<dyn Fn() -> GssCounts>,
    pub refusals: Receiver<String>,
    pub gate: Arc<Gate>,
    posted: Receiver<Vec<u8>>,
    host: Host,
}

/// Takes answers that are sent later.
struct Host(Sender<Vec<u8>>);

impl Blocking for Host {
    fn will_block(&self) {}
}

impl CallHost for Host {
    fn line(&self) -> Option<Box<dyn Line>> {
        Some(Box::new(ReplyLine(self.0.clone())))
    }

    fn conn(&self) -> Option<ConnId> {
        None
    }
}

struct ReplyLine(Sender<Vec<u8>>);

impl Line for ReplyLine {
    fn post(self: Box<Self>, reply: Writer, _: &Done) -> Posted {
        match self.0.send(reply.bytes().to_vec()) {
            Ok(()) => Posted::Sent,
            Err(_) => Posted::Gone,
        }
    }
}

impl Server {
    pub fn new() -> Self {
        let state = Arc::new(AtomicU32::new(0));
        let service = Service { number: PROGRAM, name: "toy", versions: &VERSIONS, state };
        let dispatcher = Dispatcher::new(vec![Box::new(service)], DispatchSettings::default());
        let (refused, refusals) = channel();
        let refused = Mutex::new(refused);
        let on_refused = move |refusal: &GssRefusal| {
            let _ = refused.lock().unwrap().send(refusal.reason.clone());
        };
        let gate = Arc::new(Gate::default());
        let acceptor = ToyAcceptor(Arc::clone(&gate));
        let flavor = RpcsecGss::new(Box::new(acceptor), Arc::new(on_refused)).unwrap();
        let counts = Box::new(flavor.counts());
        dispatcher.auth().add(Box::new(flavor)).unwrap();
        let (post, posted) = channel();
        Self { dispatcher, counts, refusals, gate, posted, host: Host(post) }
    }

    /// What becomes of a message, and its answer.
    pub fn ask(&self, record: &[u8]) -> (Done, Vec<u8>) {
        self.ask_from("192.0.2.7:700", record)
    }

    /// The same from another address.
    pub fn ask_from(&self, addr: &str, record: &[u8]) -> (Done, Vec<u8>) {
        let mut reply = Writer::new();
        let addr = addr.parse().unwrap();
        let peer = Peer {
            addr,
            local: addr,
            transport: Transport::Tcp,
            security: rpc::TransportSecurity::PLAIN,
        };
        let done = self.dispatcher.dispatch(record, &peer, 0, &self.host, &mut reply);
        (done, reply.bytes().to_vec())
    }

    /// An answer that was sent later.
    pub fn later(&self) -> Vec<u8> {
        self.posted.recv_timeout(Duration::from_secs(60)).expect("an answer")
    }
}
