//! The file systems that are mounted below exports with `crossmnt`: each is served as an export of its own, inside of the
//! one that it is mounted in.
//!
//! They are found in the kernel's list of mounts, by their paths as the exports write them: an export whose path leads
//! through a symbolic link has none. What is mounted over is found by its path and is then not the mount point that it
//! must be, and is left out.

use export::{ExportSpec, Identity, Source};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most file systems that are crossed into, of all exports together.
pub const CROSSED_MAX: usize = 1024;
/// The kernel's list of mounts.
const MOUNTS: &str = "/proc/self/mountinfo";

/// File systems that hold no files of users: never crossed into.
const KERNEL_FILE_SYSTEMS: [&str; 23] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
    "zonefs",
];

/// Whether any of these exports crosses into what is mounted below it.
pub fn is_wanted(specs: &[ExportSpec]) -> bool {
    specs.iter().any(crosses)
}

fn crosses(spec: &ExportSpec) -> bool {
    spec.rules.iter().any(|rule| rule.options.crossmnt)
}

/// The kernel's list of mounts now; empty if it cannot be read.
pub fn read() -> Vec<u8> {
    std::fs::read(MOUNTS).unwrap_or_default()
}

/// A number by which a change of the list is seen.
pub fn hash_of(mounts: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    mounts.hash(&mut hasher);
    hasher.finish()
}

/// What is mounted below the exports that cross, as exports. The second: how many more there are than
/// [`CROSSED_MAX`], which are left out.
pub fn find(specs: &[ExportSpec], identity: &Identity, mounts: &[u8]) -> (Vec<ExportSpec>, usize) {
    let (mut found, mut left_out) = (BTreeMap::new(), 0_usize);
    for mounted in mounts.split(|byte| *byte == b'\n').filter_map(mount_point) {
        let Some((spec, below)) = innermost(specs, &mounted) else { continue };
        let Ok(uuid) = spec.uuid(identity) else { continue };
        let crossing = spec.crossing(&uuid, below, mounted.clone());
        if specs.iter().any(|other| other.path == crossing.path) {
            continue;
        }
        if found.len() < CROSSED_MAX {
            found.insert(crossing.path.clone(), crossing);
        } else if !found.contains_key(&crossing.path) {
            left_out = left_out.saturating_add(1);
        }
    }
    (found.into_values().collect(), left_out)
}

/// The export that a mount point is strictly below of, if it crosses, and the path between.
fn innermost<'s>(specs: &'s [ExportSpec], mounted: &'s Path) -> Option<(&'s ExportSpec, &'s Path)> {
    let inside = |spec: &'s ExportSpec| match &spec.source {
        Source::Directory(dir) => Some((spec, mounted.strip_prefix(dir).ok()?)),
        Source::Scheme { .. } => None,
    };
    let (spec, below) =
        specs.iter().filter_map(inside).min_by_key(|(_, below)| below.as_os_str().len())?;
    (crosses(spec) && !below.as_os_str().is_empty()).then_some((spec, below))
}

/// Where a line of the list says that a file system is mounted: its fifth field. The type is behind a lone dash.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = fields.nth(4)?;
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let is_of_kernel = KERNEL_FILE_SYSTEMS.iter().any(|name| name.as_bytes() == kind);
    (!is_of_kernel).then(|| PathBuf::from(OsStr::from_bytes(&unescaped(path))))
}

/// Spaces, tabs, newlines and backslashes are written as octal numbers.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let octal = tail.first_chunk::<3>().filter(|_| *first == b'\\');
        let code =
            octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(code) => {
                out.push(code);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{CROSSED_MAX, find};
    use export::{Client, ExportSpec, Identity, Options, Rule, Source};
    use std::path::PathBuf;

    fn spec(path: &str, crossmnt: bool) -> ExportSpec {
        let options = Options { crossmnt, ..Options::default() };
        ExportSpec {
            path: path.as_bytes().to_vec(),
            source: Source::Directory(PathBuf::from(path)),
            fsid: None,
            rules: vec![Rule::new(Client::Anyone, options)],
            mount_point: None,
            locations: None,
            crossed: false,
        }
    }

    fn paths(specs: &[ExportSpec], mounts: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::open(dir.path()).unwrap();
        let (found, _) = find(specs, &identity, mounts.as_bytes());
        assert!(found.iter().all(|found| found.crossed && found.mount_point.is_some()));
        found.iter().map(|found| String::from_utf8(found.path.clone()).unwrap()).collect()
    }

    #[test]
    fn mounts_below_an_export_that_crosses_are_found() {
        let mounts = "22 27 0:21 / /srv/proc rw - proc proc rw\n\
                      30 27 8:1 / /srv rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      31 30 8:2 / /srv/a\\040b rw,relatime shared:2 master:1 - ext4 /dev/sda2 rw\n\
                      32 30 0:50 / /srv/a\\040b/deep rw - tmpfs tmpfs rw\n\
                      33 30 0:51 / /srv/own/below rw - tmpfs tmpfs rw\n\
                      34 30 0:52 / /other rw - tmpfs tmpfs rw\n\
                      35 30 0:53 / /srvx rw - tmpfs tmpfs rw\nbroken line\n";
        let crossing = spec("/srv", true);
        assert_eq!(
            paths(std::slice::from_ref(&crossing), mounts),
            ["/srv/a b", "/srv/a b/deep", "/srv/own/below"]
        );
        // what is below another export is that export's
        let both = [crossing, spec("/srv/own", false)];
        assert_eq!(paths(&both, mounts), ["/srv/a b", "/srv/a b/deep"]);
        assert_eq!(paths(&[spec("/srv", false)], mounts), [""; 0]);
        // one with a line of its own is not crossed into a second time
        assert_eq!(
            paths(&[spec("/srv", true), spec("/srv/a b", false)], mounts),
            ["/srv/own/below"]
        );
    }

    #[test]
    fn the_identity_follows_from_the_export_and_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::open(dir.path()).unwrap();
        let mounts = b"1 1 8:2 / /srv/a rw - ext4 x rw\n2 1 8:3 / /srv/b rw - ext4 x rw\n";
        let uuids = || {
            let (found, _) = find(&[spec("/srv", true)], &identity, mounts);
            found.iter().map(|found| found.uuid(&identity).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(uuids(), uuids());
        assert_ne!(uuids()[0], uuids()[1]);
    }

    #[test]
    fn more_mounts_than_the_limit_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::open(dir.path()).unwrap();
        let line = |n| format!("1 1 8:2 / /srv/{n} rw - ext4 x rw\n");
        let mounts: String = (0..CROSSED_MAX + 3).map(line).collect();
        let (found, left_out) = find(&[spec("/srv", true)], &identity, mounts.as_bytes());
        assert_eq!((found.len(), left_out), (CROSSED_MAX, 3));
    }
}
