//! The program of the server's machine.

use super::Party;
use super::facts::Seen;
use crate::rig::NOBODY;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

pub struct Local(PathBuf);

impl Local {
    pub fn new(dir: &Path) -> Self {
        Self(dir.to_path_buf())
    }

    /// For writing: waits for those who have delegations.
    fn open(&self, name: &str) -> File {
        OpenOptions::new().write(true).open(self.0.join(name)).unwrap()
    }
}

impl Party for Local {
    fn read(&mut self, name: &str) -> (Option<Seen>, bool) {
        let mut file = match File::open(self.0.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return (None, false),
            Err(error) => panic!("{name}: {error}"),
        };
        let mut data = [0; 32];
        file.read_exact(&mut data).unwrap();
        let attr = file.metadata().unwrap();
        (Some(Seen::new(&data, attr.size(), attr.mode())), false)
    }

    fn write(&mut self, name: &str, offset: u64, number: u64) {
        self.open(name).write_all_at(&number.to_be_bytes(), offset).unwrap();
    }

    fn set_size(&mut self, name: &str, size: u64) {
        self.open(name).set_len(size).unwrap();
    }

    fn set_mode(&mut self, name: &str, mode: u32) {
        std::fs::set_permissions(self.0.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }

    fn replace(&mut self, name: &str, number: u64) {
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let mut data = [0; 64];
        data[..8].copy_from_slice(&number.to_be_bytes());
        std::fs::write(&new, data).unwrap();
        chown(&new, Some(NOBODY), Some(NOBODY)).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    fn remove(&mut self, name: &str) {
        std::fs::remove_file(self.0.join(name)).unwrap();
    }

    fn rename(&mut self, from: &str, to: &str) {
        std::fs::rename(self.0.join(from), self.0.join(to)).unwrap();
    }
}
