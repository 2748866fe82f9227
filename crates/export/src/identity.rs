//! Persistent data in the state directory: the handle key and the exports' UUIDs; and the lock that
//! keeps a second server from using the directory.
//!
//! Files in the state directory: `key` (16 bytes, mode 0600), `exports` (a line each: UUID, space, path with
//! `\` escapes; at the end `end` and the number of lines, so that a truncated file is not taken for one with
//! fewer exports), `lock`. All but the lock are replaced as a whole: temporary file, fsync, rename, fsync of
//! the directory. `key` is written last: where it exists, `exports` does. A UUID, once assigned, stays with
//! its path, also while the path is not exported. Without a state directory key and UUIDs are random and
//! last as long as the process.

use crate::export::ExportId;
use crate::handle::Key;
use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Another server uses it.
    #[error(
        "the state directory {dir} is in use by another Bowline{who}: stop it, or choose another directory with --state-dir"
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// ` (process N)` if known.
        who: String,
    },
    /// A system call failed.
    #[error("the state directory file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A file there does not have the expected format.
    #[error(
        "{path} is damaged ({what}): restore the state directory from a backup, or remove it (clients then have to \
         mount again)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error.
        what: &'static str,
    },
}

/// The handle key and the exports' UUIDs of a server.
#[derive(Debug)]
pub struct Identity {
    key: Key,
    dir: Option<PathBuf>,
    /// Path → UUID. Locked while exports are built, never by a call; files are written under it, at
    /// start and reload only.
    uuids: Mutex<BTreeMap<Vec<u8>, [u8; 16]>>,
    /// Open for the advisory lock on it.
    lock: Option<File>,
}

impl Identity {
    /// An identity that lasts as long as the process.
    ///
    /// # Errors
    /// [`IdentityError::Io`] if the kernel has no random bytes.
    pub fn ephemeral() -> Result<Self, IdentityError> {
        Ok(Self::of(Key(random()?)))
    }

    /// The same with this key.
    pub const fn of(key: Key) -> Self {
        Self { key, dir: None, uuids: Mutex::new(BTreeMap::new()), lock: None }
    }

    /// A copy that stores nothing: UUIDs assigned by it are lost with it.
    #[must_use]
    pub fn provisional(&self) -> Self {
        let uuids = self.uuids.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self { key: self.key, dir: None, uuids: Mutex::new(uuids), lock: None }
    }

