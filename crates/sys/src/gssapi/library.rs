//! The library's functions, found by name when it is loaded, and the types of its interface (RFC 2744 appendix A, and the
//! extensions of MIT's `gssapi_ext.h`).

use super::GssError;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// The library's number for everything.
#[allow(non_camel_case_types)] // the name in RFC 2744
pub(super) type OM_uint32 = u32;

/// A name, context or credential of the library; null is none.
pub(super) type Pointer = *mut c_void;

/// `gss_buffer_desc`.
#[repr(C)]
pub(super) struct Buffer {
    pub length: usize,
    pub value: *mut c_void,
}

impl Buffer {
    /// Nothing.
    pub const EMPTY: Self = Self { length: 0, value: ptr::null_mut() };

    /// Bytes of ours that the library only reads.
    pub const fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

/// `gss_buffer_set_desc`.
#[repr(C)]
pub(super) struct BufferSet {
    pub count: usize,
    pub elements: *mut Buffer,
}

/// `gss_OID_desc`.
#[repr(C)]
pub(super) struct Oid {
    length: OM_uint32,
    elements: *const u8,
}

// SAFETY: an object identifier is constant: nobody writes to it.
unsafe impl Sync for Oid {}

impl Oid {
    const fn of(bytes: &'static [u8]) -> Self {
        Self { length: bytes.len() as OM_uint32, elements: bytes.as_ptr() }
    }

    /// For a call, which only reads it.
    pub const fn as_ptr(&'static self) -> *const Self {
        self
    }
}

/// Kerberos 5: 1.2.840.113554.1.2.2 (RFC 4121 §1).
pub(super) static KRB5_MECHANISM: Oid = Oid::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02");
/// `service@host`: 1.2.840.113554.1.2.1.4 (RFC 2744 §3.5, GSS_C_NT_HOSTBASED_SERVICE).
pub(super) static HOSTBASED_SERVICE: Oid = Oid::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04");
/// A principal as it is written: 1.2.840.113554.1.2.2.1 (RFC 1964 §2.1.1).
pub(super) static PRINCIPAL_NAME: Oid = Oid::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01");
/// MIT's `GSS_C_INQ_SSPI_SESSION_KEY`: the session key and its type.
pub(super) static SESSION_KEY: Oid = Oid::of(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x05\x05");

/// `gss_OID_set_desc`.
#[repr(C)]
pub(super) struct OidSet {
    pub count: usize,
    pub elements: *const Oid,
}

/// `gss_key_value_element_desc`.
#[repr(C)]
pub(super) struct StoreElement {
    pub key: *const c_char,
    pub value: *const c_char,
}

/// `gss_key_value_set_desc`.
#[repr(C)]
pub(super) struct Store {
    pub count: OM_uint32,
    pub elements: *const StoreElement,
}

/// Declares [`Library`] with one field for each function, and loads them.
macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The functions that are used.
        pub(super) struct Library {
            $(pub $field: unsafe extern "C" fn(*mut OM_uint32, $($argument),*) -> OM_uint32,)*
        }

        impl Library {
            /// Finds all functions in a library that is loaded.
            fn find(handle: *mut c_void) -> Result<Self, GssError> {
                Ok(Self {
                    $($field: {
                        let symbol = symbol(handle, $symbol)?;
                        // SAFETY: the symbol is the function of this name, whose C type RFC 2744 (or the library's
                        // header of extensions) gives as the field's; the library is never unloaded.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn(*mut OM_uint32, $($argument),*) -> OM_uint32,
                            >(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    import_name = c"gss_import_name": fn(*mut Buffer, *const Oid, *mut Pointer);
    display_name = c"gss_display_name": fn(Pointer, *mut Buffer, *mut *const Oid);
    release_name = c"gss_release_name": fn(*mut Pointer);
    localname = c"gss_localname": fn(Pointer, *const Oid, *mut Buffer);
    display_status = c"gss_display_status": fn(OM_uint32, c_int, *const Oid, *mut OM_uint32, *mut Buffer);
    release_buffer = c"gss_release_buffer": fn(*mut Buffer);
    release_buffer_set = c"gss_release_buffer_set": fn(*mut *mut BufferSet);
    acquire_cred_from = c"gss_acquire_cred_from": fn(
        Pointer, OM_uint32, *const OidSet, c_int, *const Store, *mut Pointer, *mut *mut OidSet, *mut OM_uint32
    );
    release_cred = c"gss_release_cred": fn(*mut Pointer);
    accept_sec_context = c"gss_accept_sec_context": fn(
        *mut Pointer, Pointer, *mut Buffer, *mut c_void, *mut Pointer, *mut *const Oid, *mut Buffer, *mut OM_uint32,
        *mut OM_uint32, *mut Pointer
    );
    init_sec_context = c"gss_init_sec_context": fn(
        Pointer, *mut Pointer, Pointer, *const Oid, OM_uint32, OM_uint32, *mut c_void, *mut Buffer, *mut *const Oid,
        *mut Buffer, *mut OM_uint32, *mut OM_uint32
    );
    inquire_context = c"gss_inquire_context": fn(
        Pointer, *mut Pointer, *mut Pointer, *mut OM_uint32, *mut *const Oid, *mut OM_uint32, *mut c_int, *mut c_int
    );
    inquire_sec_context_by_oid = c"gss_inquire_sec_context_by_oid": fn(Pointer, *const Oid, *mut *mut BufferSet);
    delete_sec_context = c"gss_delete_sec_context": fn(*mut Pointer, *mut Buffer);
    export_lucid = c"gss_krb5_export_lucid_sec_context": fn(*mut Pointer, OM_uint32, *mut Pointer);
    free_lucid = c"gss_krb5_free_lucid_sec_context": fn(Pointer);
    get_mic = c"gss_get_mic": fn(Pointer, OM_uint32, *mut Buffer, *mut Buffer);
    verify_mic = c"gss_verify_mic": fn(Pointer, *mut Buffer, *mut Buffer, *mut OM_uint32);
    wrap = c"gss_wrap": fn(Pointer, c_int, OM_uint32, *mut Buffer, *mut c_int, *mut Buffer);
    unwrap = c"gss_unwrap": fn(Pointer, *mut Buffer, *mut Buffer, *mut c_int, *mut OM_uint32);
}

/// What dlerror(3) says.
fn load_error() -> String {
    // SAFETY: dlerror gives null or a string that stays until the thread's next call of this family.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".into();
    }
    // SAFETY: as above, not null.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, GssError> {
    // SAFETY: the handle is that of a loaded library, the name ends in NUL.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if symbol.is_null() { Err(GssError::of_text(load_error())) } else { Ok(symbol) }
}

fn load() -> Result<Library, GssError> {
    let (name, flags) = (c"libgssapi_krb5.so.2".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
    // SAFETY: loading runs the library's own start-up code, which any program may have run; it is never unloaded.
    let handle = unsafe { libc::dlopen(name, flags) };
    if handle.is_null() {
        let text = format!(
            "the Kerberos library is missing ({}): install libgssapi-krb5-2 (Debian) or krb5-libs (Fedora)",
            load_error()
        );
        return Err(GssError::of_text(text));
    }
    Library::find(handle)
}

/// The library, loaded by the first who asks.
pub(super) fn library() -> Result<&'static Library, GssError> {
    static LOADED: OnceLock<Result<Library, GssError>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// Whether the library is there.
///
/// # Errors
/// What is missing, and what to install.
pub fn is_available() -> Result<(), GssError> {
    library().map(|_| ())
}
