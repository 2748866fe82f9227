//! The committed inputs of the fuzz targets, replayed through the targets' own entries.

#[path = "../../../../fuzz/entry/mod.rs"]
mod entry;

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
    assert!(seeds > 0, "no inputs for {target}");
}

macro_rules! replayed {
    ($($target:ident)*) => {
        const TARGETS: &[&str] = &[$(stringify!($target)),*];

        $(
            #[test]
            fn $target() {
                replay(stringify!($target), entry::$target::run);
            }
        )*
    };
}
entry::each_target!(replayed);

#[test]
fn every_corpus_directory_has_a_fuzz_target() {
    let folders = format!("{}/../../fuzz/corpus", env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in std::fs::read_dir(folders).unwrap() {
        found.push(folder.unwrap().file_name().into_string().unwrap());
    }
    // replayed by the crate tls
    found.retain(|target| target != "tls_stream");
    found.sort();
    assert_eq!(found, TARGETS);
}
