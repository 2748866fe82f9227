//! The name that was probably meant by one that does not exist.

/// Longer names are not compared: the distance takes time by the product of both lengths.
const NAME_MAX: usize = 40;

/// The nearest of some names, if it differs by no more than a third of its letters; case does not
/// count.
pub(super) fn nearest<'n>(written: &[u8], names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if written.len() > NAME_MAX {
        return None;
    }
    let distance = |name: &'n str| (edit_distance(written, name.as_bytes()), name);
    let (distance, name) = names.map(distance).min_by_key(|(distance, _)| *distance)?;
    (distance <= name.len() / 3).then_some(name)
}

/// How many letters have to be inserted, removed or replaced to make one of the other
/// (Levenshtein), by rows of the table of all prefixes.
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, above) in b.iter().zip(row.iter().skip(1)) {
            let replaced = diagonal + usize::from(!x.eq_ignore_ascii_case(y));
            left = replaced.min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, nearest};

    #[test]
    fn edit_distances() {
        for (a, b, distance) in
            [("", "", 0), ("a", "", 1), ("", "abc", 3), ("kitten", "sitting", 3), ("RW", "rw", 0)]
        {
            assert_eq!(edit_distance(a.as_bytes(), b.as_bytes()), distance, "{a} {b}");
            assert_eq!(edit_distance(b.as_bytes(), a.as_bytes()), distance, "{b} {a}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["rw", "no_root_squash", "anonuid"];
        let meant = |written: &str| nearest(written.as_bytes(), names.into_iter());
        assert_eq!(meant("no_rootsquash"), Some("no_root_squash"));
        assert_eq!(meant("anon_uid"), Some("anonuid"));
        assert_eq!(meant("RW"), Some("rw"));
        assert_eq!(meant("xy"), None);
        assert_eq!(meant(&"x".repeat(10_000)), None);
    }
}
