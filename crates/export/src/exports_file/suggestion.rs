//! Suggests an existing name for a misspelled one.

/// Longer names are not compared: the time of the comparison is the product of both lengths.
const NAME_MAX: usize = 40;

/// The nearest of some names, if it differs in no more than a third of its letters, ignoring case.
pub fn nearest_name<'n>(written: &[u8], names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if written.len() > NAME_MAX {
        return None;
    }
    let distance = |name: &'n str| (edit_distance(written, name.as_bytes()), name);
    let (distance, name) = names.map(distance).min_by_key(|(distance, _)| *distance)?;
    (distance <= name.len() / 3).then_some(name)
}

/// The number of letters to be inserted, removed, replaced or swapped with their neighbour to change one
/// into the other (Damerau-Levenshtein distance, each letter used once), by rows of the table of all
/// prefixes.
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let same = |x: &u8, y: &u8| x.eq_ignore_ascii_case(y);
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
            let replaced = at(&row, j) + usize::from(!same(x, y));
            left = replaced.min(left + 1).min(at(&row, j + 1) + 1);
            if let (Some(k), Some(h)) = (i.checked_sub(1), j.checked_sub(1)) {
                let swapped = a.get(k).zip(b.get(h)).is_some_and(|(p, q)| same(p, y) && same(x, q));
                if swapped {
                    left = left.min(at(&before, h) + 1);
                }
            }
            next.push(left);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, nearest_name};

    #[test]
    fn edit_distances() {
        for (a, b, distance) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("RW", "rw", 0),
            ("prot", "port", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!(edit_distance(a.as_bytes(), b.as_bytes()), distance, "{a} {b}");
            assert_eq!(edit_distance(b.as_bytes(), a.as_bytes()), distance, "{b} {a}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["rw", "no_root_squash", "anonuid"];
        let meant = |written: &str| nearest_name(written.as_bytes(), names.into_iter());
        assert_eq!(meant("no_rootsquash"), Some("no_root_squash"));
        assert_eq!(meant("anon_uid"), Some("anonuid"));
        assert_eq!(meant("RW"), Some("rw"));
        assert_eq!(meant("annouid"), Some("anonuid"));
        assert_eq!(meant("xy"), None);
        assert_eq!(meant(&"x".repeat(10_000)), None);
    }
}
