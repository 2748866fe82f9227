//! The envelope of a wire handle, with a MAC against forged handles.
//!
//! ```text
//! 0      version, 1
//! 1      length of the file id
//! 2..6   export id, derived from the export's UUID
//! 6..n   the backend's file id
//! n..n+8 SipHash-2-4 over the export's UUID, its root and all of the above, little endian
//! ```
//! Fourteen bytes more than the file id: an ext4 or XFS file fits the 32 bytes of version 2, and
//! nothing exceeds the 64 of version 3 (RFC 1813 §2.4). Zero bytes after the MAC are allowed up to
//! 32 bytes in all, because version 2 pads its handles (RFC 1094 §2.3.3).
//!
//! The MAC is checked before anything else of a handle is used. It prevents clients from naming
//! objects whose handles the server never sent; it does not authenticate clients.

use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;
use vfs::{Fid, Status};

/// Bytes that the envelope adds to a file id.
pub const OVERHEAD: usize = HEAD + MAC_LEN;

const VERSION: u8 = 1;
const HEAD: usize = 6;
const MAC_LEN: usize = 8;
/// The fixed length of a version 2 handle.
const V2_LEN: usize = 32;

/// The server's secret key for handles.
#[derive(Clone, Copy)]
pub struct Key(pub [u8; 16]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// A sealed handle: at most 64 bytes.
#[derive(Clone, Copy)]
pub struct Handle {
    bytes: [u8; Self::MAX],
    len: usize,
}

impl Handle {
    /// The most bytes of a handle (`NFS3_FHSIZE`).
    pub const MAX: usize = 64;

    /// How many bytes the handle of a file id has.
    #[inline]
    pub fn len_of(fid: &Fid) -> usize {
        OVERHEAD.saturating_add(fid.bytes().len())
    }

    /// The bytes of the handle with padding after them, and their number.
    pub const fn padded(&self) -> (&[u8; Self::MAX], usize) {
        (&self.bytes, self.len)
    }

    /// The bytes of the handle.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Handle {}

/// Seals and opens the handles of one export. The hash of its UUID and of its root's file id, with which every
/// MAC begins, is computed once. The root is in it because a UUID belongs to a path or an `fsid=`: handles
/// of another directory that was exported under the same name do not open.
#[derive(Clone, Copy)]
pub struct Sealer {
    id: u32,
    prefix_hash: SipHasher24,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(secret)")
    }
}

impl Sealer {
    /// For the export of this UUID and root, whose number in handles is `id`.
    pub fn new(key: Key, id: u32, uuid: &[u8; 16], root: &Fid) -> Self {
        let mut prefix_hash = SipHasher24::new_with_key(&key.0);
        prefix_hash.write(uuid);
        // whole words: SipHash continues from an odd byte at twice the cost
        prefix_hash.write(&(root.bytes().len() as u64).to_le_bytes());
        prefix_hash.write(root.padded());
        Self { id, prefix_hash }
    }

    /// Seals a file id.
    pub fn seal(&self, fid: &Fid) -> Handle {
        let mut bytes = [0; Handle::MAX];
        self.seal_into(fid, &mut bytes);
        Handle { bytes, len: Handle::len_of(fid) }
    }

    /// Seals a file id where the handle is wanted, which has [`Handle::len_of`] bytes; what is behind them is overwritten as
    /// well.
    #[inline]
    pub fn seal_into(&self, fid: &Fid, place: &mut [u8; Handle::MAX]) {
        let fid_len = fid.bytes().len();
        let [a, b, c, d] = self.id.to_be_bytes();
        if let Some((head, rest)) = place.split_first_chunk_mut::<HEAD>() {
            *head = [VERSION, u8::try_from(fid_len).unwrap_or(0), a, b, c, d];
            // the whole array, because a constant length is copied inline; the MAC overwrites the padding
            if let Some(place) = rest.first_chunk_mut::<{ Fid::MAX }>() {
                *place = *fid.padded();
            }
        }
        let end = HEAD.saturating_add(fid_len);
        let (body, rest) = place.split_at_mut(end.min(Handle::MAX));
        if let Some(place) = rest.first_chunk_mut::<MAC_LEN>() {
            *place = self.prefix_hash.hash(body).to_le_bytes();
        }
    }

    /// The file id in a handle, if it was sealed with this key for this export.
    ///
    /// # Errors
    /// [`Status::BadHandle`].
    pub fn open(&self, envelope: &Envelope<'_>) -> Result<Fid, Status> {
        // one comparison of whole words: takes the same time wherever they differ
        if self.prefix_hash.hash(envelope.body) != u64::from_le_bytes(envelope.mac) {
            return Err(Status::BadHandle);
        }
        envelope.body.get(HEAD..).and_then(Fid::new).ok_or(Status::BadHandle)
    }
}

/// The parts of a handle whose MAC has not been checked.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'h> {
    /// The export id that it claims.
    pub id: u32,
    body: &'h [u8],
    mac: [u8; MAC_LEN],
}

impl<'h> Envelope<'h> {
    /// Splits a wire handle.
    ///
    /// # Errors
    /// [`Status::BadHandle`] for anything that was not sealed by this format.
    pub fn parse(wire: &'h [u8]) -> Result<Self, Status> {
        Self::split(wire).ok_or(Status::BadHandle)
    }

