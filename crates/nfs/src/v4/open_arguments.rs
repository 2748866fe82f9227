//! The attribute `open_arguments` (RFC 9754 §3): which arguments of OPEN this server knows.

use xdr::Writer;

/// `open_args_share_access4`: READ, WRITE, BOTH.
const SHARE_ACCESS: u32 = bits(&[1, 2, 3]);
/// `open_args_share_deny4`: NONE, READ, WRITE, BOTH.
const SHARE_DENY: u32 = bits(&[0, 1, 2, 3]);
/// `open_args_share_access_want4`: ANY_DELEG, NO_DELEG, CANCEL, OPEN_XOR_DELEGATION. DELEG_TIMESTAMPS is known and not named: Linux 7.2
/// would ask for it, and loses times that a program has set by utimensat(2) when it drops the file from its cache before it returns the
/// delegation.
const WANT: u32 = bits(&[3, 4, 5, 21]);
/// `open_args_open_claim4`: NULL, PREVIOUS, DELEGATE_CUR, FH, DELEG_CUR_FH.
const CLAIM: u32 = bits(&[0, 1, 2, 4, 5]);
/// `open_args_createmode4`: UNCHECKED4, GUARDED, EXCLUSIVE4, EXCLUSIVE4_1.
const CREATE_MODE: u32 = bits(&[0, 1, 2, 3]);

const fn bits(numbers: &[u32]) -> u32 {
    let (mut word, mut rest) = (0, numbers);
    while let [number, tail @ ..] = rest {
        word |= 1 << *number;
        rest = tail;
    }
    word
}

/// Appends `open_arguments4`: five bitmaps of a word each.
pub(super) fn put(w: &mut Writer) {
    for word in [SHARE_ACCESS, SHARE_DENY, WANT, CLAIM, CREATE_MODE] {
        w.words([1, word]);
    }
}
