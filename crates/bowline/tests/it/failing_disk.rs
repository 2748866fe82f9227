//! A disk that fails, and works again, under several clients: what has been answered as done is there in the end,
//! and of what is not there each client that wrote it was told, by an error or by another verifier (RFC 1813
//! §3.3.7, §3.3.21).
//!
//! The disk is an image in a small tmpfs, with holes where the files' blocks are. While the tmpfs is full, what falls into a
//! hole cannot be written: the kernel learns of it when it writes back, on its own or when somebody syncs, and then says so once to each
//! descriptor, and forgets the data. Clients write to files of their own and, at blocks of their own, to one that they share,
//! so that the error of one's data comes up in another's sync. In the end the file system is mounted anew,
//! without what the kernel has in memory, and each block is held against what its client may believe.
//!
//! `SEED` makes the same choices again. Skipped, loudly, without root, loop devices or mkfs.ext4.

use crate::rig::random::{Xorshift, seed};
use crate::rig::{NOBODY, Server};
use client::{Client, Error, Fh, Identity};
use proto::nfs3::{StableHow, Verf};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testing::{Missing, skip};

const CLIENTS: u32 = 4;
/// Times that the disk fails.
const ROUNDS: u32 = 5;
/// Rounds at most, while the disk has not been seen both to fail and to work.
const ROUNDS_MAX: u32 = 10;
/// A page, and a block of the file system: it is there as a whole or not at all.
const BLOCK: usize = 4096;
/// From one block that is used to the next. What lies beside each other may go to the disk in one request, and of one
/// that found room for its first blocks only, Linux's loop devices say that it was done.
const STRIDE: usize = 2 * BLOCK;
/// Blocks of each client in each of its two files, in each round.
const BLOCKS: u32 = 96;
/// How long each of a round's parts takes: before the disk fails, while it does, after it.
const PART: Duration = Duration::from_millis(250);
/// Longest life of a server that is killed, in milliseconds.
const LIFE_MS: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(30);
/// The exit status of a script that cannot have what it needs.
const MISSING: i32 = 77;

/// Makes the disk in a mount namespace of its own, and runs this file's `inside` there. What is mounted goes with it.
const SCRIPT: &str = r#"
    mount --make-rprivate / || exit 77
    cd "$2"
    mkdir back front
    mount -t tmpfs -o size=64m none back || exit 77
    truncate -s 256M back/disk
    mkfs.ext4 -q -b 4096 -O ^has_journal -E lazy_itable_init=0,nodiscard -N 512 back/disk || exit 77
    mount -o loop back/disk front || exit 77
    exec "$1" --exact failing_disk::inside --ignored --nocapture
"#;

#[test]
fn every_lost_write_was_reported_to_its_client() {
    outside(false);
}

/// An error of the disk may be told to the server that is killed, to the next, or to none.
#[test]
fn every_lost_write_is_reported_even_after_sigkill() {
    outside(true);
}

