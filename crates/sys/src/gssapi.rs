//! The GSS-API (RFC 2743, C bindings RFC 2744) of the system's Kerberos library, MIT's `libgssapi_krb5.so.2`.
//!
//! The library is loaded when it is first asked for ([`library`]), so that the server starts on machines without
//! Kerberos and says what is missing only where it is used. Everything here may wait: for files, for the name service,
//! an initiator for a key distribution centre (KDC). Only [`MessageContext`] never does.
//!
//! Invariant: a pointer of the library is in exactly one value here, which releases it.

mod accept;
mod initiate;
mod library;
mod message;
mod session_keys;

pub use accept::{Accepted, AcceptorCredential};
pub use initiate::{Initiator, InitiatorCredential};
pub use library::is_available;
pub use message::MessageContext;
pub use session_keys::SessionKeys;

use library::{Buffer, Library, OM_uint32};
use std::ptr;

/// The longest token of a peer that is looked at: a ticket with an Active Directory PAC takes up to 40 KiB.
pub const TOKEN_MAX: usize = 64 << 10;

/// Why a call of the library failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssError {
    /// The major status (RFC 2744 §3.9.1); 0 if the library was not reached.
    pub major: u32,
    /// The mechanism's own status.
    pub minor: u32,
    /// Both in the library's words.
    pub text: String,
}

impl std::fmt::Display for GssError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for GssError {}

impl GssError {
    /// One of ours, that no call has returned.
    fn of_text(text: impl Into<String>) -> Self {
        Self { major: 0, minor: 0, text: text.into() }
    }
}

/// Of a major status, the bits that are errors; the others are information (RFC 2744 §3.9.1).
const ERROR_BITS: OM_uint32 = 0xffff_0000;

impl Library {
    /// What a status means, unless it is not an error.
    fn check(&self, major: OM_uint32, minor: OM_uint32) -> Result<(), GssError> {
        if major & ERROR_BITS == 0 {
            return Ok(());
        }
        let general = self.status_text(major, STATUS_OF_GSS);
        let own =
            if minor == 0 { String::new() } else { self.status_text(minor, STATUS_OF_MECHANISM) };
        let text = if own.is_empty() { general } else { format!("{general}: {own}") };
        Err(GssError { major, minor, text })
    }

    /// The words for a status code.
    fn status_text(&self, status: OM_uint32, kind: i32) -> String {
        let mut text = String::new();
        let mut more: OM_uint32 = 0;
        // a status of several errors has several texts
        for _ in 0..8 {
            let (mut minor, mut message) = (0, Buffer::EMPTY);
            // SAFETY: all pointers are to locals that outlive the call; `message` is released below.
            let major = unsafe {
                (self.display_status)(
                    &raw mut minor,
                    status,
                    kind,
                    library::KRB5_MECHANISM.as_ptr(),
                    &raw mut more,
                    &raw mut message,
                )
            };
            if major & ERROR_BITS != 0 {
                break;
            }
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&String::from_utf8_lossy(&self.take(message)));
            if more == 0 {
                break;
            }
        }
        text
    }

    /// Copies what a buffer of the library holds, and releases it.
    fn take(&self, mut buffer: Buffer) -> Vec<u8> {
        let mut bytes = Vec::new();
        if buffer.length > 0 {
            let value = buffer.value.cast::<u8>();
            // SAFETY: the library has filled the buffer: `value` points to `length` bytes that stay until the release.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(value, buffer.length) });
        }
        let mut minor = 0;
        // SAFETY: the buffer is the library's own and nothing borrows from it any more.
        unsafe { (self.release_buffer)(&raw mut minor, &raw mut buffer) };
        bytes
    }
}

/// `GSS_C_GSS_CODE`.
const STATUS_OF_GSS: i32 = 1;
/// `GSS_C_MECH_CODE`.
const STATUS_OF_MECHANISM: i32 = 2;

/// The user of this machine that `auth_to_local` of krb5.conf(5) makes of a principal; `None` if there is none.
///
/// # Errors
/// The library is missing, or the text is not a principal.
pub fn local_user_of(principal: &str) -> Result<Option<String>, GssError> {
    let name = Name::import(library::library()?, principal, &library::PRINCIPAL_NAME)?;
    Ok(name.local_user())
}

/// A name of the library.
struct Name {
    library: &'static Library,
    pointer: library::Pointer,
}

impl Name {
    /// A service on a host, as `nfs@server.example`.
    fn of_service(library: &'static Library, service: &str) -> Result<Self, GssError> {
        Self::import(library, service, &library::HOSTBASED_SERVICE)
    }

    /// A text of one of the types that are constants.
    fn import(
        library: &'static Library,
        text: &str,
        kind: &'static library::Oid,
    ) -> Result<Self, GssError> {
        let (mut minor, mut pointer) = (0, ptr::null_mut());
        let mut text = Buffer::of(text.as_bytes());
        // SAFETY: `text` borrows for the call only; the name type is a constant; `pointer` takes the result.
        let major = unsafe {
            (library.import_name)(&raw mut minor, &raw mut text, kind.as_ptr(), &raw mut pointer)
        };
        library.check(major, minor)?;
        Ok(Self { library, pointer })
    }

    /// As the mechanism writes it.
    fn text(&self) -> Result<String, GssError> {
        let (mut minor, mut text) = (0, Buffer::EMPTY);
        // SAFETY: the name is alive; `text` takes the result and is released by `take`; the name's type is not asked for.
        let major = unsafe {
            (self.library.display_name)(
                &raw mut minor,
                self.pointer,
                &raw mut text,
                ptr::null_mut(),
            )
        };
        self.library.check(major, minor)?;
        Ok(String::from_utf8_lossy(&self.library.take(text)).into_owned())
    }

    /// The user of this machine that `auth_to_local` of krb5.conf(5) makes of it; `None` if there is none.
    fn local_user(&self) -> Option<String> {
        let (mut minor, mut text) = (0, Buffer::EMPTY);
        // SAFETY: the name is alive; the mechanism is a constant; `text` takes the result and is released by `take`.
        let major = unsafe {
            (self.library.localname)(
                &raw mut minor,
                self.pointer,
                library::KRB5_MECHANISM.as_ptr(),
                &raw mut text,
            )
        };
        self.library.check(major, minor).ok()?;
        String::from_utf8(self.library.take(text)).ok().filter(|name| !name.is_empty())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the pointer is a name of the library or null, owned here, and not used again.
        unsafe { (self.library.release_name)(&raw mut minor, &raw mut self.pointer) };
    }
}

#[cfg(test)]
mod tests;
