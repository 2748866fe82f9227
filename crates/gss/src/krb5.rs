//! The Kerberos 5 mechanism: accepts tokens with a keytab through the system's library ([`sys::gssapi`]), and maps
//! principals to users of this machine.

mod keytab;
mod keytab_file;
mod own;
mod principals;

use crate::mechanism::{Acceptor, Established, Messages, Refusal, Room, Unprotected};
use rpc::PrincipalUser;
use std::ops::Range;
use std::path::Path;
use sys::gssapi::{Accepted, AcceptorCredential, GssError, MessageContext};

pub use keytab::{Keytab, PrincipalsFile, Sealing};
pub use keytab_file::{KeytabEntry, read_keytab};
use own::OwnMessages;
pub use principals::{Principals, PrincipalsError};

/// `GSS_S_FAILURE`.
const FAILURE: u32 = 13 << 16;
/// The service name that NFS clients request (RFC 7530 §3.2.1.1).
const SERVICE: &str = "nfs/";

/// Accepted encryption types (RFC 3961 §8, RFC 8009 §7): AES with SHA-1, and with SHA-2.
const ENCRYPTION_TYPES: [u32; 4] = [17, 18, 19, 20];

/// Remedies for errors of the library, found by a part of the error text; the first that fits.
const REMEDIES: [(&str, &str); 11] = [
    ("Clock skew too great", "the clocks of client and server differ by more than five minutes"),
    (
        "Key version",
        "the keytab has other key versions than the KDC: renew it, then get a new ticket on the client",
    ),
    (
        "Cannot find key",
        "the keytab has no such key: add it with kadmin ktadd, then the client needs a new ticket",
    ),
    (
        "No key table entry",
        "the keytab has no key for the name that the client uses for this server",
    ),
    // MIT since 1.14
    (
        "keytab is likely out of date",
        "the keytab lacks the KDC's newest key: add it with kadmin ktadd",
    ),
    (
        "ticket is likely out of date",
        "the client needs a new ticket, as its own is for a key that the keytab has no more",
    ),
    (
        "found in keytab but not with enctype",
        "the keytab has no key of the ticket's encryption type: add it with kadmin ktadd",
    ),
    ("cannot decrypt ticket", "the key in the keytab differs from the KDC's: renew the keytab"),
    (
        "not found in keytab",
        "the keytab has no key for the name that the client uses for this server",
    ),
    ("Ticket expired", "get a new ticket on the client (kinit, or its keytab)"),
    ("Decrypt integrity check", "the key in the keytab differs from the KDC's: renew the keytab"),
];

/// The acceptor: the server's keys and the mapping of principals.
pub struct Krb5 {
    credential: AcceptorCredential,
    principals: Principals,
    sealing: Sealing,
}

impl Krb5 {
    /// Creates the acceptor with the keys of a keytab, which is read here.
    ///
    /// # Errors
    /// The Kerberos library is missing, or the file has no key that can be read.
    pub fn new(keytab: &Path, principals: Principals, sealing: Sealing) -> Result<Self, GssError> {
        Ok(Self { credential: AcceptorCredential::from_keytab(keytab)?, principals, sealing })
    }

    /// The user of this machine for a principal.
    fn user(&self, accepted: &Accepted) -> Result<Option<PrincipalUser>, Refusal> {
        let Accepted { initiator, local_user, .. } = accepted;
        self.principals.user(initiator, local_user.as_deref()).map_err(|error| Refusal {
            major: FAILURE,
            minor: 0,
            text: format!("looking up {initiator} in the user database failed: {error}"),
        })
    }
}

impl Acceptor for Krb5 {
    fn accept(&self, token: &[u8]) -> Result<Established, Refusal> {
        let accepted = self.credential.accept(token).map_err(refusal)?;
        check(&accepted)?;
        let user = self.user(&accepted)?;
        let messages = messages(accepted.context, accepted.encryption_type, self.sealing)
            .map_err(|text| Refusal { major: FAILURE, minor: 0, text })?;
        Ok(Established {
            messages,
            token: accepted.token,
            principal: accepted.initiator,
            user,
            lifetime_s: accepted.lifetime_s,
        })
    }
}

/// Checks that a context is for this service and has an accepted encryption type.
fn check(accepted: &Accepted) -> Result<(), Refusal> {
    let refused = |text| Err(Refusal { major: FAILURE, minor: 0, text });
    let Accepted { initiator, target, encryption_type, .. } = accepted;
    if !target.starts_with(SERVICE) {
        return refused(format!(
            "{initiator} asked for {target}, which is not an nfs/ service principal"
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

/// Per-message protection by the library.
struct LibraryMessages {
    context: MessageContext,
    room: Room,
}

impl Messages for LibraryMessages {
    fn checksum(&self, message: &[u8]) -> Result<Vec<u8>, Unprotected> {
        self.context.checksum(message).map_err(|_| Unprotected)
    }

    fn verify(&self, message: &[u8], checksum: &[u8]) -> Result<(), Unprotected> {
        self.context.verify(message, checksum).map_err(|_| Unprotected)
    }

    fn room(&self) -> Room {
        self.room
    }

    fn seal(&self, token: &mut [u8]) -> Result<(), Unprotected> {
        let Room { head, tail } = self.room;
        let end = token.len().checked_sub(tail).ok_or(Unprotected)?;
        let message = token.get(head..end).ok_or(Unprotected)?;
        let sealed = self.context.seal(message).map_err(|_| Unprotected)?;
        if sealed.len() != token.len() {
            return Err(Unprotected);
        }
        token.copy_from_slice(&sealed);
        Ok(())
    }

    fn open(&self, sealed: &[u8], buffer: &mut Vec<u8>) -> Result<Range<usize>, Unprotected> {
        *buffer = self.context.open(sealed).map_err(|_| Unprotected)?;
        Ok(0..buffer.len())
    }
}

/// The per-message protection of a context that this side has initiated, by this program.
///
/// # Errors
/// The encryption type is not an AES type, or the library does not export its keys.
pub(crate) fn initiator_messages(context: MessageContext) -> Result<Box<dyn Messages>, String> {
    let keys = context.into_keys().map_err(|error| error.text)?;
    let messages = OwnMessages::new(&keys).ok_or("the encryption type is not an AES type")?;
    Ok(Box::new(messages))
}

/// The per-message protection of a context, by this program or by the library.
///
/// # Errors
/// The encryption type is not an AES type, or the library does not export its keys.
pub fn messages(
    context: MessageContext,
    encryption_type: u32,
    sealing: Sealing,
) -> Result<Box<dyn Messages>, String> {
    let unknown = || format!("encryption type {encryption_type} is not an AES type");
    match sealing {
        Sealing::Library => {
            let room = own::room(own::mac_len(encryption_type).ok_or_else(unknown)?);
            Ok(Box::new(LibraryMessages { context, room }))
        }
        Sealing::Own => {
            let keys = context.into_keys().map_err(|error| error.text)?;
            Ok(Box::new(OwnMessages::new(&keys).ok_or_else(unknown)?))
        }
    }
}
