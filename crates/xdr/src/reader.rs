//! The borrowed decoder: a cursor over one received record.
//!
//! Owns: the position and the bounds checks. Nothing here allocates or copies payload.

/// Why a record could not be decoded. The peer is at fault in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The record ends before the value does.
    #[error("the record ends early: {wanted} more bytes wanted")]
    Short {
        /// The least number of missing bytes.
        wanted: usize,
    },
    /// A counted value is longer than the protocol or the server allows.
    #[error("a length of {len} is over the limit of {limit}")]
    TooLong {
        /// The length that the peer sent.
        len: usize,
        /// The limit that was exceeded.
        limit: usize,
    },
    /// A boolean that is neither 0 nor 1 (RFC 4506 §4.4).
    #[error("{0} is not a boolean")]
    NotBool(u32),
    /// An enumeration or union discriminant that the protocol does not define.
    #[error("{value} is not a member of {what}")]
    NotMember {
        /// The name of the enumeration in its RFC.
        what: &'static str,
        /// The number that the peer sent.
        value: u32,
    },
    /// The value is well-formed XDR that breaks a rule of the protocol.
    #[error("{0}")]
    Invalid(&'static str),
    /// Bytes are left over after the last argument.
    #[error("{0} bytes follow the last argument")]
    Trailing(usize),
}

/// A type that is read from a record.
pub trait Decode<'a>: Sized {
    /// Reads one value at the cursor.
    ///
    /// # Errors
    /// See [`Error`]; the cursor's position is unspecified after one.
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error>;
}

/// A cursor over a record.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `record`.
    pub const fn new(record: &'a [u8]) -> Self {
        Self { rest: record }
    }

    /// The unread rest.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Number of unread bytes.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(self.short(N)),
        }
    }

    /// That `wanted` bytes are not there. Not inlined, so that values that are there are read without a detour.
    #[cold]
    #[inline(never)]
    const fn short(&self, wanted: usize) -> Error {
        Error::Short { wanted: wanted.saturating_sub(self.rest.len()) }
    }

    /// An `unsigned int` (RFC 4506 §4.2).
    ///
    /// # Errors
    /// [`Error::Short`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Error> {
        match self.take() {
            Ok(bytes) => Ok(u32::from_be_bytes(bytes)),
            Err(error) => Err(error),
        }
    }

    /// Any number of them.
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn words<const N: usize>(&mut self) -> Result<[u32; N], Error> {
        let Some((head, tail)) = self.rest.split_at_checked(N * 4) else {
            return Err(self.short(N * 4));
        };
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(head.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        self.rest = tail;
        Ok(words)
    }

    /// An `int` (RFC 4506 §4.1).
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn i32(&mut self) -> Result<i32, Error> {
        self.take().map(i32::from_be_bytes)
    }

    /// An `unsigned hyper` (RFC 4506 §4.5).
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_be_bytes)
    }

    /// A `bool` (RFC 4506 §4.4); anything but 0 and 1 is refused.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::NotBool`].
    pub fn bool(&mut self) -> Result<bool, Error> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::NotBool(other)),
        }
    }

    /// Fixed-length opaque data of a length known at compile time (RFC 4506 §4.9); `N` must be a
    /// multiple of four, as all fixed opaques of NFS are.
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        const { assert!(N.is_multiple_of(4)) };
        self.take()
    }

    /// Fixed-length opaque data of `len` bytes and its padding (RFC 4506 §4.9).
    ///
    /// # Errors
    /// [`Error::Short`].
    #[inline]
    pub fn opaque_fixed(&mut self, len: usize) -> Result<&'a [u8], Error> {
        if let Some((data, behind)) = self.rest.split_at_checked(len)
            && let Some(tail) = behind.get(crate::padding(len)..)
        {
            self.rest = tail;
            return Ok(data);
        }
        Err(self.short(crate::padded(len)))
    }

    /// Variable-length opaque data of at most `limit` bytes (RFC 4506 §4.10).
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::TooLong`].
    #[inline]
    pub fn opaque(&mut self, limit: usize) -> Result<&'a [u8], Error> {
        let len = self.count(limit)?;
        self.opaque_fixed(len)
    }

    /// The element count of a variable-length array of at most `limit` elements (RFC 4506 §4.13).
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::TooLong`].
    pub fn count(&mut self, limit: usize) -> Result<usize, Error> {
        let len = self.u32()? as usize;
        if len > limit { Err(Error::TooLong { len, limit }) } else { Ok(len) }
    }

    /// Reads one value of a decodable type.
    ///
    /// # Errors
    /// Those of the type.
    pub fn get<T: Decode<'a>>(&mut self) -> Result<T, Error> {
        T::decode(self)
    }

    /// Optional data, the linked-list idiom of RFC 4506 §4.19.
    ///
    /// # Errors
    /// Those of the type, and [`Error::NotBool`].
    pub fn option<T: Decode<'a>>(&mut self) -> Result<Option<T>, Error> {
        if self.bool()? { self.get().map(Some) } else { Ok(None) }
    }

    /// Checks that the record is read completely.
    ///
    /// # Errors
    /// [`Error::Trailing`].
    pub const fn end(&self) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            n => Err(Error::Trailing(n)),
        }
    }
}

impl<'a> Decode<'a> for u32 {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.u32()
    }
}

impl<'a> Decode<'a> for u64 {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.u64()
    }
}

impl<'a> Decode<'a> for bool {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.bool()
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.option()
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.array()
    }
}
