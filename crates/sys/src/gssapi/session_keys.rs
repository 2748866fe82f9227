//! The keys of an established context, for who protects messages without the library (MIT's "lucid" contexts).

use super::library::{Library, Pointer, library};
use super::{GssError, MessageContext};
use std::ffi::c_void;
use std::ptr;

/// What messages of a context are protected with. Never printed.
pub struct SessionKeys {
    /// Whether this side has begun the context.
    pub is_initiator: bool,
    /// The number of the next token that is sent.
    pub send_sequence: u64,
    /// The key's encryption type (RFC 3961 §8).
    pub encryption_type: u32,
    /// The key.
    pub key: Vec<u8>,
    /// Whether it is the acceptor's subkey, which each token says (RFC 4121 §4.2.2).
    pub is_acceptor_subkey: bool,
}

impl Drop for SessionKeys {
    fn drop(&mut self) {
        self.key.fill(0);
        // the compiler may not leave the line above out
        std::hint::black_box(&self.key);
    }
}

/// `gss_krb5_lucid_key_t`.
#[repr(C)]
struct LucidKey {
    kind: u32,
    length: u32,
    data: *const c_void,
}

/// `gss_krb5_lucid_context_v1_t`.
#[repr(C)]
struct Lucid {
    version: u32,
    initiate: u32,
    end_time: u32,
    send_sequence: u64,
    receive_sequence: u64,
    protocol: u32,
    old_sign_algorithm: u32,
    old_seal_algorithm: u32,
    old_key: LucidKey,
    has_acceptor_subkey: u32,
    key: LucidKey,
    acceptor_subkey: LucidKey,
}

/// The tokens of RFC 4121; 0 are those of RFC 1964.
const CFX: u32 = 1;
/// The longest key of an encryption type.
const KEY_MAX: u32 = 64;

impl MessageContext {
    /// Takes the keys out of the context, which ends.
    ///
    /// # Errors
    /// The library has none to give, or the context is one of RFC 1964.
    pub fn into_keys(self) -> Result<SessionKeys, GssError> {
        let library = library()?;
        let (mut minor, mut exported) = (0, ptr::null_mut());
        let mut context = self.lock();
        // SAFETY: the context is locked and owned here; the call deletes it and sets the pointer to null, or leaves both
        // as they are; `exported` takes the result, which is freed below.
        let major = unsafe {
            (library.export_lucid)(&raw mut minor, context.place(), 1, &raw mut exported)
        };
        drop(context);
        library.check(major, minor)?;
        let keys = keys_of(exported.cast());
        free(library, exported);
        keys.ok_or_else(|| {
            GssError::of_text(
                "the library does not give the keys of this context: its type is an old one",
            )
        })
    }
}

/// Copies what an exported context says.
fn keys_of(exported: *const Lucid) -> Option<SessionKeys> {
    // SAFETY: a call that succeeded gives null or a context of the version that was asked for.
    let lucid = unsafe { exported.as_ref() }?;
    if lucid.version != 1 || lucid.protocol != CFX {
        return None;
    }
    let is_acceptor_subkey = lucid.has_acceptor_subkey != 0;
    let key = if is_acceptor_subkey { &lucid.acceptor_subkey } else { &lucid.key };
    if key.data.is_null() || key.length > KEY_MAX {
        return None;
    }
    let length = usize::try_from(key.length).ok()?;
    // SAFETY: the key has `length` bytes, and stays until the context is freed.
    let bytes = unsafe { std::slice::from_raw_parts(key.data.cast::<u8>(), length) };
    Some(SessionKeys {
        is_initiator: lucid.initiate != 0,
        send_sequence: lucid.send_sequence,
        encryption_type: key.kind,
        key: bytes.to_vec(),
        is_acceptor_subkey,
    })
}

fn free(library: &Library, exported: Pointer) {
    let mut minor = 0;
    // SAFETY: the exported context is the library's own and nothing borrows from it. It overwrites the keys.
    unsafe { (library.free_lucid)(&raw mut minor, exported) };
}