    /// The identity stored in a directory, which must exist; created on first use. Never blocks, as opening a
    /// FIFO would.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn open(dir: &Path) -> Result<Self, IdentityError> {
        let lock = take_lock(dir)?;
        let damaged = |name: &str, what| IdentityError::Damaged { path: dir.join(name), what };
        let (key, uuids) = (read(&dir.join("key"))?, read(&dir.join("exports"))?);
        let key =
            key.map(|bytes| bytes.try_into().map_err(|_| damaged("key", "not 16 bytes long")));
        let uuids = match (uuids, &key) {
            (Some(bytes), _) => parse_uuids(&bytes).map_err(|what| damaged("exports", what))?,
            (None, Some(_)) => return Err(damaged("exports", "missing")),
            (None, None) => {
                replace(dir, "exports", &print_uuids(&BTreeMap::new()))?;
                BTreeMap::new()
            }
        };
        let key = match key.transpose()? {
            Some(key) => Key(key),
            // handles of these exports were sealed with a lost key
            None if !uuids.is_empty() => return Err(damaged("key", "missing")),
            None => {
                let key = random()?;
                replace(dir, "key", &key)?;
                Key(key)
            }
        };
        Ok(Self { key, dir: Some(dir.to_owned()), uuids: Mutex::new(uuids), lock: Some(lock) })
    }

    /// Whether the state directory is still the one that was opened. If it is removed or replaced while the server
    /// runs, its contents are missing at the next start, and clients have to mount again.
    pub fn is_in_place(&self) -> bool {
        let (Some(dir), Some(lock)) = (&self.dir, &self.lock) else { return true };
        let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let now = std::fs::metadata(dir.join("lock")).map(id);
        let all = ["key", "exports"].iter().all(|name| dir.join(name).is_file());
        all && now.is_ok_and(|now| lock.metadata().is_ok_and(|locked| id(locked) == now))
    }

    /// Unlocks the state directory for another server although this process may not exit yet: a thread that waits for a
    /// hung file system keeps the process's files open.
    pub fn release(&self) {
        if let Some(lock) = &self.lock {
            // fails only where locks are not supported; then no lock was taken
            let _ = lock.unlock();
        }
    }

    /// The key that seals handles.
    pub const fn key(&self) -> Key {
        self.key
    }

    /// The UUID of the export of this path; created and stored on first use.
    ///
    /// # Errors
    /// [`IdentityError::Io`].
    pub fn uuid(&self, path: &[u8]) -> Result<[u8; 16], IdentityError> {
        if let Some(uuid) = self.known_uuid(path) {
            return Ok(uuid);
        }
        self.reserve(std::iter::once(path))?;
        self.known_uuid(path).map_or_else(random, Ok)
    }

    /// The UUID of the export of this path, if it has one.
    pub fn known_uuid(&self, path: &[u8]) -> Option<[u8; 16]> {
        self.uuids.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    /// Assigns UUIDs to all these paths that have none, and stores them together.
    ///
    /// # Errors
    /// [`IdentityError::Io`]: none was assigned.
    pub fn reserve<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<(), IdentityError> {
        let mut uuids = self.uuids.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids: HashSet<ExportId> = uuids.values().map(ExportId::of).collect();
        let mut more: BTreeMap<Vec<u8>, [u8; 16]> = BTreeMap::new();
        for path in paths {
            if !uuids.contains_key(path) && !more.contains_key(path) {
                more.insert(path.to_vec(), new_uuid(&mut ids)?);
            }
        }
        if more.is_empty() {
            return Ok(());
        }
        more.extend(uuids.iter().map(|(path, uuid)| (path.clone(), *uuid)));
        if let Some(dir) = &self.dir {
            replace(dir, "exports", &print_uuids(&more))?;
        }
        *uuids = more;
        Ok(())
    }
}

/// A UUID (version 4) whose number in handles no other path has: handles of two exports with the
/// same number could not be distinguished.
fn new_uuid(known: &mut HashSet<ExportId>) -> Result<[u8; 16], IdentityError> {
    loop {
        let random = u128::from_be_bytes(random()?);
        let uuid =
            (random & !(0xf000 << 64 | 0b11 << 62) | 0x4000 << 64 | 0b10 << 62).to_be_bytes();
        if known.insert(ExportId::of(&uuid)) {
            return Ok(uuid);
        }
    }
}

/// A UUID as text: 32 hexadecimal digits, dashes ignored.
pub fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut digits = text.iter().filter(|b| **b != b'-').map(|b| char::from(*b).to_digit(16));
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        let (high, low) = (digits.next()??, digits.next()??);
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    digits.next().is_none().then_some(uuid)
}

fn print_uuids(uuids: &BTreeMap<Vec<u8>, [u8; 16]>) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, uuid) in uuids {
        out.extend(uuid.iter().flat_map(|b| format!("{b:02x}").into_bytes()));
        out.push(b' ');
        for byte in path {
            match byte {
                b'\n' => out.extend(b"\\n"),
                b'\\' => out.extend(b"\\\\"),
                other => out.push(*other),
            }
        }
        out.push(b'\n');
    }
    out.extend(format!("end {}\n", uuids.len()).into_bytes());
    out
}

/// The UUIDs of a whole file; else the error in it.
fn parse_uuids(bytes: &[u8]) -> Result<BTreeMap<Vec<u8>, [u8; 16]>, &'static str> {
    if bytes.is_empty() {
        return Err("empty");
    }
    let lines = bytes.strip_suffix(b"\n").ok_or("cut off")?;
    let end = lines.iter().rposition(|b| *b == b'\n').map_or(0, |at| at.saturating_add(1));
    let (lines, last) = lines.split_at_checked(end).ok_or("cut off")?;
    let count = last.strip_prefix(b"end ").and_then(|count| std::str::from_utf8(count).ok());
    let count: usize = count.and_then(|count| count.parse().ok()).ok_or("cut off")?;
    let uuids = parse_lines(lines).ok_or("a line is not UUID and path")?;
    if uuids.len() == count { Ok(uuids) } else { Err("lines are missing") }
}

