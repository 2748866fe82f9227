//! The file system in memory keeps the trait's promises.

use bowline_vfs_mem::{Mem, MemOptions};
use vfs::conformance::{Traits, run};

#[test]
fn the_suite_passes() {
    let traits = Traits { acts_as_callers: true, device_nodes: true, own: (0, 0) };
    let checks = run(&|| Box::new(Mem::new(MemOptions::default())), traits);
    assert!(checks.len() >= 50, "{} checks", checks.len());
}
