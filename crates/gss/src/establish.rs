//! Threads that accept the tokens of clients that establish a context, so that no worker waits for a keytab or a name
//! service. A context is in the table before its client receives the reply.
//!
//! Tokens wait in a [`TokenQueue`]; one for which there is no place is dropped, and its client sends it again.

use crate::context::Context;
use crate::contexts::Contexts;
use crate::counters::Counters;
use crate::mechanism::{Acceptor, Refusal};
use crate::token_queue::TokenQueue;
use crate::window::WINDOW;
use proto::rpc::flavor;
use proto::rpcsec_gss::InitResult;
use rpc::auth::{FlavorReply, LaterAnswer};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use xdr::Writer;

/// The number of threads.
const THREADS: usize = 2;

/// A refused message, for the log.
#[derive(Debug)]
pub struct GssRefusal {
    /// The client that sent the token, or that established the context of the message.
    pub client: IpAddr,
    /// Whether it was a message of an established context; such a message may come from anybody.
    pub of_message: bool,
    /// Why, in words.
    pub reason: String,
}

/// Called for each refusal; must not block.
pub type RefusalObserver = Arc<dyn Fn(&GssRefusal) + Send + Sync>;

/// A token and the way to answer it.
pub struct Token {
    pub bytes: Vec<u8>,
    pub answer: LaterAnswer,
}

/// State of a thread.
struct Work {
    acceptor: Box<dyn Acceptor>,
    contexts: Arc<Contexts>,
    counters: Arc<Counters>,
    on_refused: RefusalObserver,
}

/// Starts the threads, which end when the returned queue is closed.
///
/// # Errors
/// No thread can be started.
pub fn start(
    acceptor: Box<dyn Acceptor>,
    contexts: Arc<Contexts>,
    counters: Arc<Counters>,
    on_refused: RefusalObserver,
) -> std::io::Result<Arc<TokenQueue>> {
    let queue = Arc::new(TokenQueue::default());
    let work = Arc::new(Work { acceptor, contexts, counters, on_refused });
    for _ in 0..THREADS {
        let (tokens, work) = (Arc::clone(&queue), Arc::clone(&work));
        std::thread::Builder::new().name("gss-accept".into()).spawn(move || {
            while let Some(token) = tokens.next() {
                work.establish(token);
            }
        })?;
    }
    Ok(queue)
}

impl Work {
    /// Answers a token.
    fn establish(&self, token: Token) {
        let Token { bytes, answer } = token;
        let client = answer.client();
        match self.accepted(&bytes, client.ip().to_canonical()) {
            Ok(reply) => {
                answer.send(&reply);
            }
            Err(refusal) => {
                Counters::add(&self.counters.refused);
                answer.send(&refused(&refusal));
                let client = client.ip().to_canonical();
                (self.on_refused)(&GssRefusal { client, of_message: false, reason: refusal.text });
            }
        }
    }

    /// The reply to an accepted token; its context is in the table.
    fn accepted(&self, token: &[u8], client: IpAddr) -> Result<FlavorReply, Refusal> {
        let established = self.acceptor.accept(token)?;
        let now = Instant::now();
        let (context, token) = Context::new(established, client, now, Arc::clone(&self.counters));
        let context = Arc::new(context);
        let verifier = context.checksum_of(WINDOW).map_err(|_| Refusal {
            major: FAILURE,
            minor: 0,
            text: "the context expired while it was being established".into(),
        })?;
        let handle = self.contexts.add(context, now, &self.counters);
        Counters::add(&self.counters.established);
        let result =
            InitResult { handle: &handle, major: 0, minor: 0, window: WINDOW, token: &token };
        Ok(reply(flavor::RPCSEC_GSS, verifier, &result))
    }
}

/// `GSS_S_FAILURE`.
const FAILURE: u32 = 13 << 16;

/// The reply to a refused token: MSG_ACCEPTED, as RFC 2203 §5.2.3.1 requires.
fn refused(refusal: &Refusal) -> FlavorReply {
    let major = if refusal.major == 0 { FAILURE } else { refusal.major };
    let result = InitResult { handle: &[], major, minor: refusal.minor, window: 0, token: &[] };
    reply(flavor::AUTH_NONE, Vec::new(), &result)
}

fn reply(verifier_flavor: u32, verifier: Vec<u8>, result: &InitResult<'_>) -> FlavorReply {
    let mut results = Writer::new();
    results.put(result);
    FlavorReply { verifier_flavor, verifier, results: results.bytes().to_vec(), start_tls: false }
}
