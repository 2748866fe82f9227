//! RPCSEC_GSS (RFC 2203) with Kerberos 5.
//!
//! [`RpcsecGss`] reads a call's credential, finds the context in [`contexts`] by its handle, verifies the header's
//! checksum and checks the sequence [`window`]; the dispatcher then passes the arguments and the reply through the
//! [`context`]. Tokens that establish a context go to the threads of [`establish`], where an [`Acceptor`] accepts them:
//! the Kerberos library ([`krb5`]), or a test's. [`Caller`] is the client's side, for measurements.
//!
//! Nothing here opens a socket. A principal is mapped to a user and groups of this machine when its context is
//! established ([`krb5::Principals`]).

mod caller;
mod context;
mod contexts;
mod counters;
mod establish;
mod flavor;
pub mod krb5;
mod mechanism;
mod token_queue;
mod window;

pub use caller::{Caller, CallerError};
pub use contexts::{CONTEXTS_MAX, CONTEXTS_OF_PRINCIPAL_MAX};
pub use counters::GssCounts;
pub use establish::{GssRefusal, RefusalObserver};
pub use flavor::RpcsecGss;
pub use mechanism::{Acceptor, Established, Messages, Refusal, Room, Unprotected};
pub use token_queue::{QUEUE_MAX, QUEUE_OF_CLIENT_MAX};
pub use window::WINDOW;
