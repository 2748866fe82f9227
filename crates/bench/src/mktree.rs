//! The tree of the recorded experiment: 10,841 directories and 161,480 files at scale 1.
//!
//! The plan is computed from the numbers alone, so the same scale gives the same tree on every
//! machine. Directory `i` is in directory `i·u²`, where `u` is the random number (0 to 1) of `i`: early ones
//! have many, most have few or none, depth is 4 to 5 on average and 14 at most, as in home
//! directories and source trees. Files are dealt out by weight: some directories have none, most a dozen, a tenth
//! of them a hundred. Files have sizes but no data (holes), so the tree costs inodes and no blocks.
//!
//! Running it again adds what is missing, so a run that was stopped can be continued.

use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Directories at scale 1, the top included.
pub const DIRECTORIES: u64 = 10_841;
/// Files at scale 1.
pub const FILES: u64 = 161_480;
/// The largest tree: 1.1 million directories, 16 million files.
pub const SCALE_MAX: f64 = 100.0;
/// Threads that create files; more do not help on one file system.
const THREADS_MAX: usize = 4;
/// Directories that a thread takes at once.
const SHARE: usize = 64;

const SYLLABLES: [&str; 16] = [
    "ba", "con", "dir", "el", "fo", "gra", "in", "ker", "lo", "mod", "net", "or", "pro", "sys",
    "tan", "ver",
];
const ENDINGS: [&str; 12] =
    ["c", "h", "o", "txt", "html", "jpg", "tex", "log", "py", "conf", "xml", "gz"];

/// The result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Made {
    /// Directories of the tree, its top included.
    pub directories: u64,
    /// Files of the tree.
    pub files: u64,
    /// Directories and files that existed already.
    pub present: u64,
    /// Levels below the top.
    pub depth: u64,
    /// Sum of the files' sizes.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Why the tree was not created.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// An invalid scale.
    #[error("a scale of {0}: more than 0, at most {SCALE_MAX}")]
    Scale(f64),
    /// The directory has other files.
    #[error("{} is not empty and not such a tree: name an empty or a new directory", .0.display())]
    NotEmpty(PathBuf),
    /// The user stopped it.
    #[error(
        "stopped after {made} of {total} directories and files; the same command goes on from there"
    )]
    Stopped {
        /// Directories and files that exist now.
        made: u64,
        /// How many there should be.
        total: u64,
    },
    /// An error of the file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path that could not be created.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// A directory of the plan.
#[derive(Debug, Clone)]
struct Dir {
    path: PathBuf,
    depth: u64,
    files: u64,
}

