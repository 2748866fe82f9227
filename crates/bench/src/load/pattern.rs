//! The content of files that the load creates, so that data read back can be verified.
//!
//! Each 8-byte word of a file identifies its file and its offset: a word from elsewhere, or one that
//! was never written, does not match. Words are multiplied by an odd constant (2^64 divided by the
//! golden ratio), which is one to one, so that no two offsets of one file have the same word.

/// 2^64 / φ, made odd.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes of a word.
const WORD: u64 = 8;

const fn word(file: u32, index: u64) -> [u8; 8] {
    ((file as u64) << 44 ^ index.wrapping_add(1)).wrapping_mul(SPREAD).to_le_bytes()
}

/// Fills `bytes` with the content of `file` from `offset`, which is a multiple of 8.
pub(crate) fn fill(file: u32, offset: u64, bytes: &mut [u8]) {
    let mut index = offset / WORD;
    for chunk in bytes.chunks_mut(8) {
        for (to, from) in chunk.iter_mut().zip(word(file, index)) {
            *to = from;
        }
        index = index.wrapping_add(1);
    }
}

/// Whether `bytes` are the content of `file` from `offset`, which is a multiple of 8.
pub(crate) fn matches(file: u32, offset: u64, bytes: &[u8]) -> bool {
    let first = offset / WORD;
    (first..).zip(bytes.chunks(8)).all(|(index, chunk)| {
        word(file, index).get(..chunk.len()).is_some_and(|right| right == chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::{fill, matches};

    #[test]
    fn the_pattern_depends_on_file_and_offset() {
        let mut bytes = vec![0; 4099];
        fill(3, 8192, &mut bytes);
        assert!(matches(3, 8192, &bytes));
        assert!(!matches(3, 8200, &bytes));
        assert!(!matches(4, 8192, &bytes));
        assert!(!matches(3, 8192, &[0; 8]));
        bytes[4098] ^= 1;
        assert!(!matches(3, 8192, &bytes));
    }
}
