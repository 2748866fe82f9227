//! The file system in memory conforms to the trait.

use bowline_vfs_mem::{MemFs, MemOptions};
use vfs::conformance::{Capabilities, run};

#[test]
fn the_suite_passes() {
    let capabilities =
        Capabilities { acts_as_callers: true, device_nodes: true, own: (0, 0), attr_cache_ms: 0 };
    let checks = run(&|| Box::new(MemFs::new(MemOptions::default())), capabilities);
    assert!(checks.len() >= 50, "{} checks", checks.len());
}
