//! What somebody wants of a connection's socket buffers, in a form that a call can carry: the
//! transport knows nothing of exports, and the procedures know nothing of sockets.

/// What is wanted of one buffer. Ordered: nothing, the kernel's own sizing, sizes by size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BufferWish(u32);

impl BufferWish {
    /// Nothing in particular: what is wanted elsewhere counts.
    pub const NONE: Self = Self(0);
    /// The kernel's own sizing.
    pub const AUTO: Self = Self(1);

    /// At least so many bytes, as SO_RCVBUF and SO_SNDBUF count them.
    pub const fn bytes(bytes: u32) -> Self {
        Self(if bytes < 2 { 2 } else { bytes })
    }

    /// The size, if one is wanted.
    pub const fn size(self) -> Option<u32> {
        if self.0 > Self::AUTO.0 { Some(self.0) } else { None }
    }

    /// This, or `other` if nothing is wanted here.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if self.0 == Self::NONE.0 { other } else { self }
    }
}

/// What is wanted of both buffers of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BufferWishes {
    /// Of what arrives.
    pub receive: BufferWish,
    /// Of what leaves.
    pub send: BufferWish,
}

impl BufferWishes {
    /// Nothing in particular.
    pub const NONE: Self = Self { receive: BufferWish::NONE, send: BufferWish::NONE };

    /// The larger wish of each side.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { receive: self.receive.max(other.receive), send: self.send.max(other.send) }
    }

    /// Both in one word, to be kept in an atomic.
    pub const fn packed(self) -> u64 {
        (self.receive.0 as u64) << 32 | self.send.0 as u64
    }

    /// The two of a packed word.
    pub const fn unpack(word: u64) -> Self {
        Self { receive: BufferWish((word >> 32) as u32), send: BufferWish(word as u32) }
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferWish, BufferWishes};

    #[test]
    fn a_size_goes_before_the_kernels_own_and_that_before_nothing() {
        let (none, auto, small, large) =
            (BufferWish::NONE, BufferWish::AUTO, BufferWish::bytes(0), BufferWish::bytes(1 << 29));
        assert!(none < auto && auto < small && small < large);
        assert_eq!((auto.size(), large.size()), (None, Some(1 << 29)));
        assert_eq!((none.or(large), auto.or(large)), (large, auto));
        let one = BufferWishes { receive: large, send: none };
        let other = BufferWishes { receive: small, send: auto };
        assert_eq!(one.max(other), BufferWishes { receive: large, send: auto });
        assert_eq!(BufferWishes::unpack(one.packed()), one);
    }
}
