//! Headers of Kerberos tokens, which are read before their checksums: what is found is what the bytes say, and what is
//! written is read again. With keys: `crates/gss/src/krb5/own/tests.rs`.

#[path = "../../crates/gss/src/krb5/own/token.rs"]
mod token;

use token::{HEADER, Kind, MIC_HEADER, TokenFlags};

/// Checks one input: this side's flags, and a token.
pub fn run(data: &[u8]) {
    let Some((flags, bytes)) = data.split_first() else { return };
    let own = TokenFlags { by_acceptor: flags & 1 != 0, acceptor_subkey: flags & 2 != 0 };
    let peer = TokenFlags { by_acceptor: !own.by_acceptor, ..own };
    if let Some(parts) = own.parts(bytes) {
        let (header, body) = bytes.split_at(HEADER);
        assert!(parts.turned < body.len(), "the beginning lies in the body");
        assert_eq!(parts.body, body);
        let sequence = u64::from_be_bytes(header[8..].try_into().expect("eight bytes"));
        let mut expected = peer.header(Kind::Sealed, sequence);
        expected[4..6].copy_from_slice(&header[4..6]);
        assert_eq!(parts.header, expected, "but for the filler it is one of the other side's");
        assert_eq!(parts.filler, usize::from(u16::from_be_bytes([header[4], header[5]])));
    }
    if let Some(header) = bytes.first_chunk::<MIC_HEADER>() {
        let is_mic = own.are_of_peer(Kind::Mic, header);
        assert!(!(is_mic && own.are_of_peer(Kind::Sealed, header)), "of one kind");
        assert!(!(is_mic && peer.are_of_peer(Kind::Mic, header)), "of one side");
        let sequence = u64::from_be_bytes(header[8..].try_into().expect("eight bytes"));
        assert_eq!(is_mic, *header == peer.header(Kind::Mic, sequence));
    }
}
