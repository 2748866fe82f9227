//! A file that lines are appended to, and the full ones before it: `NAME`, `NAME.1`, `NAME.2` and so on, the last one the
//! oldest.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file that is written.
#[derive(Debug)]
pub struct RotatedFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl RotatedFile {
    /// Opens a file at its end, or makes it, for its owner only.
    ///
    /// # Errors
    /// The system's; not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(Self { file, path: path.to_owned(), bytes: meta.len() })
    }

    /// Appends whole lines. When the file has `size_max` bytes, the next one is begun, and `full_files` are kept.
    ///
    /// # Errors
    /// The system's: some of the lines may have been written.
    pub fn append(&mut self, lines: &[u8], size_max: u64, full_files: u32) -> io::Result<()> {
        if self.bytes >= size_max {
            self.rotate(full_files)?;
        }
        self.file.write_all(lines)?;
        self.bytes += lines.len() as u64;
        Ok(())
    }

    fn rotate(&mut self, full_files: u32) -> io::Result<()> {
        for number in (1..full_files).rev() {
            match std::fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        if full_files == 0 {
            std::fs::remove_file(&self.path)?;
        } else {
            std::fs::rename(&self.path, self.numbered(1))?;
        }
        *self = Self::open(&self.path)?;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(self.path.as_os_str());
        name.push(format!(".{number}"));
        name.into()
    }
}
