//! The initiator's side: what a client does. Used by the load generator, by diagnosis and by tests.

use super::library::{
    Buffer, KRB5_MECHANISM, Library, OidSet, Pointer, Store, StoreElement, library,
};
use super::{ERROR_BITS, GssError, MessageContext, Name};
use std::ffi::CString;
use std::ptr;

/// `GSS_C_INITIATE`.
const INITIATE: i32 = 1;
/// `GSS_S_CONTINUE_NEEDED`.
const CONTINUE_NEEDED: u32 = 1;
/// `GSS_C_MUTUAL_FLAG`, `GSS_C_CONF_FLAG` and `GSS_C_INTEG_FLAG`.
const FLAGS: u32 = 2 | 16 | 32;

/// The tickets of a credential cache.
pub struct InitiatorCredential {
    library: &'static Library,
    pointer: Pointer,
}

// SAFETY: the library guards its credentials with a lock of its own; this value is not changed after it was made.
unsafe impl Send for InitiatorCredential {}
// SAFETY: as above.
unsafe impl Sync for InitiatorCredential {}

impl InitiatorCredential {
    /// The tickets of a cache, named as in `KRB5CCNAME`, as `FILE:/tmp/krb5cc_1000`; if a keytab is given, tickets are
    /// got with its key when there are none.
    ///
    /// # Errors
    /// The library is missing, or there is no ticket.
    pub fn from_cache(cache: &str, client_keytab: Option<&str>) -> Result<Self, GssError> {
        let library = library()?;
        let zero = |_| GssError::of_text("the name of the credential cache has a zero byte");
        let cache = CString::new(cache).map_err(zero)?;
        let keytab = client_keytab.map(CString::new).transpose().map_err(zero)?;
        let mut elements = vec![StoreElement { key: c"ccache".as_ptr(), value: cache.as_ptr() }];
        elements.extend(
            keytab.iter().map(|keytab| StoreElement {
                key: c"client_keytab".as_ptr(),
                value: keytab.as_ptr(),
            }),
        );
        let count = u32::try_from(elements.len()).unwrap_or_default();
        Self::acquire(library, Some(&Store { count, elements: elements.as_ptr() }))
    }

    /// The tickets of this process's user: of the cache and the keytab that its environment names (`KRB5CCNAME`,
    /// `KRB5_CLIENT_KTNAME`), or of those that krb5.conf(5) does.
    ///
    /// # Errors
    /// The library is missing, or there is no ticket.
    pub fn of_user() -> Result<Self, GssError> {
        Self::acquire(library()?, None)
    }

    fn acquire(library: &'static Library, store: Option<&Store>) -> Result<Self, GssError> {
        let mechanisms = OidSet { count: 1, elements: KRB5_MECHANISM.as_ptr() };
        let (mut minor, mut pointer) = (0, ptr::null_mut());
        // SAFETY: the store is null, which is the defaults, or it, its elements and strings outlive the call, as the set of
        // mechanisms does; the call copies what it keeps; `pointer` takes the result; what is null is not asked for.
        let major = unsafe {
            (library.acquire_cred_from)(
                &raw mut minor,
                ptr::null_mut(),
                u32::MAX,
                &raw const mechanisms,
                INITIATE,
                store.map_or(ptr::null(), ptr::from_ref),
                &raw mut pointer,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        library.check(major, minor)?;
        Ok(Self { library, pointer })
    }
}

impl Drop for InitiatorCredential {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the pointer is a credential of the library, owned here, and not used again.
        unsafe { (self.library.release_cred)(&raw mut minor, &raw mut self.pointer) };
    }
}

/// A context whose first token is on its way to the acceptor.
pub struct Initiator<'c> {
    credential: &'c InitiatorCredential,
    target: Name,
    context: Pointer,
}

impl<'c> Initiator<'c> {
    /// Begins a context with a service, as `nfs@server.example`; also gives the token to be sent. May ask a KDC.
    ///
    /// # Errors
    /// There is no ticket for that service.
    pub fn begin(
        credential: &'c InitiatorCredential,
        service: &str,
    ) -> Result<(Self, Vec<u8>), GssError> {
        let target = Name::of_service(credential.library, service)?;
        let mut initiator = Self { credential, target, context: ptr::null_mut() };
        let (token, _) = initiator.step(&[])?;
        Ok((initiator, token))
    }

    /// Takes the acceptor's token: the context is established.
    ///
    /// # Errors
    /// It is not from the acceptor.
    pub fn finish(mut self, token: &[u8]) -> Result<MessageContext, GssError> {
        let (_, more) = self.step(token)?;
        if more {
            return Err(GssError::of_text("the server asks for a further round of tokens"));
        }
        let context = std::mem::replace(&mut self.context, ptr::null_mut());
        Ok(MessageContext::new(self.credential.library, context))
    }

    /// Gives a token to the library; what is to be sent, and whether it waits for another.
    fn step(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        let library = self.credential.library;
        let (mut minor, mut input, mut output) = (0, Buffer::of(token), Buffer::EMPTY);
        // SAFETY: `input` borrows the token for the call only; credential and name are alive; the context is null or of
        // an earlier step, and owned here; `output` is released by `take`; what is null is not asked for.
        let major = unsafe {
            (library.init_sec_context)(
                &raw mut minor,
                self.credential.pointer,
                &raw mut self.context,
                self.target.pointer,
                KRB5_MECHANISM.as_ptr(),
                FLAGS,
                0,
                ptr::null_mut(),
                &raw mut input,
                ptr::null_mut(),
                &raw mut output,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let token = library.take(output);
        library.check(major, minor)?;
        Ok((token, major & !ERROR_BITS & CONTINUE_NEEDED != 0))
    }
}

impl Drop for Initiator<'_> {
    fn drop(&mut self) {
        // releases the context, if it is still here
        drop(MessageContext::new(self.credential.library, self.context));
    }
}
