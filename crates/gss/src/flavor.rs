//! RPCSEC_GSS as an authentication flavour of the dispatcher (RFC 2203 §5).
//!
//! A message has no effect before its header's checksum was verified. The sequence number is checked after that, so that
//! nobody else can use up a client's numbers.

use crate::context::{Context, Protected};
use crate::contexts::Contexts;
use crate::counters::{Counters, GssCounts};
use crate::establish::{self, GssRefusal, RefusalObserver, Token};
use crate::mechanism::Acceptor;
use crate::token_queue::TokenQueue;
use proto::rpc::{AuthStat, OpaqueAuth, flavor};
use proto::rpcsec_gss::{Control, GssCredential, MAXSEQ, TOKEN_MAX};
use rpc::auth::{Acceptance, CallMessage, Flavor, FlavorReply, NotAccepted, Protection};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use xdr::Reader;

/// The NULL procedure, by which contexts are established and ended (RFC 2203 §5.2, §5.4).
const NULL: u32 = 0;

/// The RPCSEC_GSS flavour.
pub struct RpcsecGss {
    contexts: Arc<Contexts>,
    counters: Arc<Counters>,
    /// Queue of the threads that accept tokens.
    tokens: Arc<TokenQueue>,
    on_refused: RefusalObserver,
}

impl RpcsecGss {
    /// Creates the flavour over a mechanism and starts its threads, which end when it is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(acceptor: Box<dyn Acceptor>, on_refused: RefusalObserver) -> std::io::Result<Self> {
        let (contexts, counters) = (Arc::new(Contexts::new()), Arc::new(Counters::default()));
        let tokens = establish::start(
            acceptor,
            Arc::clone(&contexts),
            Arc::clone(&counters),
            Arc::clone(&on_refused),
        )?;
        Ok(Self { contexts, counters, tokens, on_refused })
    }

    /// A function that returns the counters, usable after the flavour was moved to the dispatcher.
    pub fn counts(&self) -> impl Fn() -> GssCounts + Send + Sync + 'static {
        let (contexts, counters) = (Arc::clone(&self.contexts), Arc::clone(&self.counters));
        move || counters.counts(u64::try_from(contexts.len()).unwrap_or(u64::MAX))
    }

    /// A function that returns the principals that have contexts, with the addresses of the clients that established them;
    /// usable after the flavour was moved to the dispatcher.
    pub fn principals(&self) -> impl Fn() -> Vec<(IpAddr, String)> + Send + Sync + 'static {
        let contexts = Arc::clone(&self.contexts);
        move || {
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            contexts.principals().iter().map(|(client, name)| (*client, text(name))).collect()
        }
    }

    /// The context of a message, after verifying its header's checksum and its sequence number.
    fn verified(
        &self,
        message: &CallMessage<'_>,
        credential: &GssCredential<'_>,
    ) -> Result<Arc<Context>, NotAccepted> {
        let Some(context) = self.contexts.find(credential.handle) else {
            Counters::add(&self.counters.unknown_contexts);
            return Err(AuthStat::GssCredProblem.into());
        };
        if context.has_ended(Instant::now()) {
            Counters::add(&self.counters.expired);
            self.contexts.remove(credential.handle);
            return Err(AuthStat::GssCtxProblem.into());
        }
        let OpaqueAuth { flavor, body: checksum } = message.header.verifier;
        let is_right = flavor == flavor::RPCSEC_GSS
            && context.verify(message.signed_header(), checksum).is_ok();
        if !is_right {
            Counters::add(&self.counters.wrong_checksums);
            self.tell(
                &context,
                "wrong checksum of a call header: it was modified, or another host sent it",
            );
            return Err(AuthStat::GssCredProblem.into());
        }
        if credential.sequence >= MAXSEQ {
            return Err(AuthStat::GssCtxProblem.into());
        }
        if !context.window.take(credential.sequence) {
            Counters::add(&self.counters.replays);
            self.tell(&context, "repeated or outdated sequence number: a replayed message, or two machines cloned from one image");
            return Err(NotAccepted::Discarded);
        }
        Ok(context)
    }

    /// Reports a refused message to the operator.
    #[cold]
    fn tell(&self, context: &Context, why: &str) {
        let name = String::from_utf8_lossy(context.name());
        let reason = format!("{name}: {why}");
        (self.on_refused)(&GssRefusal { client: context.client, of_message: true, reason });
    }

    /// Handles the message that creates a context (RFC 2203 §5.2).
    fn begin(&self, message: &CallMessage<'_>) -> Result<NotAccepted, AuthStat> {
        let mut args = message.args.clone();
        let token = args.opaque(TOKEN_MAX).map_err(|_| AuthStat::BadCred)?;
        if message.header.procedure != NULL || message.header.verifier.flavor != flavor::AUTH_NONE {
            return Err(AuthStat::BadVerf);
        }
        let (bytes, tokens) = (token.to_vec(), Arc::clone(&self.tokens));
        let counters = Arc::clone(&self.counters);
        Ok(NotAccepted::AnsweredLater(Box::new(move |answer| {
            if !tokens.add(Token { bytes, answer }) {
                Counters::add(&counters.dropped);
            }
        })))
    }

    /// Handles the message that destroys a context (RFC 2203 §5.4).
    fn end(
        &self,
        message: &CallMessage<'_>,
        credential: &GssCredential<'_>,
    ) -> Result<NotAccepted, NotAccepted> {
        let context = self.verified(message, credential)?;
        if message.header.procedure != NULL {
            return Err(AuthStat::BadCred.into());
        }
        let verifier =
            context.checksum_of(credential.sequence).map_err(|_| AuthStat::GssCtxProblem)?;
        self.contexts.remove(credential.handle);
        Ok(NotAccepted::Answered(Box::new(FlavorReply {
            verifier_flavor: flavor::RPCSEC_GSS,
            verifier,
            results: Vec::new(),
            start_tls: false,
        })))
    }
}

impl Drop for RpcsecGss {
    fn drop(&mut self) {
        self.tokens.close();
    }
}

impl Flavor for RpcsecGss {
    fn number(&self) -> u32 {
        flavor::RPCSEC_GSS
    }

    fn accept<'a>(&self, message: &CallMessage<'a>) -> Result<Acceptance<'a>, NotAccepted> {
        let mut body = Reader::new(message.header.credential.body);
        let credential: GssCredential<'_> = body.get().map_err(|_| AuthStat::BadCred)?;
        body.end().map_err(|_| AuthStat::BadCred)?;
        match credential.control {
            Control::Data => {
                let context = self.verified(message, &credential)?;
                let GssCredential { sequence, service, .. } = credential;
                let number = Protected { sequence, service }.number();
                Ok(Acceptance::Protected(Protection::new(context, number)))
            }
            Control::Init => Err(self.begin(message)?),
            // Kerberos needs one token of each side
            Control::ContinueInit => Err(AuthStat::BadCred.into()),
            Control::Destroy => Err(self.end(message, &credential)?),
        }
    }
}