/// Creates the tree in `dir`, or its missing parts. `progress` is called periodically with the
/// number of directories and files that are done and their total; `stop` ends it early.
///
/// # Errors
/// [`TreeError`].
pub fn make(
    dir: &Path,
    scale: f64,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Made, TreeError> {
    let begun = Instant::now();
    let (directories, files) = numbers(scale)?;
    let plan = plan(dir, directories, files);
    check(dir, &plan)?;
    let work = Work {
        plan: &plan,
        total: directories + files,
        done: AtomicU64::new(0),
        present: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        next: AtomicUsize::new(0),
        stop,
        progress,
    };
    work.directories()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let ends: Vec<Result<(), TreeError>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| work.files())).collect();
        let ends = running.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    ends.into_iter().collect::<Result<(), _>>()?;
    Ok(Made {
        directories,
        files,
        present: work.present.into_inner(),
        depth: plan.iter().map(|planned| planned.depth).max().unwrap_or(0),
        bytes: work.bytes.into_inner(),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Shared state of the threads.
struct Work<'a> {
    plan: &'a [Dir],
    total: u64,
    /// Directories and files that exist now.
    done: AtomicU64,
    /// Those of them that were there before.
    present: AtomicU64,
    bytes: AtomicU64,
    /// The next unassigned share.
    next: AtomicUsize,
    stop: &'a AtomicBool,
    progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl Work<'_> {
    fn go_on(&self) -> Result<(), TreeError> {
        if self.stop.load(Relaxed) {
            return Err(TreeError::Stopped { made: self.done.load(Relaxed), total: self.total });
        }
        Ok(())
    }

    /// All directories in sequence: each needs its parent.
    fn directories(&self) -> Result<(), TreeError> {
        for planned in self.plan {
            self.go_on()?;
            let made = match std::fs::create_dir(&planned.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && planned.depth == 0 => {
                    std::fs::create_dir_all(&planned.path)
                }
                made => made,
            };
            self.count(made, &planned.path)?;
            self.done.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Files of one share of directories after the other, until none is left.
    fn files(&self) -> Result<(), TreeError> {
        loop {
            let first = self.next.fetch_add(SHARE, Relaxed);
            let last = self.plan.len().min(first.saturating_add(SHARE));
            let Some(dirs) = self.plan.get(first..last).filter(|dirs| !dirs.is_empty()) else {
                return Ok(());
            };
            for (index, planned) in (first..).zip(dirs) {
                self.go_on()?;
                self.fill(planned, index)?;
                self.done.fetch_add(planned.files, Relaxed);
            }
            (self.progress)(self.done.load(Relaxed), self.total);
        }
    }

    /// The files of one directory.
    fn fill(&self, planned: &Dir, index: usize) -> Result<(), TreeError> {
        let mut path = planned.path.clone();
        for number in 0..planned.files {
            let seed = random(index as u64, number + 1);
            let size = file_size(seed);
            self.bytes.fetch_add(size, Relaxed);
            path.push(file_name(seed, number));
            let made = OpenOptions::new().write(true).create_new(true).open(&path);
            self.count(made.and_then(|file: File| file.set_len(size)), &path)?;
            path.pop();
        }
        Ok(())
    }

    /// An existing object is counted and not an error.
    fn count(&self, made: io::Result<()>, path: &Path) -> Result<(), TreeError> {
        match made {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.present.fetch_add(1, Relaxed);
                Ok(())
            }
            Err(source) => Err(TreeError::Io { path: path.to_path_buf(), source }),
        }
    }
}

/// Directories and files at a scale; one directory and one file at least.
fn numbers(scale: f64) -> Result<(u64, u64), TreeError> {
    if !(scale > 0.0 && scale <= SCALE_MAX) {
        return Err(TreeError::Scale(scale));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    // positive and at most 1.6e7
    let scaled = |number: u64| ((number as f64 * scale).round() as u64).max(1);
    Ok((scaled(DIRECTORIES), scaled(FILES)))
}

/// A directory that is not empty must contain parts of the tree.
fn check(dir: &Path, plan: &[Dir]) -> Result<(), TreeError> {
    let Ok(mut entries) = std::fs::read_dir(dir) else { return Ok(()) };
    let ours = || plan.iter().skip(1).take(SHARE).any(|planned| planned.path.is_dir());
    let top_file = || {
        let files = plan.first().map_or(0, |top| top.files);
        (0..files).any(|number| dir.join(file_name(random(0, number + 1), number)).exists())
    };
    if entries.next().is_none() || ours() || top_file() {
        return Ok(());
    }
    Err(TreeError::NotEmpty(dir.to_path_buf()))
}

fn plan(top: &Path, directories: u64, files: u64) -> Vec<Dir> {
    let mut plan: Vec<Dir> = vec![Dir { path: top.to_path_buf(), depth: 0, files: 0 }];
    for index in 1..directories {
        let parent = usize::try_from(parent(index)).unwrap_or(0);
        let Some(above) = plan.get(parent) else { continue };
        let path = above.path.join(dir_name(index));
        let depth = above.depth + 1;
        plan.push(Dir { path, depth, files: 0 });
    }
    // Each gets the difference of two rounded sums, so that the sum of all is exact.
    let weights = (0..directories).map(weight);
    let all: u64 = weights.clone().sum::<u64>().max(1);
    let mut sum = 0_u64;
    for (planned, weight) in plan.iter_mut().zip(weights) {
        let upto = |sum: u64| u128::from(files) * u128::from(sum) / u128::from(all);
        planned.files = u64::try_from(upto(sum + weight) - upto(sum)).unwrap_or(0);
        sum += weight;
    }
    plan
}

/// A random number that depends on two numbers alone (splitmix64).
fn random(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xd1b5_4a32_d192_ed03);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `index·u²`, always less than `index`.
fn parent(index: u64) -> u64 {
    let u = u128::from(random(index, 0) >> 32);
    u64::try_from((u128::from(index) * u * u) >> 64).unwrap_or(0)
}

/// Relative number of files of a directory: none in one of seven, a hundred in one of ten.
fn weight(index: u64) -> u64 {
    let throw = random(index, u64::MAX);
    match throw % 100 {
        0..14 => 0,
        14..90 => 1 + (throw >> 32) % 14,
        _ => 40 + (throw >> 32) % 120,
    }
}

/// From 100 bytes to 64 KiB, small ones more often.
fn file_size(seed: u64) -> u64 {
    let top = 128 << ((seed >> 8) % 10);
    100 + (seed >> 20) % top
}

fn syllables(seed: u64) -> String {
    let count = 2 + (seed >> 60) % 3;
    let pick = |at: u64| usize::try_from((seed >> (at * 4)) % 16).unwrap_or(0);
    (0..count).filter_map(|at| SYLLABLES.get(pick(at))).copied().collect()
}

/// Unique in the tree by its number.
fn dir_name(index: u64) -> String {
    format!("{}-{index}", syllables(random(index, 1 << 40)))
}

/// Unique in its directory by its number.
fn file_name(seed: u64, number: u64) -> String {
    let ending = usize::try_from((seed >> 40) % 12).ok().and_then(|at| ENDINGS.get(at));
    format!("{}{number}.{}", syllables(seed), ending.unwrap_or(&"dat"))
}

#[cfg(test)]
mod tests {
    use super::{DIRECTORIES, FILES, TreeError, make, numbers, plan};
    use crate::servers::ScratchDir;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    static GO: AtomicBool = AtomicBool::new(false);

    fn found(dir: &Path) -> (u64, u64, u64) {
        let mut sum = (1, 0, 0);
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                let below = found(&entry.path());
                sum = (sum.0 + below.0, sum.1 + below.1, sum.2 + below.2);
            } else {
                sum = (sum.0, sum.1 + 1, sum.2 + meta.len());
            }
        }
        sum
    }

    #[test]
    fn the_plan_matches_the_recorded_experiment() {
        let plan = plan(Path::new("/t"), DIRECTORIES, FILES);
        assert_eq!(plan.len() as u64, 10_841);
        assert_eq!(plan.iter().map(|dir| dir.files).sum::<u64>(), 161_480);
        let depth = plan.iter().map(|dir| dir.depth).sum::<u64>() as f64 / plan.len() as f64;
        let deepest = plan.iter().map(|dir| dir.depth).max().unwrap();
        assert!((3.5..6.0).contains(&depth) && (8..16).contains(&deepest), "{depth} {deepest}");
        let empty = plan.iter().filter(|dir| dir.files == 0).count();
        let many = plan.iter().filter(|dir| dir.files > 40).count();
        assert!(empty > 1000 && many > 800, "{empty} {many}");
        let mut paths: Vec<_> = plan.iter().map(|dir| &dir.path).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), plan.len());
    }

    #[test]
    fn a_tree_is_complete_and_existing_files_are_kept() {
        let scratch = ScratchDir::in_memory().unwrap();
        let top = scratch.path().join("new/tree");
        let made = make(&top, 0.01, &GO, &|_, _| ()).unwrap();
        assert_eq!((made.directories, made.files, made.present), (108, 1615, 0));
        assert_eq!(found(&top), (108, 1615, made.bytes));
        // continues after a partial loss
        let lost = std::fs::read_dir(&top).unwrap().map(|e| e.unwrap().path());
        let lost = lost.filter(|path| path.is_dir()).max_by_key(|path| found(path)).unwrap();
        let (dirs, files, _) = found(&lost);
        std::fs::remove_dir_all(&lost).unwrap();
        let again = make(&top, 0.01, &GO, &|_, _| ()).unwrap();
        assert_eq!(again.present, 108 + 1615 - dirs - files);
        assert_eq!(found(&top), (108, 1615, made.bytes));
    }

    #[test]
    fn a_stop_an_invalid_scale_and_a_full_directory_are_errors() {
        let scratch = ScratchDir::in_memory().unwrap();
        let stop = AtomicBool::new(true);
        let error = make(&scratch.path().join("t"), 0.001, &stop, &|_, _| ()).unwrap_err();
        assert!(matches!(error, TreeError::Stopped { made: 0, .. }), "{error}");
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 101.0] {
            assert!(matches!(numbers(scale), Err(TreeError::Scale(_))));
        }
        scratch.file("mine", "precious").unwrap();
        let error = make(scratch.path(), 0.001, &GO, &|_, _| ()).unwrap_err();
        assert!(matches!(error, TreeError::NotEmpty(_)), "{error}");
        let below_a_file = scratch.path().join("mine/t");
        assert!(matches!(make(&below_a_file, 0.001, &GO, &|_, _| ()), Err(TreeError::Io { .. })));
    }
}
