//! Per-message tokens (RFC 4121 §4.2) computed by this program with keys exported by the library: in one pass and in
//! place, while the library copies each message several times.
//!
//! Tokens are those of AES contexts. Own tokens have no filler and no rotation; both are accepted in received ones.
//! Sequence numbers of tokens are written but not checked, as RPCSEC_GSS has its own (RFC 2203 §5.3.3.1).

mod cts;
mod profile;
mod token;

use crate::mechanism::{Messages, Room, Unprotected};
use profile::{ChecksumMismatch, Keys};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use sys::gssapi::SessionKeys;
use token::{HEADER, Kind, MIC_HEADER, SealedParts, TokenFlags};

pub use profile::mac_len;

/// Bytes of the random confounder.
const CONFOUNDER: usize = cts::BLOCK;

/// Key usage numbers (RFC 4121 §2): seal and sign of the acceptor, and of the initiator.
const OF_ACCEPTOR: (u32, u32) = (22, 23);
const OF_INITIATOR: (u32, u32) = (24, 25);

/// The space that sealing needs around a message, with HMACs of this length.
pub const fn room(mac_len: usize) -> Room {
    // after the message: an encrypted copy of the header, then the HMAC
    Room { head: HEADER.saturating_add(CONFOUNDER), tail: HEADER.saturating_add(mac_len) }
}

/// Per-message calls of one side of a context.
pub struct OwnMessages {
    ours: Keys,
    theirs: Keys,
    flags: TokenFlags,
    /// The sequence number of the next token.
    sequence: AtomicU64,
}

impl From<ChecksumMismatch> for Unprotected {
    fn from(_: ChecksumMismatch) -> Self {
        Self
    }
}

impl OwnMessages {
    /// With the keys of a context; `None` if their encryption type is not an AES type.
    pub fn new(keys: &SessionKeys) -> Option<Self> {
        let derive = |(seal, sign)| Keys::derive(keys.encryption_type, &keys.key, seal, sign);
        let (ours, theirs) = if keys.is_initiator {
            (OF_INITIATOR, OF_ACCEPTOR)
        } else {
            (OF_ACCEPTOR, OF_INITIATOR)
        };
        Some(Self {
            ours: derive(ours)?,
            theirs: derive(theirs)?,
            flags: TokenFlags {
                by_acceptor: !keys.is_initiator,
                acceptor_subkey: keys.is_acceptor_subkey,
            },
            sequence: AtomicU64::new(keys.send_sequence),
        })
    }

    fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }
}

impl Messages for OwnMessages {
    fn checksum(&self, message: &[u8]) -> Result<Vec<u8>, Unprotected> {
        let header = self.flags.header(Kind::Mic, self.next());
        let sum = self.ours.sign([message, &header]);
        let sum = sum.as_ref().get(..self.ours.mac_len()).ok_or(Unprotected)?;
        Ok([&header, sum].concat())
    }

    fn verify(&self, message: &[u8], checksum: &[u8]) -> Result<(), Unprotected> {
        let (header, sum) = checksum.split_first_chunk::<MIC_HEADER>().ok_or(Unprotected)?;
        if !self.flags.are_of_peer(Kind::Mic, header) {
            return Err(Unprotected);
        }
        Ok(self.theirs.verify([message, header], sum)?)
    }

    fn room(&self) -> Room {
        room(self.ours.mac_len())
    }

    fn seal(&self, token: &mut [u8]) -> Result<(), Unprotected> {
        let header = self.flags.header(Kind::Sealed, self.next());
        let (place, sealed) = token.split_first_chunk_mut::<HEADER>().ok_or(Unprotected)?;
        *place = header;
        let confounder = sealed.first_chunk_mut::<CONFOUNDER>().ok_or(Unprotected)?;
        aws_lc_rs::rand::fill(confounder).map_err(|_| Unprotected)?;
        let end = sealed.len().checked_sub(self.ours.mac_len()).ok_or(Unprotected)?;
        let copy = end.checked_sub(HEADER).ok_or(Unprotected)?..end;
        sealed.get_mut(copy).ok_or(Unprotected)?.copy_from_slice(&header);
        Ok(self.ours.encrypt(sealed)?)
    }

    fn open(&self, sealed: &[u8], buffer: &mut Vec<u8>) -> Result<Range<usize>, Unprotected> {
        let SealedParts { header, filler, turned, body } =
            self.flags.parts(sealed).ok_or(Unprotected)?;
        if turned == 0 {
            self.theirs.decrypt(body, buffer)?;
        } else {
            let (moved, rest) = body.split_at_checked(turned).ok_or(Unprotected)?;
            self.theirs.decrypt(&[rest, moved].concat(), buffer)?;
        }
        // confounder, message, filler, header: the encrypted copy of the header is authoritative
        let (before, copy) = buffer.split_last_chunk::<HEADER>().ok_or(Unprotected)?;
        if *copy != header {
            return Err(Unprotected);
        }
        let end = before.len().checked_sub(filler).ok_or(Unprotected)?;
        if end < CONFOUNDER { Err(Unprotected) } else { Ok(CONFOUNDER..end) }
    }
}

#[cfg(test)]
mod tests;
