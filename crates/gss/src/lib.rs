//! RPCSEC_GSS (RFC 2203) with Kerberos 5: the flavour of calls whose user is proven.
//!
//! The way of a call: [`RpcsecGss`] reads the credential, finds the context in the [`contexts`] by its handle, verifies
//! the header's checksum and looks at the sequence [`window`]; the dispatcher then has the arguments and the reply pass
//! through the [`context`]. The first message of a client goes to the threads of [`establish`], which have the token
//! checked by an [`Acceptor`]: the Kerberos library ([`krb5`]), or a test's.
//!
//! Nothing here opens a socket. What a principal is on this machine (user, groups) is found when its context is
//! established, by [`krb5::Principals`].

mod context;
mod contexts;
mod counters;
mod establish;
mod flavor;
pub mod krb5;
mod mechanism;
mod window;

pub use contexts::{CONTEXTS_MAX, CONTEXTS_OF_PRINCIPAL_MAX};
pub use counters::GssCounts;
pub use establish::{GssRefusal, QUEUE_MAX, RefusalObserver};
pub use flavor::RpcsecGss;
pub use mechanism::{Acceptor, Established, Messages, Refusal, Room, Unprotected};
pub use window::WINDOW;
