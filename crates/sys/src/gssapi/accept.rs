//! The acceptor's side: a server with a keytab.

use super::library::{
    Buffer, BufferSet, KRB5_MECHANISM, Library, OidSet, Pointer, SESSION_KEY, Store, StoreElement,
    library,
};
use super::{ERROR_BITS, GssError, MessageContext, Name};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// `GSS_C_ACCEPT`.
const ACCEPT: i32 = 2;
/// `GSS_S_CONTINUE_NEEDED`.
const CONTINUE_NEEDED: u32 = 1;
/// `GSS_C_INDEFINITE`.
const INDEFINITE: u32 = u32::MAX;

/// The keys of a keytab. The file is read again for each context, so that new keys count at once.
pub struct AcceptorCredential {
    library: &'static Library,
    pointer: Pointer,
}

// SAFETY: the library guards its credentials with a lock of its own; this value is not changed after it was made.
unsafe impl Send for AcceptorCredential {}
// SAFETY: as above.
unsafe impl Sync for AcceptorCredential {}

/// A context that an initiator has established.
pub struct Accepted {
    /// Protects messages.
    pub context: MessageContext,
    /// To be sent to the initiator.
    pub token: Vec<u8>,
    /// The initiator's principal, as `alice@EXAMPLE.ORG`.
    pub initiator: String,
    /// The user of this machine that krb5.conf makes of it (`auth_to_local`), if there is one.
    pub local_user: Option<String>,
    /// The principal of this server that was asked for, as `nfs/server.example@EXAMPLE.ORG`.
    pub target: String,
    /// How long the ticket is valid, in seconds; `None` for ever.
    pub lifetime_s: Option<u32>,
    /// The number of the session key's encryption type (RFC 3961 §8).
    pub encryption_type: u32,
}

impl AcceptorCredential {
    /// The keys of a keytab file.
    ///
    /// # Errors
    /// The library is missing, or there is no key in the file that can be read.
    pub fn from_keytab(path: &Path) -> Result<Self, GssError> {
        let library = library()?;
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| GssError::of_text("the path of the keytab has a zero byte"))?;
        let elements = [
            StoreElement { key: c"keytab".as_ptr(), value: path.as_ptr() },
            // an AP-REQ that is sent twice gives nobody a key, and the library's cache of them is a file with a lock
            StoreElement { key: c"rcache".as_ptr(), value: c"none:".as_ptr() },
        ];
        let store = Store { count: 2, elements: elements.as_ptr() };
        let mechanisms = OidSet { count: 1, elements: KRB5_MECHANISM.as_ptr() };
        let (mut minor, mut pointer) = (0, ptr::null_mut());
        // SAFETY: store, its elements and strings, and the set of mechanisms outlive the call, which copies what it
        // keeps; `pointer` takes the result; what is null is not asked for.
        let major = unsafe {
            (library.acquire_cred_from)(
                &raw mut minor,
                ptr::null_mut(),
                INDEFINITE,
                &raw const mechanisms,
                ACCEPT,
                &raw const store,
                &raw mut pointer,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        library.check(major, minor)?;
        Ok(Self { library, pointer })
    }

    /// Accepts an initiator's first token, which for Kerberos is the only one. May wait for files.
    ///
    /// # Errors
    /// The token is not one for a key of this keytab that is valid now.
    pub fn accept(&self, token: &[u8]) -> Result<Accepted, GssError> {
        let library = self.library;
        let (mut minor, mut context, mut source) = (0, ptr::null_mut(), ptr::null_mut());
        let (mut input, mut output) = (Buffer::of(token), Buffer::EMPTY);
        // SAFETY: `input` borrows the token for the call only; the credential is alive; context, source and output take
        // results, each of which is owned by a value right below; what is null is not asked for.
        let major = unsafe {
            (library.accept_sec_context)(
                &raw mut minor,
                &raw mut context,
                self.pointer,
                &raw mut input,
                ptr::null_mut(),
                &raw mut source,
                ptr::null_mut(),
                &raw mut output,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        let context = MessageContext::new(library, context);
        let source = Name { library, pointer: source };
        let token = library.take(output);
        library.check(major, minor)?;
        if major & !ERROR_BITS & CONTINUE_NEEDED != 0 {
            return Err(GssError::of_text(
                "the client asks for a further round of tokens (DCE style)",
            ));
        }
        let (target, lifetime) = inquire(library, &context)?;
        Ok(Accepted {
            token,
            initiator: source.text()?,
            local_user: source.local_user(),
            target,
            lifetime_s: (lifetime != INDEFINITE).then_some(lifetime),
            encryption_type: encryption_type(library, &context)?,
            context,
        })
    }
}

impl Drop for AcceptorCredential {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the pointer is a credential of the library, owned here, and not used again.
        unsafe { (self.library.release_cred)(&raw mut minor, &raw mut self.pointer) };
    }
}

/// The acceptor's name and the lifetime of a context.
fn inquire(library: &'static Library, context: &MessageContext) -> Result<(String, u32), GssError> {
    let (mut minor, mut target, mut lifetime) = (0, ptr::null_mut(), 0);
    let context = context.lock();
    // SAFETY: the context is alive and locked; `target` takes a name that is owned below; null is not asked for.
    let major = unsafe {
        (library.inquire_context)(
            &raw mut minor,
            context.pointer(),
            ptr::null_mut(),
            &raw mut target,
            &raw mut lifetime,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    let target = Name { library, pointer: target };
    library.check(major, minor)?;
    Ok((target.text()?, lifetime))
}

/// The type of the session key: the last arc of the object identifier beside it (1.2.840.113554.1.2.2.4.N).
fn encryption_type(library: &'static Library, context: &MessageContext) -> Result<u32, GssError> {
    let (mut minor, mut set): (_, *mut BufferSet) = (0, ptr::null_mut());
    let context = context.lock();
    // SAFETY: the context is alive and locked, the identifier constant; `set` takes the result.
    let major = unsafe {
        (library.inquire_sec_context_by_oid)(
            &raw mut minor,
            context.pointer(),
            SESSION_KEY.as_ptr(),
            &raw mut set,
        )
    };
    library.check(major, minor)?;
    // SAFETY: a call that succeeded gives null or a set, which stays until its release below.
    let last = unsafe { set.as_ref() }.filter(|set| set.count >= 2).and_then(|set| {
        // SAFETY: the set has two elements at least; the second is a buffer of `length` bytes.
        let identifier = unsafe { &*set.elements.add(1) };
        let (first, length) = (identifier.value.cast::<u8>(), identifier.length);
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(first, length) };
        bytes.last().copied()
    });
    // SAFETY: the set is the library's own, and nothing borrows from it any more. The release overwrites the key.
    unsafe { (library.release_buffer_set)(&raw mut minor, &raw mut set) };
    last.map(u32::from)
        .ok_or_else(|| GssError::of_text("the library does not tell the type of the session key"))
}
