//! The seeds of the fuzz targets for this crate, replayed through the targets' own entries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "all of it is a test")]

// The entries call this crate by the name that all of Bowline calls it by.
extern crate bowline_export as export;

#[path = "../../../fuzz/entry/exports_file.rs"]
mod exports_file;
#[path = "../../../fuzz/entry/handle_open.rs"]
mod handle_open;

/// Runs every committed input of a target, and every cut of it.
fn replay(target: &str, run: fn(&[u8])) {
    let dir = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut seeds = 0;
    for file in std::fs::read_dir(dir).unwrap() {
        let seed = std::fs::read(file.unwrap().path()).unwrap();
        for len in 0..=seed.len() {
            run(&seed[..len]);
        }
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds for {target}");
}

#[test]
fn handle_open_seeds() {
    replay("handle_open", handle_open::run);
}

#[test]
fn exports_file_seeds() {
    replay("exports_file", exports_file::run);
}