fn parse_lines(bytes: &[u8]) -> Option<BTreeMap<Vec<u8>, [u8; 16]>> {
    let mut uuids = BTreeMap::new();
    for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let (uuid, path) = (line.get(..32)?, line.get(33..)?);
        let (mut plain, mut escaped) = (Vec::new(), false);
        for byte in path {
            match (escaped, byte) {
                (false, b'\\') => escaped = true,
                (true, b'n') => {
                    plain.push(b'\n');
                    escaped = false;
                }
                (_, other) => {
                    plain.push(*other);
                    escaped = false;
                }
            }
        }
        uuids.insert(plain, parse_uuid(uuid)?);
    }
    Some(uuids)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> IdentityError + '_ {
    move |source| IdentityError::Io { path: path.to_owned(), source }
}

fn random() -> Result<[u8; 16], IdentityError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    File::open(path).and_then(|mut f| f.read_exact(&mut bytes)).map_err(failed(path))?;
    Ok(bytes)
}

/// The content of a regular file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, IdentityError> {
    let mut bytes = Vec::new();
    let done = sys::open::open_regular(path).and_then(|mut file| file.read_to_end(&mut bytes));
    match done {
        Ok(_) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(path)(source)),
    }
}

fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), IdentityError> {
    let (part, whole) = (dir.join(format!("{name}.part")), dir.join(name));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let write = || {
        match std::fs::remove_file(&part) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = options.open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&part, &whole)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(failed(&whole))
}