fn outside(kills: bool) {
    if !testing::is_root() {
        skip(Missing::Root, "a disk that fails");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", SCRIPT, "sh"])
        .arg(std::env::current_exe().unwrap())
        .arg(base.path())
        .env("DISK", base.path())
        .env("KILLS", kills.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{text}\n{errors}");
    if output.status.code() == Some(MISSING) {
        skip(Missing::LoopDevices, format_args!("or mkfs.ext4: {errors}"));
        return;
    }
    assert!(output.status.success(), "{}", output.status);
    assert!(text.contains("test failing_disk::inside ... ok"), "it ran");
}

/// What a client may believe of a block of its own. Versions count from 1; 0 is a block of zeros.
#[derive(Debug, Clone, Copy, Default)]
struct Belief {
    /// This version is on disk, or a later one.
    sure: u64,
    /// The last that was sent.
    latest: u64,
    /// Written and not yet on disk, as the server said, under this verifier.
    pending: Option<(u64, Verf)>,
}

/// One file as one client knows it.
struct Ledger {
    name: String,
    file: Fh,
    blocks: BTreeMap<u32, Belief>,
}

/// What came of it all.
#[derive(Debug, Default)]
struct Tally {
    sure: u64,
    errors: u64,
    verifiers: u64,
}

struct Writer {
    client: Client,
    at: SocketAddr,
    random: Xorshift,
    tally: Tally,
}

/// The contents of a block: where it belongs and its version, all over.
fn contents(name: &str, block: u32, version: u64) -> Vec<u8> {
    let line = format!("{name:>7} {block:>6} {version:>15}\n");
    line.bytes().cycle().take(BLOCK).collect()
}

/// The version that a block's contents are, if they are one.
fn version(name: &str, block: u32, found: &[u8]) -> Option<u64> {
    if found.iter().all(|byte| *byte == 0) {
        return Some(0);
    }
    let text = found.get(15..31)?;
    let version = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (found == contents(name, block, version)).then_some(version)
}

impl Writer {
    /// Makes a call, again over a new connection if the server is killed meanwhile.
    fn call<T>(&mut self, work: impl Fn(&mut Client) -> Result<T, Error>) -> Result<T, Error> {
        let begun = Instant::now();
        loop {
            match work(&mut self.client) {
                Err(error) if !matches!(error, Error::Nfs { .. }) => {
                    assert!(kills() && begun.elapsed() < PATIENCE, "{error}");
                    std::thread::sleep(Duration::from_millis(1));
                    if let Ok(mut client) = Client::tcp(self.at, PATIENCE) {
                        client.set_identity(Some(Identity::new(NOBODY, NOBODY)));
                        self.client = client;
                    }
                }
                answered => return answered,
            }
        }
    }

    fn write(&mut self, ledger: &mut Ledger, block: u32, stable: StableHow) -> bool {
        let belief = ledger.blocks.entry(block).or_default();
        belief.latest += 1;
        // whatever comes of this one, it has taken the place of the one before
        belief.pending = None;
        let data = contents(&ledger.name, block, belief.latest);
        let (file, offset) = (ledger.file, u64::from(block) * STRIDE as u64);
        let written = self.call(|client| client.write(&file, offset, &data, stable));
        let belief = ledger.blocks.entry(block).or_default();
        match written {
            Ok(done) if done.committed == StableHow::Unstable => {
                assert_eq!(stable, StableHow::Unstable, "less than was asked for");
                belief.pending = Some((belief.latest, done.verf));
                true
            }
            Ok(_) => {
                belief.sure = belief.latest;
                self.tally.sure += 1;
                true
            }
            Err(error) => {
                self.told(&error);
                false
            }
        }
    }

    /// Makes sure of the blocks from `first` on that are fewer than `count`; 0 is all.
    fn commit(&mut self, ledger: &mut Ledger, first: u32, count: u32) {
        let size = STRIDE as u32;
        let file = ledger.file;
        let done = self.call(|client| client.commit(&file, u64::from(first * size), count * size));
        let end = if count == 0 { u32::MAX } else { first + count };
        let mut again = Vec::new();
        for (block, belief) in ledger.blocks.range_mut(first..end) {
            let Some((version, verf)) = belief.pending.take() else { continue };
            match &done {
                Ok(done) if done.verf == verf => {
                    belief.sure = version;
                    self.tally.sure += 1;
                }
                Ok(_) => again.push(*block),
                // told: it may be lost
                Err(_) => {}
            }
        }
        match done {
            Ok(_) if !again.is_empty() => {
                self.tally.verifiers += 1;
                for block in again {
                    self.write(ledger, block, StableHow::Unstable);
                }
            }
            Ok(_) => {}
            Err(error) => self.told(&error),
        }
    }

    fn told(&mut self, error: &Error) {
        let Error::Nfs { .. } = error else { panic!("{error}") };
        self.tally.errors += 1;
    }

    /// Writes and commits until it is told to stop, in the blocks of this round.
    fn work(&mut self, ledgers: &mut [Ledger], blocks: &[Vec<u32>], stop: &AtomicBool) {
        while !stop.load(Relaxed) {
            let at = self.random.one_of(ledgers.len());
            let (ledger, blocks) = (&mut ledgers[at], &blocks[at]);
            let block = blocks[self.random.one_of(blocks.len())];
            match self.random.below(20) {
                0..12 => _ = self.write(ledger, block, StableHow::Unstable),
                12 => _ = self.write(ledger, block, StableHow::DataSync),
                13 => _ = self.write(ledger, block, StableHow::FileSync),
                14 => self.commit(ledger, block, 1),
                15 => self.commit(ledger, block, 16),
                _ => self.commit(ledger, 0, 0),
            }
        }
    }

    /// The disk works: whatever was tried in this round can be had now.
    fn finish(&mut self, ledgers: &mut [Ledger], blocks: &[Vec<u32>]) {
        for (ledger, blocks) in ledgers.iter_mut().zip(blocks) {
            for block in blocks {
                let tried = ledger.blocks.get(block).is_some_and(|b| b.sure < b.latest);
                assert!(
                    !tried || self.write(ledger, *block, StableHow::Unstable),
                    "it works again"
                );
            }
            // what failed before is told of once more, to whom it was not yet told
            for _ in 0..10 {
                self.commit(ledger, 0, 0);
                let open: Vec<u32> = blocks
                    .iter()
                    .filter(|block| ledger.blocks.get(block).is_some_and(|b| b.sure < b.latest))
                    .copied()
                    .collect();
                for block in &open {
                    if ledger.blocks[block].pending.is_none() {
                        self.write(ledger, *block, StableHow::Unstable);
                    }
                }
            }
            let open = blocks.iter().filter_map(|block| ledger.blocks.get(block));
            assert_eq!(open.filter(|b| b.sure < b.latest).count(), 0, "{}", ledger.name);
        }
    }
}

/// The blocks of a client in a round: in its own file one behind the other, in the shared one between those of the others.
fn blocks(round: u32, number: u32) -> [Vec<u32>; 2] {
    let mine = round * BLOCKS..(round + 1) * BLOCKS;
    [mine.clone().collect(), mine.map(|n| n * CLIENTS + number).collect()]
}

fn connect(server: &Server, seed: u64, path: &Path) -> (Writer, Fh) {
    let mut client = Client::tcp(([127, 0, 0, 1], server.port).into(), PATIENCE).unwrap();
    client.set_identity(Some(Identity::new(NOBODY, NOBODY)));
    let root = client.mount(path.to_str().unwrap().as_bytes()).unwrap();
    let at = ([127, 0, 0, 1], server.port).into();
    (Writer { client, at, random: Xorshift(seed), tally: Tally::default() }, root)
}

fn ledger(writer: &mut Writer, root: &Fh, name: String) -> Ledger {
    let found = writer.client.lookup(root, name.as_bytes()).unwrap();
    Ledger { name, file: found.handle, blocks: BTreeMap::new() }
}

/// Makes the files, full of zeros that are nowhere: the file system has a place for each block, and what the disk
/// lacks is the room for what is written there. So what fails are data, and never the file system's own.
fn make(served: &Path, disk: &Path) {
    std::fs::create_dir(served).unwrap();
    let own = (0..CLIENTS).map(|number| (format!("own{number}"), ROUNDS_MAX * BLOCKS));
    for (name, blocks) in own.chain([("shared".to_owned(), ROUNDS_MAX * BLOCKS * CLIENTS)]) {
        let path = served.join(name);
        std::fs::write(&path, vec![0; blocks as usize * STRIDE]).unwrap();
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    done("sync", &[]);
    done("fallocate", &[Path::new("--dig-holes"), disk]);
}

fn done(command: &str, args: &[&Path]) {
    let output = Command::new(command).args(args).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

/// Whether the server is killed now and then.
fn kills() -> bool {
    std::env::var_os("KILLS").is_some_and(|kills| kills == "true")
}

/// One part of a round: the server is killed at any moment of it.
fn part(server: &mut Server, random: &mut Xorshift) {
    let begun = Instant::now();
    while kills() && begun.elapsed() < PART {
        std::thread::sleep(Duration::from_millis(random.below(LIFE_MS)));
        server.kill();
        server.start_again();
    }
    std::thread::sleep(PART.saturating_sub(begun.elapsed()));
}

/// Takes what is left of the room that the disk is in.
fn fill(ballast: &Path) {
    let file = std::fs::File::create(ballast).unwrap();
    let zeros = vec![0; 1 << 16];
    let mut at = 0;
    while let Ok(len) = file.write_at(&zeros, at) {
        at += len as u64;
    }
}

#[test]
#[ignore = "runs inside every_lost_write_was_reported_to_its_client"]
fn inside() {
    let base = PathBuf::from(std::env::var_os("DISK").unwrap());
    let [back, front] = ["back", "front"].map(|name| base.join(name));
    let seed = seed();
    let served = front.join("served");
    make(&served, &back.join("disk"));
    let exports = base.join("exports");
    std::fs::write(&exports, format!("{} 127.0.0.1(rw,insecure)\n", served.display())).unwrap();
    let mut server = Server::start(&["--exports", exports.to_str().unwrap()]);

    let mut parts: Vec<(Writer, [Ledger; 2])> = (0..CLIENTS)
        .map(|number| {
            let (mut writer, root) = connect(&server, seed + u64::from(number), &served);
            let names = [format!("own{number}"), "shared".to_owned()];
            let ledgers = names.map(|name| ledger(&mut writer, &root, name));
            (writer, ledgers)
        })
        .collect();
    let mut random = Xorshift(seed + 100);
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS && has_shown_enough(&parts) {
            break;
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (number, (writer, ledgers)) in (0..).zip(&mut parts) {
                let stop = &stop;
                scope.spawn(move || writer.work(ledgers, &blocks(round, number), stop));
            }
            part(&mut server, &mut random);
            fill(&back.join("ballast"));
            // the kernel writes back on its own: it is nobody's sync that fails
            let _ = Command::new("sync").arg("-f").arg(&front).output();
            part(&mut server, &mut random);
            let _ = Command::new("sync").arg("-f").arg(&front).output();
            std::fs::remove_file(back.join("ballast")).unwrap();
            part(&mut server, &mut random);
            stop.store(true, Relaxed);
        });
        for (number, (writer, ledgers)) in (0..).zip(&mut parts) {
            writer.finish(ledgers, &blocks(round, number));
        }
    }
    drop(server);
    look(&base, &parts);
}

/// Mounts the disk anew, and holds it against what the clients believe.
fn look(base: &Path, parts: &[(Writer, [Ledger; 2])]) {
    let [disk, front] = ["back/disk", "front"].map(|name| base.join(name));
    done("umount", &[&front]);
    done("mount", &[Path::new("-o"), Path::new("loop"), &disk, &front]);
    let mut lost = Vec::new();
    for ledger in parts.iter().flat_map(|(_, ledgers)| ledgers) {
        let file = std::fs::File::open(front.join("served").join(&ledger.name)).unwrap();
        for (block, belief) in &ledger.blocks {
            let mut found = vec![0; BLOCK];
            let read = file.read_exact_at(&mut found, u64::from(*block) * STRIDE as u64);
            let is = read.ok().and_then(|()| version(&ledger.name, *block, &found));
            if !is.is_some_and(|is| (belief.sure..=belief.latest).contains(&is)) {
                lost.push(format!("{} block {block} is {is:?}: {belief:?}", ledger.name));
            }
        }
    }
    let [sure, errors, verifiers] = totals(parts);
    println!("{sure} blocks sure, {errors} errors told, {verifiers} other verifiers");
    assert!(lost.is_empty(), "{} of them, the first: {}", lost.len(), lost[0]);
    assert!(has_shown_enough(parts), "the disk did fail, and worked in between");
}

/// Blocks sure, errors told and other verifiers seen, of all clients.
fn totals(parts: &[(Writer, [Ledger; 2])]) -> [u64; 3] {
    let sum = |of: fn(&Tally) -> u64| parts.iter().map(|(writer, _)| of(&writer.tally)).sum();
    [sum(|t| t.sure), sum(|t| t.errors), sum(|t| t.verifiers)]
}

/// Whether the disk has worked and failed.
fn has_shown_enough(parts: &[(Writer, [Ledger; 2])]) -> bool {
    let [sure, errors, _] = totals(parts);
    sure > 1000 && errors > 0
}
