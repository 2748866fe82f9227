//! The socket buffer sizes that an export asks for, in a form that a call's outcome can carry: the
//! transport knows nothing of exports, and the procedures know nothing of sockets.

/// The size that is asked for of one buffer. Ordered: unset, the kernel's own sizing, sizes by size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SocketBufferSize(u32);

impl SocketBufferSize {
    /// Nothing is asked for here: what is configured elsewhere counts.
    pub const UNSET: Self = Self(0);
    /// The kernel's own sizing.
    pub const AUTO: Self = Self(1);

    /// At least this many bytes, as SO_RCVBUF and SO_SNDBUF count them.
    pub const fn bytes(bytes: u32) -> Self {
        Self(if bytes < 2 { 2 } else { bytes })
    }

    /// The size, if a fixed one is asked for.
    pub const fn size(self) -> Option<u32> {
        if self.0 > Self::AUTO.0 { Some(self.0) } else { None }
    }

    /// This, or `other` if this is unset.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if self.0 == Self::UNSET.0 { other } else { self }
    }
}

/// The sizes of both buffers of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SocketBufferSizes {
    /// SO_RCVBUF.
    pub receive: SocketBufferSize,
    /// SO_SNDBUF.
    pub send: SocketBufferSize,
}

impl SocketBufferSizes {
    /// Both unset.
    pub const UNSET: Self =
        Self { receive: SocketBufferSize::UNSET, send: SocketBufferSize::UNSET };

    /// The larger size of each side.
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
        Self { receive: SocketBufferSize((word >> 32) as u32), send: SocketBufferSize(word as u32) }
    }
}

#[cfg(test)]
mod tests {
    use super::{SocketBufferSize, SocketBufferSizes};

    #[test]
    fn sizes_are_ordered_unset_then_auto_then_by_bytes() {
        let (unset, auto, small, large) = (
            SocketBufferSize::UNSET,
            SocketBufferSize::AUTO,
            SocketBufferSize::bytes(0),
            SocketBufferSize::bytes(1 << 29),
        );
        assert!(unset < auto && auto < small && small < large);
        assert_eq!((auto.size(), large.size()), (None, Some(1 << 29)));
        assert_eq!((unset.or(large), auto.or(large)), (large, auto));
        let one = SocketBufferSizes { receive: large, send: unset };
        let other = SocketBufferSizes { receive: small, send: auto };
        assert_eq!(one.max(other), SocketBufferSizes { receive: large, send: auto });
        assert_eq!(SocketBufferSizes::unpack(one.packed()), one);
    }
}
