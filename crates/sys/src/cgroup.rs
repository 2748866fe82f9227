//! What the control groups of this process let it have: a container's limit of memory. Version 2 of the
//! hierarchy and version 1, as cgroups(7) describes them; read on demand, whole, never written.

use std::fs;
use std::path::{Path, PathBuf};

/// Beyond this a limit is none: version 1 says so with the largest number of whole pages.
const UNLIMITED: u64 = 1 << 62;

/// The least of the limits of memory on this process, in bytes; `None` without one, or where it cannot be
/// seen: without `/proc`, or with the groups' file system not mounted.
pub fn memory_max() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    memory_groups(&groups, &mounts).iter().filter_map(MemoryGroup::lowest_limit).min()
}

/// A group of this process with its ancestors, as far as they can be seen.
#[derive(Debug, PartialEq, Eq)]
struct MemoryGroup {
    /// Where the hierarchy is mounted: nothing above it is looked at.
    top: PathBuf,
    /// The directory of the group.
    group: PathBuf,
    /// The files that hold a limit: a number of bytes, or the word `max`.
    files: &'static [&'static str],
}

impl MemoryGroup {
    fn lowest_limit(&self) -> Option<u64> {
        let up = self.group.ancestors().take_while(|dir| dir.starts_with(&self.top));
        let files = up.flat_map(|dir| self.files.iter().map(move |file| dir.join(file)));
        let limits = files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
        limits.filter(|limit| *limit < UNLIMITED).min()
    }
}

/// Where the limits are to be found, from what `/proc/self/cgroup` and `/proc/self/mountinfo` say.
fn memory_groups(groups: &str, mounts: &str) -> Vec<MemoryGroup> {
    mounts.lines().filter_map(|line| memory_group(groups, line)).collect()
}

fn memory_group(groups: &str, mount: &str) -> Option<MemoryGroup> {
    let (before, after) = mount.split_once(" - ")?;
    let mut kind = after.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1)?);
    let (files, wanted): (&[&str], _) = match kind {
        "cgroup2" => (&["memory.max", "memory.high"], ""),
        "cgroup" if options.split(',').any(|word| word == "memory") => {
            (&["memory.limit_in_bytes"], "memory")
        }
        _ => return None,
    };
    let path = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        controllers.split(',').any(|word| word == wanted).then(|| fields.next())?
    })?;
    let mut fields = before.split(' ').skip(3);
    let (root, top) = (fields.next()?, PathBuf::from(fields.next()?));
    // in a container the mount may begin at its own group, and the path be that of outside
    let below = Path::new(path).strip_prefix(root).unwrap_or_else(|_| Path::new(""));
    Some(MemoryGroup { group: top.join(below), top, files })
}

#[cfg(test)]
mod tests {
    use super::{MemoryGroup, memory_groups, memory_max};
    use std::fs;
    use std::path::Path;

    const V2: &str =
        "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids";

    fn groups(groups: &str, mounts: &str) -> Vec<String> {
        let found = memory_groups(groups, mounts);
        found.iter().map(|place| place.group.display().to_string()).collect()
    }

    #[test]
    fn a_group_is_found_below_its_mount() {
        let slice = "0::/system.slice/bowline.service\n";
        assert_eq!(groups(slice, V2), ["/sys/fs/cgroup/system.slice/bowline.service"]);
        let old = "4:memory:/docker/abc\n8:pids:/other\n0::/\n";
        assert_eq!(groups(old, V1), ["/sys/fs/cgroup/memory/docker/abc"]);
        // a container that has its own group mounted, and sees its path outside or none
        let own = V1.replace("0:32 /", "0:32 /docker/abc");
        for path in ["/docker/abc", "/", "/../.."] {
            assert_eq!(groups(&format!("4:memory:{path}"), &own), ["/sys/fs/cgroup/memory/"]);
        }
        for (nothing, mounts) in [("", V2), ("4:cpu:/a", V1), ("4:memory", V1), (slice, "x - y")] {
            assert!(memory_groups(nothing, mounts).is_empty());
        }
    }

    #[test]
    fn the_lowest_limit_of_a_cgroup_and_its_ancestors_applies() {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().join("top");
        let group = top.join("a/b");
        fs::create_dir_all(&group).unwrap();
        let write = |file: &str, text: &str| fs::write(top.join(file), text).unwrap();
        let place = MemoryGroup { top: top.clone(), group, files: &["memory.max", "memory.high"] };
        assert_eq!(place.lowest_limit(), None);
        write("a/b/memory.max", "max\n");
        write("a/b/memory.high", "9223372036854771712\n");
        // what is above the mount is none of the hierarchy's
        write("../memory.max", "1\n");
        assert_eq!(place.lowest_limit(), None);
        write("a/b/memory.max", "134217728\n");
        assert_eq!(place.lowest_limit(), Some(128 << 20));
        write("a/memory.high", "67108864\n");
        assert_eq!(place.lowest_limit(), Some(64 << 20));
        write("memory.max", "rubbish\n");
        assert_eq!(place.lowest_limit(), Some(64 << 20));
    }

    #[test]
    fn the_memory_limit_of_this_process_is_plausible() {
        assert!(memory_max().is_none_or(|bytes| bytes > 1 << 20));
        assert!(Path::new("/proc/self/cgroup").exists());
    }
}
