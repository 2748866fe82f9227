//! Recognises a configuration of NFS-Ganesha used as an exports file.

/// The position (line, column; from 1) of a block (`EXPORT {`), if that is the first thing in a
/// file. A line of exports(5) begins with a path.
pub(super) fn first_block(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut rest = bytes;
    loop {
        rest = rest.trim_ascii_start();
        if !matches!(rest.first()?, b'#' | b'%') {
            break;
        }
        let end = rest.iter().position(|b| *b == b'\n')?;
        rest = rest.get(end..)?;
    }
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let word_len = rest.iter().take_while(|b| is_word(b)).count();
    let (word, behind) = rest.split_at_checked(word_len)?;
    if word.is_empty() || behind.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let before = bytes.get(..bytes.len().saturating_sub(rest.len()))?;
    let line = before.iter().filter(|b| **b == b'\n').count();
    let column = before.iter().rev().take_while(|b| **b != b'\n').count();
    Some((line.saturating_add(1), column.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::first_block;

    #[test]
    fn ganesha_blocks_are_found_after_comments_and_includes() {
        assert_eq!(first_block(b"EXPORT {\n"), Some((1, 1)));
        assert_eq!(first_block(b"# a\n%include x\n\n  NFS_CORE_PARAM\n{"), Some((4, 3)));
        for other in ["", "# a", "/srv *(rw)", "srv {", "EXPORT", "EXPORT x", "{"] {
            let found = first_block(other.as_bytes());
            assert_eq!(found.is_some(), other == "srv {", "{other}");
        }
    }
}
