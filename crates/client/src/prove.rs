//! The proof that a server works: mounts over the wire, lists, reads a whole file, and compares it
//! with the same file on disk. The same for each version, whose calls are in a file of their own.
//!
//! Bounded in entries, bytes and time, so that it can run at every start.

mod version3;
mod version4;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::message::Identity;
use proto::nfs3::Nfsstat3;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout of connecting and of each call of the proof.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest file that is read.
pub const FILE_MAX: u64 = 64 << 20;
/// The most entries that are listed; a larger directory is listed in part.
pub const ENTRIES_MAX: usize = 10_000;
/// The most files that are tried if the first ones cannot be read.
const CANDIDATES_MAX: usize = 16;
/// Bytes of a READDIR reply.
const LIST_BYTES: u32 = 32 << 10;
/// The largest READ of the proof; smaller if the server's limit is.
const READ_MAX: u32 = 256 << 10;

/// An entry of the root; `.` and `..` are none.
struct Listed {
    name: Vec<u8>,
    /// The size of a regular file.
    file_bytes: Option<u64>,
}

/// An export that is mounted.
trait Mounted {
    /// The entries of its root, to the end or to [`ENTRIES_MAX`].
    fn list(&mut self) -> Result<Vec<Listed>>;
    /// A file of its root from start to end; no more than [`FILE_MAX`].
    fn read(&mut self, name: &[u8]) -> Result<Vec<u8>>;
}

/// The result of the proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Entries of the root that were listed, `.` and `..` not counted.
    pub entries: usize,
    /// The file that was read, if any.
    pub file: Option<String>,
    /// Bytes read of it.
    pub bytes: u64,
    /// Whether they were compared with the file on disk.
    pub compared: bool,
    /// From connecting to the last comparison, in microseconds.
    pub elapsed_us: u64,
}

/// Why the proof failed.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// A call failed.
    #[error("{step}: {source}")]
    Call {
        /// The step.
        step: &'static str,
        /// The error.
        source: Error,
    },
    /// The file on disk cannot be read.
    #[error("cannot read {path} to compare: {source}")]
    Local {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The served bytes differ from those on disk.
    #[error(
        "{file} as served differs from the file on disk from byte {offset} on (unless somebody changed it just now)"
    )]
    Differs {
        /// The file.
        file: String,
        /// The first byte that differs.
        offset: u64,
    },
}

fn at(step: &'static str) -> impl FnOnce(Error) -> ProveError {
    move |source| ProveError::Call { step, source }
}

/// Proves that the server of a connection serves `export_path` with version 3 (NFS and MOUNT on the same port), and,
/// with `local_dir`, that it serves that directory's data.
///
/// # Errors
/// [`ProveError`]: the step that failed and why.
pub fn prove(
    mut client: Client,
    export_path: &[u8],
    local_dir: Option<&Path>,
) -> std::result::Result<Proof, ProveError> {
    let start = Instant::now();
    client.set_identity(Some(Identity::root()));
    let root = client.mount(export_path).map_err(at("mounting"))?;
    let mut mounted =
        version3::Tree::new(&mut client, root).map_err(at("asking what the server can do"))?;
    let proof = prove_mounted(&mut mounted, local_dir, start)?;
    // The proof has succeeded; an entry left in the server's list of mounts does no harm.
    let _ = client.unmount(export_path);
    Ok(proof)
}

/// The same with version 4.1 or 4.2, by a path from the root of version 4. What the server knows of the client ends with
/// the proof.
///
/// # Errors
/// [`ProveError`].
pub fn prove_version_4(
    mut client: Client,
    minor: u32,
    path: &[u8],
    local_dir: Option<&Path>,
) -> std::result::Result<Proof, ProveError> {
    let start = Instant::now();
    client.set_identity(Some(Identity::root()));
    let mut mounted = version4::Tree::mount(&mut client, minor, path).map_err(at("mounting"))?;
    let proof = prove_mounted(&mut mounted, local_dir, start);
    // without this the server forgets the client when its lease is over
    let _ = mounted.unmount();
    proof
}

/// Lists, reads and compares; `start` is the start of the measured time.
fn prove_mounted(
    mounted: &mut dyn Mounted,
    local_dir: Option<&Path>,
    start: Instant,
) -> std::result::Result<Proof, ProveError> {
    let entries = mounted.list().map_err(at("listing the root"))?;
    let mut proof =
        Proof { entries: entries.len(), file: None, bytes: 0, compared: false, elapsed_us: 0 };
    if let Some((name, data)) = read_first_file(mounted, &entries)? {
        let file = String::from_utf8_lossy(name).into_owned();
        proof.bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        if let Some(dir) = local_dir {
            compare(&dir.join(OsStr::from_bytes(name)), &file, &data)?;
            proof.compared = true;
        }
        proof.file = Some(file);
    }
    proof.elapsed_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(proof)
}

/// A file's name and its data from the server.
type Served<'e> = (&'e [u8], Vec<u8>);

/// Reads the first readable file; `None` if there is none.
fn read_first_file<'e>(
    mounted: &mut dyn Mounted,
    entries: &'e [Listed],
) -> std::result::Result<Option<Served<'e>>, ProveError> {
    let fits = |e: &&Listed| e.file_bytes.is_some_and(|size| size > 0 && size <= FILE_MAX);
    for entry in entries.iter().filter(fits).take(CANDIDATES_MAX) {
        match mounted.read(&entry.name) {
            Ok(data) => return Ok(Some((&entry.name, data))),
            Err(error) if is_private(&error) => {}
            Err(source) => return Err(at("reading a file")(source)),
        }
    }
    Ok(None)
}

/// Whether a file is only not readable for us, or was removed since it was listed: the same numbers in version 4.
fn is_private(error: &Error) -> bool {
    let statuses = [Nfsstat3::Acces, Nfsstat3::Perm, Nfsstat3::NoEnt, Nfsstat3::Stale];
    error.status().is_some_and(|number| statuses.iter().any(|s| s.number() == number))
}

fn compare(path: &Path, file: &str, served: &[u8]) -> std::result::Result<(), ProveError> {
    let local_error = |source| ProveError::Local { path: path.display().to_string(), source };
    let mut local = Vec::with_capacity(served.len());
    let opened = File::open(path).map_err(local_error)?;
    opened.take(FILE_MAX).read_to_end(&mut local).map_err(local_error)?;
    if local == served {
        return Ok(());
    }
    let same = local.iter().zip(served).take_while(|(a, b)| a == b).count();
    let offset = u64::try_from(same).unwrap_or(u64::MAX);
    Err(ProveError::Differs { file: file.to_owned(), offset })
}
