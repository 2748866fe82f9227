//! Kerberos 5 as the mechanism: tokens are checked against a keytab by the system's library ([`sys::gssapi`]), and
//! principals become users of this machine.

mod keytab;
mod keytab_file;
mod principals;

use crate::mechanism::{Acceptor, Established, Messages, Refusal, Unprotected};
use rpc::PrincipalUser;
use std::path::Path;
use sys::gssapi::{Accepted, AcceptorCredential, GssError, MessageContext};

pub use keytab::{Keytab, PrincipalsFile};
pub use keytab_file::{KeytabEntry, read_keytab};
pub use principals::{Principals, PrincipalsError};

/// `GSS_S_FAILURE`.
const FAILURE: u32 = 13 << 16;
/// The service whose keys are used, as all NFS clients ask for it (RFC 7530 §3.2.1.1).
const SERVICE: &str = "nfs/";

/// Encryption types whose contexts are accepted (RFC 3961 §8, RFC 8009 §7): AES with SHA-1, and with SHA-2.
const ENCRYPTION_TYPES: [u32; 4] = [17, 18, 19, 20];

/// What to do about an error of the library, found by a part of its text.
const REMEDIES: [(&str, &str); 6] = [
    ("Clock skew too great", "the clocks of client and server differ by more than five minutes"),
    (
        "Key version",
        "the keytab has older or newer keys than the KDC: renew it, and have the client get a new ticket",
    ),
    (
        "Cannot find key",
        "the keytab has no such key: add it with kadmin ktadd, then the client needs a new ticket",
    ),
    (
        "No key table entry",
        "the keytab has no key for the name that the client uses for this server",
    ),
    ("Ticket expired", "the client has to get a new ticket (kinit, or its keytab)"),
    ("Decrypt integrity check", "the keytab's key is not the KDC's: renew the keytab"),
];

/// The server's keys, and who is who.
pub struct Krb5 {
    credential: AcceptorCredential,
    principals: Principals,
}

impl Krb5 {
    /// With the keys of a keytab. Reads the file.
    ///
    /// # Errors
    /// The Kerberos library is missing, or the file has no key that can be read.
    pub fn new(keytab: &Path, principals: Principals) -> Result<Self, GssError> {
        Ok(Self { credential: AcceptorCredential::from_keytab(keytab)?, principals })
    }

    /// The user that a principal stands for.
    fn user(&self, accepted: &Accepted) -> Result<Option<PrincipalUser>, Refusal> {
        let Accepted { initiator, local_user, .. } = accepted;
        self.principals.user(initiator, local_user.as_deref()).map_err(|error| Refusal {
            major: FAILURE,
            minor: 0,
            text: format!("the user database does not answer for {initiator}: {error}"),
        })
    }
}

impl Acceptor for Krb5 {
    fn accept(&self, token: &[u8]) -> Result<Established, Refusal> {
        let accepted = self.credential.accept(token).map_err(refusal)?;
        check(&accepted)?;
        let user = self.user(&accepted)?;
        Ok(Established {
            messages: Box::new(LibraryMessages(accepted.context)),
            token: accepted.token,
            principal: accepted.initiator,
            user,
            lifetime_s: accepted.lifetime_s,
        })
    }
}

/// Whether a context is one for this service, with encryption that still protects.
fn check(accepted: &Accepted) -> Result<(), Refusal> {
    let refused = |text| Err(Refusal { major: FAILURE, minor: 0, text });
    let Accepted { initiator, target, encryption_type, .. } = accepted;
    if !target.starts_with(SERVICE) {
        return refused(format!(
            "{initiator} asked for {target}, which is not a name of an NFS server"
        ));
    }
    if !ENCRYPTION_TYPES.contains(encryption_type) {
        return refused(format!(
            "the ticket of {initiator} for {target} has encryption type {encryption_type}, which is broken or unknown: \
             give the server's account AES keys (in Active Directory msDS-SupportedEncryptionTypes = 24) and make a \
             new keytab"
        ));
    }
    Ok(())
}

fn refusal(error: GssError) -> Refusal {
    let GssError { major, minor, text } = error;
    let remedy = REMEDIES.iter().find(|(part, _)| text.contains(part));
    let text = match remedy {
        Some((_, remedy)) => format!("{text}: {remedy}"),
        None => text,
    };
    Refusal { major, minor, text }
}

/// Messages by the library.
struct LibraryMessages(MessageContext);

impl Messages for LibraryMessages {
    fn checksum(&self, message: &[u8]) -> Result<Vec<u8>, Unprotected> {
        self.0.checksum(message).map_err(|_| Unprotected)
    }

    fn verify(&self, message: &[u8], checksum: &[u8]) -> Result<(), Unprotected> {
        self.0.verify(message, checksum).map_err(|_| Unprotected)
    }

    fn seal(&self, message: &[u8]) -> Result<Vec<u8>, Unprotected> {
        self.0.seal(message).map_err(|_| Unprotected)
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, Unprotected> {
        self.0.open(sealed).map_err(|_| Unprotected)
    }
}
