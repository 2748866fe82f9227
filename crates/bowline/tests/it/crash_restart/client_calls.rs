//! One client: its calls, chosen by chance, and what it must find after them.

use super::{Lives, udp_proxy::UdpProxy};
use crate::rig::NOBODY;
use crate::rig::channel::Channel;
use crate::rig::random::Xorshift;
use client::{Client, Error, Fh, Identity};
use proto::nfs3::{CreateHow3, Sattr3, StableHow};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for an answer, kills in between included.
const PATIENCE: Duration = Duration::from_secs(30);
const NAMES: usize = 4;
const BLOCK: usize = 1000;
const BLOCKS: u64 = 6;
/// NFS3ERR_NOENT, NFS3ERR_EXIST, NFS3ERR_STALE.
const NOENT: u32 = 2;
const EXIST: u32 = 17;
const STALE: u32 = 70;

/// What came of it all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub calls: u64,
    /// Calls that a kill came in between of, and of these what had been done before it.
    pub again: u64,
    pub done_before: u64,
    /// Times that everything was looked at after a kill.
    pub looks: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.again += other.again;
        self.done_before += other.done_before;
        self.looks += other.looks;
    }
}

struct File {
    handle: Fh,
    mode: u32,
    data: Vec<u8>,
}

/// How a client reaches the server.
#[derive(Clone, Copy)]
pub enum Transport<'l> {
    Stream(&'l Channel),
    Datagrams(UdpProxy),
}

/// A directory of the client's, by number, and a name there.
type Slot = (usize, usize);

pub struct RandomClient<'l> {
    client: Client,
    at: SocketAddr,
    way: Transport<'l>,
    lives: &'l Lives,
    random: Xorshift,
    pub tally: Tally,
    dirs: Vec<Fh>,
    files: BTreeMap<Slot, File>,
    /// The last that went.
    gone: Option<Fh>,
    /// The life in which everything was looked at.
    looked: u64,
    written: u64,
}

/// An answer, and whether the server lived on from the call's first time to it.
struct Answer<T> {
    result: Result<T, Error>,
    life: Option<u64>,
}

fn name(place: Slot) -> [u8; 1] {
    [b'a' + place.1 as u8]
}

fn connect(at: SocketAddr, way: Transport<'_>) -> Result<Client, Error> {
    let mut client = match way {
        Transport::Datagrams(line) => Client::udp(line.0, PATIENCE)?,
        Transport::Stream(channel) => channel.connect(at, PATIENCE)?,
    };
    client.set_identity(Some(Identity::new(NOBODY, NOBODY)));
    Ok(client)
}

impl<'l> RandomClient<'l> {
    /// A client with two directories of its own.
    pub fn new(
        at: SocketAddr,
        way: Transport<'l>,
        served: &Path,
        seed: u64,
        lives: &'l Lives,
    ) -> Self {
        let (tally, dirs, files) = Default::default();
        let client = loop {
            if let Ok(client) = connect(at, way) {
                break client;
            }
        };
        let random = Xorshift(seed);
        let (gone, looked, written) = (None, 0, 0);
        let mut new =
            Self { client, at, way, lives, random, tally, dirs, files, gone, looked, written };
        let path = served.to_str().unwrap().as_bytes();
        let root = new.call(|client| client.mount(path)).result.unwrap();
        for dir in 0..2 {
            let dir_name = format!("{seed}-{dir}");
            let made =
                new.call(|client| client.mkdir(&root, dir_name.as_bytes(), Sattr3::default()));
            new.done(made, EXIST);
            let found = new.call(|client| client.lookup(&root, dir_name.as_bytes()));
            new.dirs.push(found.result.unwrap().handle);
        }
        new
    }

