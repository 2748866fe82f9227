//! What persists in the state directory: the handle key and the exports' UUIDs; and the lock that
//! keeps a second server from using the directory.
//!
//! Files in the state directory: `key` (16 bytes, mode 0600), `exports` (a line each: UUID, space,
//! path with `\` escapes), `lock`. All but the lock are written whole: temporary file, fsync,
//! rename, fsync of the directory. A UUID once given out stays with its path, also while the path
//! is not exported. Without a state directory key and UUIDs are random and last as long as the process.

use crate::export::ExportId;
use crate::handle::Key;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Another server has it.
    #[error(
        "the state directory {dir} is in use by another Bowline{who}: stop it, or name another with --state-dir"
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
    /// A file there has not the expected format.
    #[error(
        "{path} is damaged ({what}): restore it, or remove it (clients then have to mount again)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

/// The handle key and the exports' UUIDs of a server.
#[derive(Debug)]
pub struct Identity {
    key: Key,
    dir: Option<PathBuf>,
    /// Path → UUID. Locked while exports are built, never by a call; files are written under it,
    /// at start and reload only.
    uuids: Mutex<BTreeMap<Vec<u8>, [u8; 16]>>,
    /// Held for the advisory lock on it.
    _lock: Option<File>,
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
        Self { key, dir: None, uuids: Mutex::new(BTreeMap::new()), _lock: None }
    }

    /// The identity stored in a directory, which must exist; created on first use.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn open(dir: &Path) -> Result<Self, IdentityError> {
        let lock = take_lock(dir)?;
        let key = match read(&dir.join("key"))? {
            Some(bytes) => Key(bytes.try_into().map_err(|_| IdentityError::Damaged {
                path: dir.join("key"),
                what: "not 16 bytes long",
            })?),
            None => {
                let key = random()?;
                replace(dir, "key", &key)?;
                Key(key)
            }
        };
        let path = dir.join("exports");
        let uuids = match read(&path)? {
            Some(bytes) => parse_uuids(&bytes)
                .ok_or(IdentityError::Damaged { path, what: "a line is not UUID and path" })?,
            None => BTreeMap::new(),
        };
        Ok(Self { key, dir: Some(dir.to_owned()), uuids: Mutex::new(uuids), _lock: Some(lock) })
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
        let mut uuids = self.uuids.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uuid) = uuids.get(path) {
            return Ok(*uuid);
        }
        let uuid = new_uuid(&uuids)?;
        let mut more = uuids.clone();
        more.insert(path.to_vec(), uuid);
        if let Some(dir) = &self.dir {
            replace(dir, "exports", &print_uuids(&more))?;
        }
        *uuids = more;
        Ok(uuid)
    }
}

/// A UUID (version 4) whose number in handles no other path has: two exports that share one could
/// not be told apart.
fn new_uuid(known: &BTreeMap<Vec<u8>, [u8; 16]>) -> Result<[u8; 16], IdentityError> {
    loop {
        let random = u128::from_be_bytes(random()?);
        let uuid =
            (random & !(0xf000 << 64 | 0b11 << 62) | 0x4000 << 64 | 0b10 << 62).to_be_bytes();
        if known.values().all(|other| ExportId::of(other) != ExportId::of(&uuid)) {
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
    out
}

fn parse_uuids(bytes: &[u8]) -> Option<BTreeMap<Vec<u8>, [u8; 16]>> {
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

fn read(path: &Path) -> Result<Option<Vec<u8>>, IdentityError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(path)(source)),
    }
}

fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), IdentityError> {
    let (part, whole) = (dir.join(format!("{name}.part")), dir.join(name));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let write = || {
        let mut file = options.open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&part, &whole)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(failed(&whole))
}

/// Takes the directory's lock and leaves this process's number in it.
fn take_lock(dir: &Path) -> Result<File, IdentityError> {
    let path = dir.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).map_err(failed(&path))?;
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
        assert_eq!(parse_uuids(&print_uuids(&uuids)), Some(uuids));
    }
}
