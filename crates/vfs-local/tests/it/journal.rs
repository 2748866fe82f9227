//! ext4 without a journal is detected, and no other file system is taken for it.

use crate::support::{Mounted, Stage, has_root};
use bowline_vfs_local::lacks_journal;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use testing::{Missing, skip};

fn lacks(dir: &Path) -> bool {
    lacks_journal(File::open(dir).unwrap().as_fd())
}

#[test]
fn ext4_without_a_journal_is_detected() {
    if !has_root() {
        return;
    }
    crate::support::each(|stage: &Stage| {
        for (features, without) in [("^has_journal", true), ("has_journal", false)] {
            // one each: the end of the mount before may still write to its own
            let image = stage.tree.with_extension(if without { "plain" } else { "journaled" });
            File::create(&image).unwrap().set_len(16 << 20).unwrap();
            let made =
                Command::new("mkfs.ext4").args(["-q", "-F", "-O", features]).arg(&image).status();
            if !made.is_ok_and(|status| status.success()) {
                return skip(Missing::Program, "mkfs.ext4");
            }
            let Some(_mounted) = Mounted::image(&image, &stage.tree) else {
                return skip(Missing::LoopDevices, "to mount an image");
            };
            assert_eq!(lacks(&stage.tree), without, "{features}");
        }
        let _mounted = Mounted::tmpfs(&stage.tree, "size=64k");
        assert!(!lacks(&stage.tree));
        assert!(!lacks("/proc".as_ref()));
    });
}
