//! The names of states and sessions (RFC 8881 §8.2).

/// A session's name on the wire.
pub type SessionId = [u8; 16];

/// A key of the map of sessions and opens.
pub(super) type Key = [u8; 16];

/// A stateid: which state, and which version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stateid {
    /// The version; 0 in a request is the current one.
    pub seqid: u32,
    /// The state.
    pub other: [u8; 12],
}

/// Why a stateid gives no right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateidError {
    /// The state was taken from the client, which has not freed the stateid yet.
    Revoked,
    /// It is a delegation that was not returned in time, and the client has not freed the stateid yet.
    DelegationRevoked,
    /// There is no such state, it is another client's, or of another file.
    Bad,
    /// It has changed since.
    Old,
    /// The file is not open for that.
    OpenMode,
    /// It is of an earlier life of the server; only in version 4.0.
    Stale,
    /// It was lost with its client; only in version 4.0.
    Expired,
}

/// The place of a stateid in the map: sessions have another last word.
pub(super) const fn key_of(other: &[u8; 12]) -> Key {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *other;
    [a, b, c, d, e, f, g, h, i, j, k, l, 0xff, 0xff, 0xff, 0xff]
}

/// Compares the version of a stateid in a request with the present one.
pub(super) const fn check_version(asked: u32, current: u32) -> Result<(), StateidError> {
    if asked == 0 || asked == current {
        return Ok(());
    }
    // the number wraps from the highest to 1
    let old = current.wrapping_sub(asked) < 1 << 31;
    Err(if old { StateidError::Old } else { StateidError::Bad })
}
