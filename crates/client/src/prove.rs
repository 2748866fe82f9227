//! The proof that a server works: mounts over the wire, lists, reads a whole file, and compares it
//! with the same file on disk.
//!
//! Bounded in entries, bytes and time, so that it can run at every start.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::handle::Fh;
use crate::message::Identity;
use crate::nfs3::Entry;
use proto::nfs3::{FileType3, Nfsstat3};
use std::collections::VecDeque;
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
/// READs in flight.
const WINDOW: usize = 4;
/// The largest READ of the proof; smaller if the server's limit is.
const READ_MAX: u32 = 256 << 10;

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

/// Proves that the server of a connection serves `export_path` (NFS and MOUNT on the same port), and,
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
    prove_below(&mut client, &root, local_dir, start).inspect(|_| {
        // The proof has succeeded; an entry left in the server's list of mounts does no harm.
        let _ = client.unmount(export_path);
    })
}

/// As [`prove`], with a client that has mounted `root`; `start` is the start of the measured time.
///
/// # Errors
/// [`ProveError`].
pub fn prove_below(
    client: &mut Client,
    root: &Fh,
    local_dir: Option<&Path>,
    start: Instant,
) -> std::result::Result<Proof, ProveError> {
    let info = client.fsinfo(root).map_err(at("asking what the server can do"))?;
    let entries = list(client, root).map_err(at("listing the root"))?;
    let read_size = info.rtpref.min(info.rtmax).clamp(512, READ_MAX);
    let mut proof = Proof {
        entries: entries.iter().filter(|e| e.name != b"." && e.name != b"..").count(),
        file: None,
        bytes: 0,
        compared: false,
        elapsed_us: 0,
    };
    if let Some((name, data)) = read_first_file(client, root, &entries, read_size)? {
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

/// The entries of a directory, to its end or to [`ENTRIES_MAX`].
fn list(client: &mut Client, dir: &Fh) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut cookie, mut verf) = (0, [0; 8]);
    loop {
        let piece = client.readdirplus(dir, cookie, verf, LIST_BYTES)?;
        let last = piece.entries.last().map(|entry| entry.cookie);
        entries.extend(piece.entries);
        match last {
            Some(last) if !piece.eof && entries.len() < ENTRIES_MAX => cookie = last,
            Some(_) | None => return Ok(entries),
        }
        verf = piece.verf;
    }
}

/// A file's name and its attributes from the server.
type Served<'e> = (&'e [u8], Vec<u8>);

/// Reads the first readable file; `None` if there is none.
fn read_first_file<'e>(
    client: &mut Client,
    root: &Fh,
    entries: &'e [Entry],
    read_size: u32,
) -> std::result::Result<Option<Served<'e>>, ProveError> {
    let fits = |e: &&Entry| {
        e.attr.is_some_and(|a| a.ftype == FileType3::Reg && a.size > 0 && a.size <= FILE_MAX)
    };
    for entry in entries.iter().filter(fits).take(CANDIDATES_MAX) {
        let found = client.lookup(root, &entry.name);
        match found.and_then(|found| read_whole(client, &found.handle, read_size)) {
            Ok(data) => return Ok(Some((&entry.name, data))),
            Err(error) if is_private(&error) => {}
            Err(source) => return Err(at("reading a file")(source)),
        }
    }
    Ok(None)
}

/// Whether a file is only not readable for us, or was removed since it was listed.
fn is_private(error: &Error) -> bool {
    let statuses = [Nfsstat3::Acces, Nfsstat3::Perm, Nfsstat3::NoEnt, Nfsstat3::Stale];
    error.status().is_some_and(|number| statuses.iter().any(|s| s.number() == number))
}

/// Reads a file from start to end, with several calls in flight; no more than [`FILE_MAX`].
fn read_whole(client: &mut Client, file: &Fh, read_size: u32) -> Result<Vec<u8>> {
    let size = client.getattr(file)?.size.min(FILE_MAX);
    let mut data = Vec::new();
    let mut under_way: VecDeque<(u64, u32, u32)> = VecDeque::new();
    let mut next = 0u64;
    loop {
        while next < size && under_way.len() < WINDOW {
            let count = u32::try_from(size.saturating_sub(next)).unwrap_or(u32::MAX).min(read_size);
            under_way.push_back((next, count, client.send_read(file, next, count)?));
            next = next.saturating_add(u64::from(count));
        }
        let Some((offset, count, xid)) = under_way.pop_front() else { return Ok(data) };
        let mut got = client.recv_read(xid)?;
        data.append(&mut got.data);
        // A READ may be short (RFC 1813 §3.3.6): the rest is requested separately.
        let end = offset.saturating_add(u64::from(count));
        while !got.eof {
            let at = u64::try_from(data.len()).unwrap_or(u64::MAX);
            let Some(left) = end.checked_sub(at).filter(|left| *left > 0) else { break };
            got = client.read(file, at, u32::try_from(left).unwrap_or(read_size))?;
            if got.data.is_empty() && !got.eof {
                let source = xdr::Error::Invalid("no data before the end of the file");
                return Err(Error::Garbled { operation: "READ", source });
            }
            data.append(&mut got.data);
        }
    }
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