/// Takes the directory's lock and writes this process's number to it.
fn take_lock(dir: &Path) -> Result<File, IdentityError> {
    let path = dir.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // open for reading and writing: of a FIFO that does not wait
    let mut file = options.open(&path).map_err(failed(&path))?;
    if !file.metadata().map_err(failed(&path))?.is_file() {
        return Err(IdentityError::Damaged { path, what: "not a regular file" });
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let known = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
            let who = if known { format!(" (process {})", pid.trim()) } else { String::new() };
            return Err(IdentityError::InUse { dir: dir.to_owned(), who });
        }
        Err(std::fs::TryLockError::Error(source)) => return Err(failed(&path)(source)),
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(failed(&path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{Identity, IdentityError, parse_uuid, parse_uuids, print_uuids};

    #[test]
    fn key_and_uuids_persist_and_a_second_server_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (key, uuid) = {
            let identity = Identity::open(dir.path()).unwrap();
            let refused = Identity::open(dir.path()).unwrap_err();
            assert!(matches!(&refused, IdentityError::InUse { .. }));
            assert!(refused.to_string().contains(&std::process::id().to_string()));
            (identity.key().0, identity.uuid(b"/srv/a").unwrap())
        };
        let identity = Identity::open(dir.path()).unwrap();
        assert_eq!(identity.key().0, key);
        assert_eq!(identity.uuid(b"/srv/a").unwrap(), uuid);
        assert_ne!(identity.uuid(b"/srv/b").unwrap(), uuid);
    }

    #[test]
    fn a_damaged_state_file_is_an_error_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key"), b"short").unwrap();
        assert!(matches!(Identity::open(dir.path()), Err(IdentityError::Damaged { .. })));
        std::fs::remove_file(dir.path().join("key")).unwrap();
        std::fs::write(dir.path().join("exports"), b"rubbish\n").unwrap();
        assert!(matches!(Identity::open(dir.path()), Err(IdentityError::Damaged { .. })));
    }

    #[test]
    fn a_truncated_file_of_uuids_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::open(dir.path()).unwrap();
        identity.reserve([&b"/a"[..], b"/b", b"/c"]).unwrap();
        drop(identity);
        let path = dir.path().join("exports");
        let whole = std::fs::read(&path).unwrap();
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let error = Identity::open(dir.path()).unwrap_err();
            assert!(matches!(error, IdentityError::Damaged { .. }), "{len}: {error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = Identity::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("exports is damaged (missing): restore"), "{error}");
        std::fs::write(&path, &whole).unwrap();
        assert!(Identity::open(dir.path()).unwrap().known_uuid(b"/b").is_some());
        std::fs::remove_file(dir.path().join("key")).unwrap();
        let error = Identity::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("key is damaged (missing)"), "{error}");
    }

    #[test]
    fn a_fifo_instead_of_a_state_file_does_not_block() {
        for name in ["key", "exports", "lock", "exports.part"] {
            let dir = tempfile::tempdir().unwrap();
            let made = std::process::Command::new("mkfifo").arg(dir.path().join(name)).status();
            assert!(made.unwrap().success());
            let opened = Identity::open(dir.path());
            assert_eq!(opened.is_ok(), name == "exports.part", "{name}: {opened:?}");
        }
    }

    #[test]
    fn new_exports_are_stored_together() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::open(dir.path()).unwrap();
        let paths: Vec<String> = (0..1000).map(|n| format!("/srv/{n}")).collect();
        identity.reserve(paths.iter().map(|path| path.as_bytes())).unwrap();
        let inode = || {
            std::os::unix::fs::MetadataExt::ino(
                &std::fs::metadata(dir.path().join("exports")).unwrap(),
            )
        };
        let written = inode();
        let uuids: std::collections::BTreeSet<_> =
            paths.iter().map(|path| identity.uuid(path.as_bytes()).unwrap()).collect();
        assert_eq!(uuids.len(), 1000);
        assert_eq!(inode(), written, "none of them was stored by itself");
    }

    #[test]
    fn a_removed_or_replaced_state_directory_is_detected() {
        let base = tempfile::tempdir().unwrap();
        let (dir, away) = (base.path().join("state"), base.path().join("away"));
        std::fs::create_dir(&dir).unwrap();
        let identity = Identity::open(&dir).unwrap();
        assert!(identity.is_in_place());
        std::fs::rename(&dir, &away).unwrap();
        assert!(!identity.is_in_place());
        std::fs::create_dir(&dir).unwrap();
        let other = Identity::open(&dir).unwrap();
        assert!(!identity.is_in_place() && other.is_in_place());
        drop(other);
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::rename(&away, &dir).unwrap();
        assert!(identity.is_in_place());
        identity.release();
        assert!(Identity::open(&dir).is_ok(), "another server may have it");
    }

    #[test]
    fn files_are_private_and_a_uuid_is_one() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::open(dir.path()).unwrap();
        let uuid = identity.uuid(b"/a").unwrap();
        assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (4, 0b10));
        for name in ["key", "exports", "lock"] {
            let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 3, "no half-written file is left");
    }

    #[test]
    fn a_uuid_that_cannot_be_stored_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity::open(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("exports.part")).unwrap();
        assert!(matches!(identity.uuid(b"/a"), Err(IdentityError::Io { .. })));
        std::fs::remove_dir(dir.path().join("exports.part")).unwrap();
        let uuid = identity.uuid(b"/a").unwrap();
        drop(identity);
        assert_eq!(Identity::open(dir.path()).unwrap().uuid(b"/a").unwrap(), uuid);
    }

    #[test]
    fn uuids_are_read_with_and_without_dashes() {
        let plain = parse_uuid(b"00112233445566778899aAbBcCdDeEfF").unwrap();
        assert_eq!(parse_uuid(b"00112233-4455-6677-8899-aabbccddeeff"), Some(plain));
        for wrong in
            ["", "0", "00112233445566778899aabbccddeef", "00112233445566778899aabbccddeeff0"]
        {
            assert_eq!(parse_uuid(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn paths_with_special_bytes_round_trip() {
        let uuids = [(b"/a\nb\\n \xff".to_vec(), [0xab; 16]), (b"/".to_vec(), [1; 16])].into();
        assert_eq!(parse_uuids(&print_uuids(&uuids)), Ok(uuids));
    }
}
