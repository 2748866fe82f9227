//! The seeds of the fuzz targets for this crate, replayed through the targets' own entries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "all of it is a test")]

// The entries call this crate by the name that all of Bowline calls it by.
extern crate bowline_proto as proto;

#[path = "../../../fuzz/entry/mount_args.rs"]
mod mount_args;
#[path = "../../../fuzz/entry/nfs2_args.rs"]
mod nfs2_args;
#[path = "../../../fuzz/entry/nfs3_args.rs"]
mod nfs3_args;
#[path = "../../../fuzz/entry/nfsacl_args.rs"]
mod nfsacl_args;
#[path = "../../../fuzz/entry/portmap_args.rs"]
mod portmap_args;
#[path = "../../../fuzz/entry/rquota_args.rs"]
mod rquota_args;

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
fn nfs3_args_seeds() {
    replay("nfs3_args", nfs3_args::run);
}

#[test]
fn nfs2_args_seeds() {
    replay("nfs2_args", nfs2_args::run);
}

#[test]
fn mount_args_seeds() {
    replay("mount_args", mount_args::run);
}

#[test]
fn portmap_args_seeds() {
    replay("portmap_args", portmap_args::run);
}

#[test]
fn nfsacl_args_seeds() {
    replay("nfsacl_args", nfsacl_args::run);
}

#[test]
fn rquota_args_seeds() {
    replay("rquota_args", rquota_args::run);
}
