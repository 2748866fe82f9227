//! READs of a file that others cut, grow, punch, replace and unlink at the same time: every reply is
//! whole, in its place, and holds bytes that the file had, or zeros.
//!
//! `READ_RACE_READS` is the number of READs (1,000,000 for the whole proof).

use crate::rig::random::Xorshift;
use crate::rig::{NOBODY, Server, is_root};
use client::{Client, Error, Fh};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// READs in all, unless the environment says otherwise.
const READS: usize = 20_000;
/// The file's whole length.
const LEN: usize = 512 << 10;
/// READs are at most so long on a connection, and in a datagram.
const TCP_MAX: usize = 256 << 10;
const UDP_MAX: usize = 60 << 10;
/// NFS3ERR_NOENT and NFS3ERR_STALE: the file has just been unlinked.
const GONE: [u32; 2] = [2, 70];

/// What the file holds wherever it holds anything: never zero, and different at each page.
fn pattern() -> Vec<u8> {
    (0..LEN + TCP_MAX).map(|at| (at % 251) as u8 + 1).collect()
}

/// Does to the file what a busy client or a local process would, until told to stop.
fn disturb(path: &Path, pattern: &[u8], stop: &AtomicBool) {
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let make = || {
        let mut file = File::options().create(true).truncate(true).write(true).open(path).unwrap();
        file.write_all(&pattern[..LEN]).unwrap();
        file
    };
    let mut file = make();
    while !stop.load(Relaxed) {
        let at = random.one_of(LEN);
        match random.one_of(16) {
            0..4 => file.set_len(at as u64).unwrap(),
            4 => file.set_len((LEN + at) as u64 / 2).unwrap(),
            5..12 => {
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                file.write_all(&pattern[at..LEN.min(at + 100_000)]).unwrap();
            }
            12..15 => sys::io::punch_hole(file.as_fd(), at as u64, 30_000).unwrap(),
            _ => {
                std::fs::remove_file(path).unwrap();
                file = make();
            }
        }
        std::thread::yield_now();
    }
}

/// The file's handle, as soon as there is one again.
fn find(client: &mut Client, root: &Fh) -> Fh {
    loop {
        match client.lookup(root, b"file") {
            Ok(found) => return found.handle,
            Err(Error::Nfs { number, .. }) if GONE.contains(&number) => {}
            Err(error) => panic!("LOOKUP: {error}"),
        }
    }
}

/// Reads until there are no more READs to do.
fn read(mut client: Client, max: usize, pattern: &[u8], left: &AtomicUsize, seed: u64) {
    let root = client.mount(b"/served").unwrap();
    let mut file = find(&mut client, &root);
    let mut random = Xorshift(seed);
    while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
        let aligned = random.one_of(2) == 0;
        let at = random.one_of(LEN + 10_000);
        let at = if aligned { at & !4095 } else { at };
        let most = if random.one_of(4) == 0 { max } else { 16 << 10 };
        let count = 1 + random.one_of(most);
        match client.read(&file, at as u64, count as u32) {
            Ok(done) => {
                let data = &done.data;
                assert!(data.len() <= count, "{} bytes of {count}", data.len());
                let expected = &pattern[at.min(LEN)..][..data.len()];
                let holds = |(got, wanted): (&u8, &u8)| got == wanted || *got == 0;
                assert!(
                    data == expected || data.iter().zip(expected).all(holds),
                    "{count} bytes at {at} are not the file's"
                );
                let attr = done.attr.unwrap();
                // what gives nothing says so, though the file may have grown since
                let at_end = data.is_empty() || at + data.len() >= attr.size as usize;
                assert!(at_end || !done.eof);
                assert!(done.eof || !data.is_empty(), "nothing, and no end");
            }
            Err(Error::Nfs { number, .. }) if GONE.contains(&number) => {
                file = find(&mut client, &root);
            }
            Err(error) => panic!("READ of {count} bytes at {at}: {error}"),
        }
    }
}

fn race(zero_copy: &str, reads: usize) {
    // in memory: a disk would only make it slower
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let export = format!("served={}", place.path().display());
    // a server that is not root takes clients from any port
    let user = is_root().then_some(NOBODY);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path(), mode).unwrap();
    let server = Server::start_as(user, &[&export]);
    let set = server.ask(&["set", &format!("zero-copy={zero_copy}")]);
    assert!(set.status.success(), "{}", crate::rig::text(&set.stderr));
    let addr = SocketAddr::from(([127, 0, 0, 1], server.port));
    let (path, pattern) = (place.path().join("file"), pattern());
    let (stop, left) = (AtomicBool::new(false), AtomicUsize::new(reads));
    let patience = Duration::from_secs(60);
    std::thread::scope(|scope| {
        let disturber = scope.spawn(|| disturb(&path, &pattern, &stop));
        let readers: Vec<_> = (1..=4_u64)
            .map(|seed| {
                let (pattern, left) = (&pattern, &left);
                scope.spawn(move || {
                    let (client, max) = match seed {
                        4 => (Client::udp(addr, patience).unwrap(), UDP_MAX),
                        _ => (Client::tcp(addr, patience).unwrap(), TCP_MAX),
                    };
                    read(client, max, pattern, left, seed);
                })
            })
            .collect();
        let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Relaxed);
        disturber.join().unwrap();
        assert!(ended.iter().all(Result::is_ok), "a reader failed");
    });
    let status = server.json("status");
    let counter = |name: &str| {
        let counters = status["counters"].as_array().unwrap();
        let found = counters.iter().find(|row| row["name"] == name);
        found.map_or(0, |row| row["value"].as_u64().unwrap())
    };
    eprintln!(
        "zero-copy={zero_copy}: {reads} reads; {} bytes copied, {} not; {} cold, {} short, {} padded",
        counter("bytes-copied"),
        counter("bytes-not-copied"),
        counter("copied-cold"),
        counter("copied-short"),
        counter("ranges-padded"),
    );
    assert_eq!(counter("bytes-not-copied") == 0, zero_copy == "off");
}

#[test]
fn reads_are_consistent_while_the_file_changes() {
    let reads = std::env::var("READ_RACE_READS").map_or(READS, |text| text.parse().unwrap());
    race("on", reads * 3 / 5);
    race("auto", reads / 5);
    race("off", reads / 5);
}