    fn split(wire: &'h [u8]) -> Option<Self> {
        let [version, fid_len, a, b, c, d] = *wire.first_chunk::<HEAD>()?;
        let end = HEAD.checked_add(usize::from(fid_len))?;
        let (body, rest) = wire.split_at_checked(end)?;
        let (mac, padding) = rest.split_first_chunk::<MAC_LEN>()?;
        let padded = padding.is_empty() || wire.len() == V2_LEN && padding.iter().all(|b| *b == 0);
        (version == VERSION && padded).then_some(Self {
            id: u32::from_be_bytes([a, b, c, d]),
            body,
            mac: *mac,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Envelope, Handle, Key, OVERHEAD, Sealer};
    use proptest::prelude::*;
    use vfs::{Fid, Status};

    const KEY: Key = Key([7; 16]);
    const UUID: [u8; 16] = [3; 16];

    fn root() -> Fid {
        Fid::new(b"root").unwrap()
    }

    fn sealer() -> Sealer {
        Sealer::new(KEY, 9, &UUID, &root())
    }

    fn open(wire: &[u8]) -> Result<Fid, Status> {
        sealer().open(&Envelope::parse(wire)?)
    }

    #[test]
    fn the_mac_is_that_of_uuid_root_and_body() {
        use siphasher::sip::SipHasher24;
        use std::hash::Hasher;
        let handle: Handle = sealer().seal(&Fid::new(b"file").unwrap());
        let (body, mac) = handle.bytes().split_last_chunk::<8>().unwrap();
        let mut whole = SipHasher24::new_with_key(&KEY.0);
        whole.write(&UUID);
        whole.write(&4_u64.to_le_bytes());
        whole.write(&[b"root".as_slice(), &[0; Fid::MAX - 4]].concat());
        whole.write(body);
        assert_eq!(u64::from_le_bytes(*mac), whole.finish());
    }

    #[test]
    fn a_sealed_handle_opens_for_every_length_of_file_id() {
        for len in 0..=Fid::MAX {
            let fid = Fid::new(&vec![0xa5; len]).unwrap();
            let handle = sealer().seal(&fid);
            assert_eq!(handle.bytes().len(), len + OVERHEAD);
            assert_eq!(open(handle.bytes()), Ok(fid));
            assert_eq!(Envelope::parse(handle.bytes()).unwrap().id, 9);
        }
    }

    #[test]
    fn any_flipped_bit_is_refused() {
        let fid = Fid::new(b"twelve bytes").unwrap();
        let handle = sealer().seal(&fid);
        for bit in 0..handle.bytes().len() * 8 {
            let mut forged = handle.bytes().to_vec();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&forged), Err(Status::BadHandle), "bit {bit}");
        }
        for len in 0..handle.bytes().len() {
            assert_eq!(open(&handle.bytes()[..len]), Err(Status::BadHandle));
        }
    }

    #[test]
    fn a_handle_does_not_open_with_another_key_uuid_or_root() {
        let handle = sealer().seal(&Fid::new(b"f").unwrap());
        let envelope = Envelope::parse(handle.bytes()).unwrap();
        assert!(Sealer::new(Key([8; 16]), 9, &UUID, &root()).open(&envelope).is_err());
        assert!(Sealer::new(KEY, 9, &[4; 16], &root()).open(&envelope).is_err());
        let elsewhere = Fid::new(b"other").unwrap();
        assert!(Sealer::new(KEY, 9, &UUID, &elsewhere).open(&envelope).is_err());
    }

    #[test]
    fn only_zero_padding_to_32_bytes_is_accepted() {
        let fid = Fid::new(b"eleven byte").unwrap();
        let mut wire = sealer().seal(&fid).bytes().to_vec();
        wire.push(0);
        assert!(open(&wire).is_err());
        wire.resize(32, 0);
        assert_eq!(open(&wire), Ok(fid));
        wire[31] = 1;
        assert!(open(&wire).is_err());
    }

    proptest! {
        #[test]
        fn no_changed_handle_opens(
            key: [u8; 16], id: u32, uuid: [u8; 16],
            fid in proptest::collection::vec(any::<u8>(), 0..=Fid::MAX),
            flips in proptest::collection::vec(any::<proptest::sample::Index>(), 1..4),
        ) {
            let sealer = Sealer::new(Key(key), id, &uuid, &root());
            let handle = sealer.seal(&Fid::new(&fid).unwrap());
            let opened = Envelope::parse(handle.bytes()).and_then(|e| sealer.open(&e));
            prop_assert_eq!(opened, Ok(Fid::new(&fid).unwrap()));
            let mut wire = handle.bytes().to_vec();
            for flip in flips {
                let bit = flip.index(wire.len() * 8);
                wire[bit / 8] ^= 1 << (bit % 8);
            }
            prop_assume!(wire != handle.bytes());
            let opened = Envelope::parse(&wire).and_then(|e| sealer.open(&e));
            prop_assert_eq!(opened, Err(Status::BadHandle));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(wire in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(open(&wire).is_err());
        }
    }
}