    /// Makes a call again and again until it is answered.
    fn call<T>(&mut self, work: impl Fn(&mut Client) -> Result<T, Error>) -> Answer<T> {
        let (first, begun) = (self.lives.now(), Instant::now());
        self.tally.calls += 1;
        loop {
            let before = self.lives.now();
            let result = work(&mut self.client);
            let now = self.lives.now();
            if matches!(result, Ok(_) | Err(Error::Nfs { .. } | Error::Mount { .. })) {
                let lived = first == now && now.is_multiple_of(2);
                self.tally.again += u64::from(first != now);
                return Answer { result, life: lived.then_some(now) };
            }
            let error = result.err().map(|error| error.to_string());
            let killed = before != now || !now.is_multiple_of(2);
            assert!(killed, "nobody has killed the server: {error:?}");
            assert!(begun.elapsed() < PATIENCE, "{error:?}");
            std::thread::sleep(Duration::from_millis(1));
            if let Ok(client) = connect(self.at, self.way) {
                self.client = client;
            }
        }
    }

    /// A change was made: now, or, as this error says, before the server was killed.
    fn done<T>(&mut self, answer: Answer<T>, before: u32) -> Option<T> {
        match answer.result {
            Ok(made) => Some(made),
            Err(Error::Nfs { number, .. }) if number == before && answer.life.is_none() => {
                self.tally.done_before += 1;
                None
            }
            Err(error) => panic!("{error}, in one life: {:?}", answer.life),
        }
    }

    /// Makes one change, or looks.
    pub fn step(&mut self) {
        if self.looked != self.lives.now() {
            self.looked = self.lives.now();
            self.look();
        }
        let at = (self.random.one_of(2), self.random.one_of(NAMES));
        let to = (self.random.one_of(2), self.random.one_of(NAMES));
        let is_there = self.files.contains_key(&at);
        match self.random.below(20) {
            _ if !is_there => self.create(at),
            0..3 => self.remove(at),
            3..9 if at != to => self.rename(at, to),
            9..11 => self.chmod(at),
            11 => self.resize(at),
            12..18 => self.write(at),
            18 => self.commit(at),
            _ => self.look_at(at),
        }
    }

    fn create(&mut self, at: Slot) {
        let (dir, mode) = (self.dirs[at.0], 0o600 + self.random.below(0o100) as u32);
        let set = Sattr3 { mode: Some(mode), ..Sattr3::default() };
        let how = match self.random.below(3) {
            0 => CreateHow3::Guarded(set),
            1 => CreateHow3::Unchecked(set),
            _ => CreateHow3::Exclusive(self.random.below(1 << 30).to_be_bytes()),
        };
        let made = self.call(|client| client.create(&dir, &name(at), how));
        let made = self.done(made, EXIST);
        let handle = made.and_then(|made| made.handle).unwrap_or_else(|| {
            self.call(|client| client.lookup(&dir, &name(at))).result.unwrap().handle
        });
        self.files.insert(at, File { handle, mode, data: Vec::new() });
        if matches!(how, CreateHow3::Exclusive(_)) {
            self.set_mode(at, mode);
        }
    }

    fn remove(&mut self, at: Slot) {
        let dir = self.dirs[at.0];
        let removed = self.call(|client| client.remove(&dir, &name(at)));
        self.done(removed, NOENT);
        self.went(at);
    }

    fn went(&mut self, at: Slot) {
        let Some(file) = self.files.remove(&at) else { return };
        let found = self.call(|client| client.getattr(&file.handle)).result;
        assert!(matches!(found, Err(Error::Nfs { number: STALE, .. })), "it is gone: {found:?}");
        self.gone = Some(file.handle);
    }

    fn rename(&mut self, from: Slot, to: Slot) {
        let (old, new) = (self.dirs[from.0], self.dirs[to.0]);
        let moved = self.call(|client| client.rename((&old, &name(from)), (&new, &name(to))));
        self.done(moved, NOENT);
        self.went(to);
        let file = self.files.remove(&from).unwrap();
        self.files.insert(to, file);
        self.look_at(to);
    }

