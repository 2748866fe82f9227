//! Per-message calls of an established context (RFC 2743 §2.3).
//!
//! The library changes a context with each message (the number that it puts into the next token), so a lock guards it; it
//! is held for one computation and never while anything waits. Sequence numbers of the library's own tokens are not looked
//! at: RPCSEC_GSS has its own (RFC 2203 §5.3.3.1).

use super::GssError;
use super::library::{Buffer, Library, Pointer};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An established context.
pub struct MessageContext {
    library: &'static Library,
    /// The context; one thread at a time uses it.
    state: Mutex<Context>,
}

/// The library's context; null if there is none.
pub(super) struct Context(Pointer);

// SAFETY: the library binds a context to no thread; the lock around it lets one thread use it at a time.
unsafe impl Send for Context {}

impl Context {
    /// For a call.
    pub const fn pointer(&self) -> Pointer {
        self.0
    }

    /// For a call that may end the context, and then leaves null.
    pub(super) const fn place(&mut self) -> *mut Pointer {
        &raw mut self.0
    }
}

impl MessageContext {
    /// Owns a context of the library from now on; null is none, which fails at every message.
    pub(super) const fn new(library: &'static Library, context: Pointer) -> Self {
        Self { library, state: Mutex::new(Context(context)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Context> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checksum of a message.
    ///
    /// # Errors
    /// The context has expired.
    pub fn checksum(&self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        let (mut minor, mut input, mut output) = (0, Buffer::of(message), Buffer::EMPTY);
        let context = self.lock();
        // SAFETY: the context is locked; `input` borrows the message for the call only; `output` is released by `take`.
        let major = unsafe {
            (self.library.get_mic)(
                &raw mut minor,
                context.pointer(),
                0,
                &raw mut input,
                &raw mut output,
            )
        };
        drop(context);
        let checksum = self.library.take(output);
        self.library.check(major, minor)?;
        Ok(checksum)
    }

    /// Whether a checksum is that of a message.
    ///
    /// # Errors
    /// It is not, or the context has expired.
    pub fn verify(&self, message: &[u8], checksum: &[u8]) -> Result<(), GssError> {
        let (mut minor, mut input, mut token) = (0, Buffer::of(message), Buffer::of(checksum));
        let context = self.lock();
        // SAFETY: the context is locked; both buffers borrow for the call only; the quality is not asked for.
        let major = unsafe {
            (self.library.verify_mic)(
                &raw mut minor,
                context.pointer(),
                &raw mut input,
                &raw mut token,
                ptr::null_mut(),
            )
        };
        drop(context);
        self.library.check(major, minor)
    }

    /// Encrypts a message.
    ///
    /// # Errors
    /// The context has expired.
    pub fn seal(&self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        let (mut minor, mut input, mut output) = (0, Buffer::of(message), Buffer::EMPTY);
        let mut encrypted = 0;
        let context = self.lock();
        // SAFETY: the context is locked; `input` borrows the message for the call only; `output` is released by `take`.
        let major = unsafe {
            (self.library.wrap)(
                &raw mut minor,
                context.pointer(),
                1,
                0,
                &raw mut input,
                &raw mut encrypted,
                &raw mut output,
            )
        };
        drop(context);
        let sealed = self.library.take(output);
        self.library.check(major, minor)?;
        if encrypted == 0 {
            return Err(GssError::of_text("the context cannot encrypt"));
        }
        Ok(sealed)
    }

    /// Decrypts a message.
    ///
    /// # Errors
    /// It was changed, or not encrypted, or the context has expired.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, GssError> {
        let (mut minor, mut input, mut output) = (0, Buffer::of(sealed), Buffer::EMPTY);
        let mut encrypted = 0;
        let context = self.lock();
        // SAFETY: the context is locked; `input` borrows the message for the call only; `output` is released by `take`;
        // the quality is not asked for.
        let major = unsafe {
            (self.library.unwrap)(
                &raw mut minor,
                context.pointer(),
                &raw mut input,
                &raw mut output,
                &raw mut encrypted,
                ptr::null_mut(),
            )
        };
        drop(context);
        let message = self.library.take(output);
        self.library.check(major, minor)?;
        if encrypted == 0 {
            return Err(GssError::of_text("the message is not encrypted"));
        }
        Ok(message)
    }
}

impl Drop for MessageContext {
    fn drop(&mut self) {
        let mut minor = 0;
        let context = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if context.0.is_null() {
            return;
        }
        // SAFETY: the context is owned here and not used again; no token is asked for.
        unsafe {
            (self.library.delete_sec_context)(&raw mut minor, &raw mut context.0, ptr::null_mut())
        };
    }
}
