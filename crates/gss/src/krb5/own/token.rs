//! Headers of per-message tokens (RFC 4121 §4.2.2, §4.2.6).

/// Bytes of the header of a sealed token.
pub const HEADER: usize = 16;
/// Bytes of the header of a checksum.
pub const MIC_HEADER: usize = 16;

/// A token type: its first two bytes (TOK_ID).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A checksum (§4.2.6.1).
    Mic,
    /// A sealed message (§4.2.6.2).
    Sealed,
}

/// Bits of the flags byte (RFC 4121 §4.2.2).
const BY_ACCEPTOR: u8 = 1;
const SEALED: u8 = 2;
const ACCEPTOR_SUBKEY: u8 = 4;

/// The flags of this side's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenFlags {
    pub by_acceptor: bool,
    pub acceptor_subkey: bool,
}

/// A sealed token as received.
#[derive(Debug, PartialEq, Eq)]
pub struct SealedParts<'a> {
    /// The header before rotation, which the decrypted body ends with.
    pub header: [u8; HEADER],
    /// Bytes of filler after the message.
    pub filler: usize,
    /// The offset in the body at which its unrotated beginning is.
    pub turned: usize,
    /// The body: everything after the header.
    pub body: &'a [u8],
}

impl TokenFlags {
    fn bits(self, kind: Kind) -> u8 {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        bit(self.by_acceptor, BY_ACCEPTOR)
            | bit(kind == Kind::Sealed, SEALED)
            | bit(self.acceptor_subkey, ACCEPTOR_SUBKEY)
    }

    /// The header of a token of this side, without filler and rotation.
    pub fn header(self, kind: Kind, sequence: u64) -> [u8; HEADER] {
        let [a, b, c, d, e, f, g, h] = sequence.to_be_bytes();
        let flags = self.bits(kind);
        match kind {
            Kind::Mic => [4, 4, flags, 255, 255, 255, 255, 255, a, b, c, d, e, f, g, h],
            Kind::Sealed => [5, 4, flags, 255, 0, 0, 0, 0, a, b, c, d, e, f, g, h],
        }
    }

    /// Whether a header is valid for the other side, except filler and rotation.
    pub fn are_of_peer(self, kind: Kind, header: &[u8; HEADER]) -> bool {
        let expected = Self { by_acceptor: !self.by_acceptor, ..self }.header(kind, 0);
        let same = if kind == Kind::Mic { 8 } else { 4 };
        header.get(..same) == expected.get(..same)
    }

    /// The parts of a sealed token of the other side; `None` if it is invalid.
    pub fn parts(self, token: &[u8]) -> Option<SealedParts<'_>> {
        let (header, body) = token.split_first_chunk::<HEADER>()?;
        if !self.are_of_peer(Kind::Sealed, header) {
            return None;
        }
        let [a, b, c, d, e0, e1, r0, r1, sequence @ ..] = *header;
        let [s0, s1, s2, s3, s4, s5, s6, s7] = sequence;
        let rotated: usize = u16::from_be_bytes([r0, r1]).into();
        Some(SealedParts {
            header: [a, b, c, d, e0, e1, 0, 0, s0, s1, s2, s3, s4, s5, s6, s7],
            filler: u16::from_be_bytes([e0, e1]).into(),
            // rotated right: the beginning is this many bytes after the front
            turned: rotated.checked_rem(body.len())?,
            body,
        })
    }
}
