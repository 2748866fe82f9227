//! The client of version 3, which keeps nothing.

use super::facts::{Attrs, Seen};
use super::{PATIENCE, Party};
use crate::callbacks::connected;
use crate::rig::Server;
use client::{Client, Fh};
use proto::nfs3::{CreateHow3, Nfstime3, Sattr3, StableHow};
use std::time::{Duration, Instant};

const NOENT: u32 = 2;
const STALE: u32 = 70;
const JUKEBOX: u32 = 10_008;
/// How long it pauses when it is told to come back.
const PAUSE: Duration = Duration::from_millis(3);

pub struct Version3 {
    client: Client,
    dir: Fh,
}

impl Version3 {
    pub fn new(server: &Server, path: &[u8]) -> Self {
        let mut client = connected(server);
        let dir = client.mount(path).unwrap();
        Self { client, dir }
    }

    /// A call until its answer is not that it is to come back.
    fn call<T>(
        &mut self,
        mut call: impl FnMut(&mut Client, &Fh) -> client::Result<T>,
    ) -> Result<T, u32> {
        let end = Instant::now() + PATIENCE;
        loop {
            match call(&mut self.client, &self.dir) {
                Ok(result) => return Ok(result),
                Err(error) => match error.status() {
                    Some(JUKEBOX) => {
                        assert!(Instant::now() < end, "it is always to come back");
                        std::thread::sleep(PAUSE);
                    }
                    Some(status) => return Err(status),
                    None => panic!("{error}"),
                },
            }
        }
    }

    /// Of a file that is there.
    fn find(&mut self, name: &str) -> Fh {
        self.call(|client, dir| client.lookup(dir, name.as_bytes())).unwrap().handle
    }

    fn set(&mut self, name: &str, set: Sattr3) {
        let file = self.find(name);
        self.call(|client, _| client.setattr(&file, set, None)).unwrap();
    }
}

impl Party for Version3 {
    fn read(&mut self, name: &str) -> (Option<Seen>, bool) {
        loop {
            let file = match self.call(|client, dir| client.lookup(dir, name.as_bytes())) {
                Ok(found) => found.handle,
                Err(NOENT) => return (None, false),
                Err(status) => panic!("{name}: {status}"),
            };
            match self.call(|client, _| client.read(&file, 0, 32)) {
                Ok(done) => {
                    let attr = done.attr.unwrap();
                    return (Some(Seen::new(&done.data, attr.size, attr.mode)), false);
                }
                // it was replaced
                Err(STALE) => {}
                Err(status) => panic!("{name}: {status}"),
            }
        }
    }

    fn stat(&mut self, name: &str) -> Option<Attrs> {
        let file = self.find(name);
        let attr = self.call(|client, _| client.getattr(&file)).unwrap();
        let nanoseconds =
            |time: Nfstime3| u64::from(time.seconds) * 1_000_000_000 + u64::from(time.nseconds);
        Some(Attrs { changes: (nanoseconds(attr.mtime), nanoseconds(attr.ctime)), size: attr.size })
    }

    fn write(&mut self, name: &str, offset: u64, number: u64) {
        let (file, data) = (self.find(name), number.to_be_bytes());
        self.call(|client, _| client.write(&file, offset, &data, StableHow::FileSync)).unwrap();
    }

    fn set_size(&mut self, name: &str, size: u64) {
        self.set(name, Sattr3 { size: Some(size), ..Sattr3::default() });
    }

    fn set_mode(&mut self, name: &str, mode: u32) {
        self.set(name, Sattr3 { mode: Some(mode), ..Sattr3::default() });
    }

    fn replace(&mut self, name: &str, number: u64) {
        let (new, mode) = (format!("{name}.new"), Some(0o644));
        let how = CreateHow3::Unchecked(Sattr3 { mode, ..Sattr3::default() });
        self.call(|client, dir| client.create(dir, new.as_bytes(), how)).unwrap();
        self.set_size(&new, 64);
        self.write(&new, 0, number);
        self.rename(&new, name);
    }

    fn remove(&mut self, name: &str) {
        self.call(|client, dir| client.remove(dir, name.as_bytes())).unwrap();
    }

    fn rename(&mut self, from: &str, to: &str) {
        let renamed = |client: &mut Client, dir: &Fh| {
            client.rename((dir, from.as_bytes()), (dir, to.as_bytes()))
        };
        self.call(renamed).unwrap();
    }
}
