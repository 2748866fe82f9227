//! Normal form of the paths of MNT. The server follows no symbolic link, so that `..` can be resolved
//! without the file system.

/// The path in its one normal form: one slash between components, none at the end, no `.` and no
/// `..` (that of the root is the root). `None` for a path that is not absolute, or holds a NUL.
pub fn normalise(path: &[u8]) -> Option<Vec<u8>> {
    if path.first() != Some(&b'/') || path.contains(&0) {
        return None;
    }
    let mut normal: Vec<u8> = Vec::with_capacity(path.len());
    for component in path.split(|b| *b == b'/') {
        match component {
            b"" | b"." => {}
            b".." => {
                let parent = normal.iter().rposition(|b| *b == b'/').unwrap_or(0);
                normal.truncate(parent);
            }
            name => {
                normal.push(b'/');
                normal.extend_from_slice(name);
            }
        }
    }
    if normal.is_empty() {
        normal.push(b'/');
    }
    Some(normal)
}

/// The components of a normal path or of the rest of one.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|b| *b == b'/').filter(|component| !component.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{components, normalise};

    #[test]
    fn equivalent_paths_have_one_normal_form() {
        for (path, normal) in [
            ("/", "/"),
            ("//", "/"),
            ("/a", "/a"),
            ("/a/", "/a"),
            ("//a///b//", "/a/b"),
            ("/a/./b/.", "/a/b"),
            ("/a/../b", "/b"),
            ("/../../a", "/a"),
            ("/a/..", "/"),
            ("/a/b/../../c/d", "/c/d"),
            ("/...", "/..."),
        ] {
            assert_eq!(normalise(path.as_bytes()).as_deref(), Some(normal.as_bytes()), "{path}");
        }
    }

    #[test]
    fn invalid_paths_are_refused() {
        for path in ["", "a", "a/b", "./a", "/a\0b"] {
            assert_eq!(normalise(path.as_bytes()), None, "{path:?}");
        }
    }

    #[test]
    fn components_skip_slashes() {
        let parts: Vec<_> = components(b"/a//b/").collect();
        assert_eq!(parts, [b"a", b"b"]);
        assert_eq!(components(b"").count(), 0);
    }
}
