//! The exports file: whatever it holds, every remark points into it, and the limits hold.

use export::exports_file::{Diagnostic, ENTRIES_MAX, RULES_MAX, parse};

fn points_into(remark: &Diagnostic, source: &[u8]) {
    let lines = source.split(|byte| *byte == b'\n').count();
    assert!((1..=lines).contains(&remark.line), "{remark}");
    assert!(remark.column >= 1, "{remark}");
    assert!(!remark.shown("exports", source).is_empty());
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let parsed = parse(data);
    assert!(parsed.entries.len() <= ENTRIES_MAX);
    for (n, entry) in parsed.entries.iter().enumerate() {
        assert_eq!(entry.path.first(), Some(&b'/'));
        assert!(entry.path == b"/" || entry.path.last() != Some(&b'/'));
        assert!(!entry.path.windows(2).any(|pair| pair == b"//"));
        assert!(parsed.entries.iter().skip(n + 1).all(|other| other.path != entry.path));
        assert!(entry.rules.len() <= RULES_MAX);
    }
    parsed.errors.iter().chain(&parsed.notes).for_each(|remark| points_into(remark, data));
}
