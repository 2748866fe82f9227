//! Linked lists in XDR (RFC 4506 §4.19): a boolean before each element, false at the end. Used by
//! results of MOUNT and the port mapper.
//!
//! Invariant: decoding takes no more elements than the caller allows.

use xdr::{Decode, Encode, Error, Reader, Writer};

/// Appends all of `items` as one list.
pub fn encode<T: Encode>(w: &mut Writer, items: impl IntoIterator<Item = T>) {
    for item in items {
        w.bool(true);
        w.put(&item);
    }
    w.bool(false);
}

/// Reads one list of at most `limit` elements.
///
/// # Errors
/// [`Error::TooLong`] for more elements, and those of the element's type.
pub fn decode<'a, T: Decode<'a>>(r: &mut Reader<'a>, limit: usize) -> Result<Vec<T>, Error> {
    let mut items = Vec::new();
    while r.bool()? {
        if items.len() >= limit {
            return Err(Error::TooLong { len: items.len().saturating_add(1), limit });
        }
        items.push(r.get()?);
    }
    Ok(items)
}