    fn chmod(&mut self, at: Slot) {
        let mode = 0o600 + self.random.below(0o100) as u32;
        self.set_mode(at, mode);
    }

    fn set_mode(&mut self, at: Slot, mode: u32) {
        self.set(at, Sattr3 { mode: Some(mode), ..Sattr3::default() });
        self.files.get_mut(&at).unwrap().mode = mode;
    }

    fn resize(&mut self, at: Slot) {
        let size = self.random.below(BLOCKS * BLOCK as u64);
        self.set(at, Sattr3 { size: Some(size), ..Sattr3::default() });
        self.files.get_mut(&at).unwrap().data.resize(size as usize, 0);
    }

    fn set(&mut self, at: Slot, set: Sattr3) {
        let handle = self.files[&at].handle;
        self.call(|client| client.setattr(&handle, set, None)).result.unwrap();
    }

    fn write(&mut self, at: Slot) {
        let how = [StableHow::Unstable, StableHow::DataSync, StableHow::FileSync];
        let (how, offset) = (how[self.random.one_of(3)], self.random.below(BLOCKS) * BLOCK as u64);
        self.written += 1;
        let data = self.written.to_be_bytes().repeat(BLOCK / 8);
        let handle = self.files[&at].handle;
        let written = self.call(|client| client.write(&handle, offset, &data, how));
        let done = written.result.unwrap();
        assert_eq!((done.count as usize, done.committed as u32), (BLOCK, how as u32));
        self.saw(written.life, done.verf);
        let (file, offset) = (self.files.get_mut(&at).unwrap(), offset as usize);
        let len = file.data.len().max(offset + BLOCK);
        file.data.resize(len, 0);
        file.data[offset..offset + BLOCK].copy_from_slice(&data);
    }

    fn commit(&mut self, at: Slot) {
        let handle = self.files[&at].handle;
        let done = self.call(|client| client.commit(&handle, 0, 0));
        self.saw(done.life, done.result.unwrap().verf);
    }

    fn saw(&self, life: Option<u64>, verifier: [u8; 8]) {
        if let Some(life) = life {
            self.lives.saw(life, verifier);
        }
    }

    /// Looks whether a file is what it must be, by its handle.
    fn look_at(&mut self, at: Slot) {
        let handle = self.files[&at].handle;
        let attr = self.call(|client| client.getattr(&handle)).result;
        let attr = attr.unwrap_or_else(|error| panic!("{at:?}: {error}"));
        let most = (BLOCKS as u32 + 1) * BLOCK as u32;
        let read = self.call(|client| client.read(&handle, 0, most)).result.unwrap();
        let file = &self.files[&at];
        assert_eq!((attr.mode, attr.size), (file.mode, file.data.len() as u64), "{at:?}");
        let wrong = read.data.iter().zip(&file.data).position(|(is, must)| is != must);
        assert_eq!((wrong, read.data.len()), (None, file.data.len()), "{at:?}");
    }

    /// Looks at everything.
    pub fn look(&mut self) {
        self.tally.looks += 1;
        for number in 0..2 {
            let dir = self.dirs[number];
            let listed = self.call(|client| client.readdir(&dir, 0, [0; 8], 8192)).result.unwrap();
            let is: BTreeSet<_> = listed.entries.into_iter().map(|entry| entry.name).collect();
            let own = self.files.keys().filter(|at| at.0 == number).map(|at| name(*at).to_vec());
            let must: BTreeSet<_> = own.chain([b".".to_vec(), b"..".to_vec()]).collect();
            assert_eq!(is, must, "directory {number}");
        }
        for at in self.files.keys().copied().collect::<Vec<_>>() {
            self.look_at(at);
        }
        if let Some(gone) = self.gone {
            let found = self.call(|client| client.getattr(&gone)).result;
            assert!(matches!(found, Err(Error::Nfs { number: STALE, .. })), "{found:?}");
        }
    }
}
