//! Two clients of version 4 with delegations, one of version 3 and a program of the server's machine read and change the same
//! files: nobody reads old data after an open or under a delegation, no write is lost, nobody waits for ever. What holds
//! nobody back, local changes of names and modes, is seen under a delegation a moment later. Where attributes are kept
//! (`attr-cache`), which allows for no local changes, another client of version 3 plays in the place of that program.
//!
//! `FREE_FOR_ALL_SECONDS` for a longer run, `SEED` for the same choices again.

mod facts;
mod local;
mod version3;
mod version4;

use crate::rig::{NOBODY, Server, random::Xorshift, random::seed, text};
use facts::{
    Attrs, FILES, File, LOCAL, Named, PARTIES, Seen, TOLD_WITHIN, Value, mode_of, name_of, named,
    owner_of, size_of,
};
use local::Local;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use testing::{Missing, is_root, skip};
use version3::Version3;
use version4::Version4;

/// Longest time that any operation may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many files are used at a time, and how many go and come after each [`SHIFT`].
const IN_USE: u64 = 32;
const NEW: u64 = 8;
const SHIFT: Duration = Duration::from_millis(50);

/// What one of those who take part does to a file. All of it is done when the call returns.
trait Party {
    /// What is in the file of this name, if it is there, and whether that is taken for unchanged by a delegation.
    fn read(&mut self, name: &str) -> (Option<Seen>, bool);
    /// What is told of a file that is there, if it asks for that.
    fn stat(&mut self, _name: &str) -> Option<Attrs> {
        None
    }
    /// Overwrites eight bytes.
    fn write(&mut self, name: &str, offset: u64, number: u64);
    fn set_size(&mut self, name: &str, size: u64);
    fn set_mode(&mut self, name: &str, mode: u32);
    /// Makes a file of another name and gives it this one, whether there is one or not.
    fn replace(&mut self, name: &str, number: u64);
    fn remove(&mut self, name: &str);
    fn rename(&mut self, from: &str, to: &str);
    /// Does what is due by itself.
    fn look(&mut self) {}
    /// Gives back what it holds, at the end.
    fn end(&mut self) {}
}

/// What happened to one party.
#[derive(Debug, Default)]
struct Tally {
    reads: u64,
    stats: u64,
    delegated: u64,
    changes: u64,
    slowest: Duration,
    /// The longest time for which it has not seen what was changed already.
    told_after: Duration,
}

/// How the game stands.
struct Game {
    began: Instant,
    time: Duration,
    /// How many play.
    playing: AtomicUsize,
    /// One has failed: the others end.
    over: AtomicBool,
}

/// Tells the others that one has failed.
struct Failure<'a>(&'a Game);

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

struct Player<'a> {
    me: usize,
    party: &'a mut (dyn Party + Send),
    files: &'a [File],
    chance: Xorshift,
    tally: Tally,
    /// What was told of each file, and the versions that had been begun by then.
    told: HashMap<usize, (Attrs, [u64; PARTIES])>,
    /// Whether the file system's times differ after each change.
    times_are_fine: bool,
}

impl Player<'_> {
    fn play(mut self, game: &Game) -> Tally {
        let failure = Failure(game);
        while game.began.elapsed() < game.time && !game.over.load(Relaxed) {
            let shifts = (game.began.elapsed().as_millis() / SHIFT.as_millis()) as u64;
            let at = ((shifts * NEW + self.chance.below(IN_USE)) % FILES as u64) as usize;
            let start = Instant::now();
            self.party.look();
            match self.chance.below(6) {
                0..3 => self.read(at),
                3 => self.stat(at),
                _ => self.change(at),
            }
            let took = start.elapsed();
            assert!(took < PATIENCE, "party {} took {took:?} with {}", self.me, name_of(at));
            self.tally.slowest = self.tally.slowest.max(took);
        }
        // others may wait for what it holds
        game.playing.fetch_sub(1, Relaxed);
        while game.playing.load(Relaxed) > 0 && !game.over.load(Relaxed) {
            self.party.look();
            std::thread::sleep(Duration::from_micros(100));
        }
        self.party.end();
        std::mem::forget(failure);
        self.tally
    }

    /// Asks for attributes: they are others if the file was changed since they were asked for.
    fn stat(&mut self, at: usize) {
        let File::Shared { numbers, size, .. } = &self.files[at] else { return };
        let name = name_of(at);
        let (done, least) = (std::array::from_fn(|party| numbers[party].done()), size.done());
        let Some(attrs) = self.party.stat(&name) else { return };
        let done: [u64; PARTIES] = done;
        self.check(&name, size, least, false, |version| size_of(version) == attrs.size, &attrs);
        let begun = std::array::from_fn(|party| numbers[party].begun());
        if let Some((before, had_begun)) = self.told.insert(at, (attrs, begun))
            && self.times_are_fine
            && done.iter().zip(had_begun).any(|(done, had_begun)| *done > had_begun)
        {
            let context = format!("{name}, {had_begun:?} had begun, {done:?} was done");
            assert_ne!(before.changes, attrs.changes, "party {}: {context}", self.me);
        }
        self.tally.stats += 1;
    }

    fn change(&mut self, at: usize) {
        let (files, name) = (self.files, name_of(at));
        let own = owner_of(at) == self.me;
        match &files[at] {
            File::Named(_) if !own => return self.read(at),
            File::Named(value) => {
                let (before, version) = (named(value.done()), value.begin());
                match named(version) {
                    Named::Replaced => self.party.replace(&name, version),
                    Named::Removed if before == Named::Replaced => self.party.remove(&name),
                    Named::Renamed if before == Named::Replaced => {
                        self.party.rename(&name, &format!("{name}.away"));
                    }
                    Named::Removed | Named::Renamed => {}
                }
                value.finish();
            }
            File::Shared { numbers, size, mode } => match self.chance.below(4) {
                0 if own => {
                    let version = size.begin();
                    self.party.set_size(&name, size_of(version));
                    size.finish();
                }
                1 if own => {
                    let version = mode.begin();
                    self.party.set_mode(&name, mode_of(version));
                    mode.finish();
                }
                _ => {
                    let number = numbers[self.me].begin();
                    self.party.write(&name, 8 * self.me as u64, number);
                    numbers[self.me].finish();
                }
            },
        }
        self.tally.changes += 1;
    }

    fn read(&mut self, at: usize) {
        let name = name_of(at);
        let file = &self.files[at];
        match file {
            File::Named(value) => {
                let least = value.done();
                let (seen, delegated) = self.party.read(&name);
                let is = |version| match (seen, named(version)) {
                    (Some(seen), Named::Replaced) => seen.numbers[0] == version,
                    (None, Named::Removed | Named::Renamed) => true,
                    _ => false,
                };
                let told = delegated && owner_of(at) == LOCAL;
                self.check(&name, value, least, told, is, &seen);
                self.tally.delegated += u64::from(delegated);
            }
            File::Shared { numbers, size, mode } => {
                let values = [&numbers[0], &numbers[1], &numbers[2], &numbers[3], size, mode];
                let least = values.map(Value::done);
                let (seen, delegated) = self.party.read(&name);
                let seen = seen.unwrap_or_else(|| panic!("{name} is gone"));
                for (party, number) in seen.numbers.iter().enumerate() {
                    let is = |version| *number == version;
                    self.check(&name, values[party], least[party], false, is, &seen);
                }
                let is = |version| size_of(version) == seen.size;
                self.check(&name, size, least[PARTIES], false, is, &seen);
                let told = delegated && owner_of(at) == LOCAL;
                let is = |version| mode_of(version) == seen.mode;
                self.check(&name, mode, least[PARTIES + 1], told, is, &seen);
                self.tally.delegated += u64::from(delegated);
            }
        }
        self.tally.reads += 1;
    }

    /// Whether what was seen is a version that was not outdated when the reading began; `told`: of this a client is told
    /// only afterwards.
    fn check(
        &mut self,
        name: &str,
        value: &Value,
        least: u64,
        told: bool,
        is: impl Fn(u64) -> bool,
        seen: &impl std::fmt::Debug,
    ) {
        let found = (0..=value.begun()).rev().find(|version| is(*version));
        let context =
            || format!("party {} sees {found:?} of {name}, {least} was done: {seen:?}", self.me);
        let Some(version) = found else { panic!("what was never there: {}", context()) };
        if version >= least {
            return;
        }
        let late = value.outdated_for(version);
        assert!(told && late < TOLD_WITHIN, "old for {late:?}: {}", context());
        self.tally.told_after = self.tally.told_after.max(late);
    }
}

/// The files as they are at first.
fn make_files(dir: &Path) {
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
    for at in 0..FILES {
        let path = dir.join(name_of(at));
        std::fs::write(&path, [0; 64]).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode_of(0))).unwrap();
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Compares what is there with what was done.
fn compare(local: &mut Local, files: &[File]) {
    for (at, file) in files.iter().enumerate() {
        let name = name_of(at);
        let (seen, _) = local.read(&name);
        match file {
            File::Named(value) => match named(value.done()) {
                Named::Replaced => assert_eq!(seen.unwrap().numbers[0], value.done(), "{name}"),
                Named::Removed | Named::Renamed => assert_eq!(seen, None, "{name}"),
            },
            File::Shared { numbers, size, mode } => {
                let numbers = std::array::from_fn(|party| numbers[party].done());
                let (size, mode) = (size_of(size.done()), mode_of(mode.done()));
                assert_eq!(seen, Some(Seen { numbers, size, mode }), "{name}");
            }
        }
    }
}

#[test]
fn nobody_reads_old_data_and_no_write_is_lost() {
    free_for_all("read", 0);
}

/// Each answer may take attributes and names from before, which are kept for longer than the game lasts.
#[test]
fn nobody_reads_old_data_where_attributes_are_kept() {
    free_for_all("read", 60_000);
}

/// Clients of version 4 write to files of which they have a write delegation, and send that when it is recalled.
#[test]
fn nobody_misses_what_a_client_with_a_write_delegation_has_not_sent() {
    free_for_all("write", 0);
}

fn free_for_all(delegations: &str, attr_cache_ms: u32) {
    if !is_root() {
        skip(Missing::Root, format_args!("files of another user, which all may change"));
        return;
    }
    let given = std::env::var("FREE_FOR_ALL_SECONDS").ok().and_then(|given| given.parse().ok());
    let seconds: u64 = given.unwrap_or(3);
    let dir = tempfile::tempdir().unwrap();
    make_files(dir.path());
    let (path, exports) = (dir.path().to_str().unwrap(), tempfile::tempdir().unwrap());
    let exports = exports.path().join("exports");
    let row = format!("{path} 127.0.0.1(rw,attr-cache={attr_cache_ms})\n");
    std::fs::write(&exports, row).unwrap();
    let exports = exports.to_str().unwrap();
    let opened = std::fs::File::open(dir.path()).unwrap();
    let times_are_fine = sys::stat::ctime_is_fine(opened.as_fd()).unwrap();
    let (setting, writes) = (format!("delegations={delegations}"), delegations == "write");
    let server =
        Server::start(&["--exports", exports, "--set", "versions=3,4.1", "--set", &setting]);
    let files: Vec<File> = (0..FILES).map(File::new).collect();
    let path = path.as_bytes();
    let mut one = Version4::new(&server, path, b"one", writes);
    let mut two = Version4::new(&server, path, b"two", writes);
    let (mut three, mut local) = (Version3::new(&server, path), Local::new(dir.path()));
    let mut four = (attr_cache_ms > 0).then(|| Version3::new(&server, path));
    let last: &mut (dyn Party + Send) = match &mut four {
        Some(four) => four,
        None => &mut local,
    };
    let parties: [&mut (dyn Party + Send); PARTIES] = [&mut one, &mut two, &mut three, last];
    let seed = seed();
    let game = Game {
        began: Instant::now(),
        time: Duration::from_secs(seconds),
        playing: AtomicUsize::new(PARTIES),
        over: AtomicBool::new(false),
    };
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let (files, game) = (&files, &game);
        let mut threads = Vec::new();
        for (me, party) in parties.into_iter().enumerate() {
            let chance = Xorshift(seed.wrapping_add(me as u64 * 7919) | 1);
            let (tally, told) = (Tally::default(), HashMap::new());
            let player = Player { me, party, files, chance, tally, told, times_are_fine };
            threads.push(scope.spawn(move || player.play(game)));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (party, tally) in tallies.iter().enumerate() {
        println!("party {party}: {tally:?}");
    }
    compare(&mut local, &files);
    let metrics = text(&server.ask(&["metrics"]).stdout);
    let lines = metrics.lines().filter(|line| line.starts_with("bowline_delegation"));
    lines.for_each(|line| println!("{line}"));
    assert!(metrics.contains("\nbowline_delegations_revoked_total 0\n"), "somebody was late");
    let kept_none = metrics.contains("\nbowline_attr_cache_hits_total 0\n");
    assert_eq!(kept_none, attr_cache_ms == 0);
    assert!(tallies[..2].iter().all(|tally| tally.delegated > 0), "nobody had delegations");
    let unsent = [one.unsent, two.unsent];
    println!("written to memory only: {unsent:?}");
    assert_eq!(unsent.map(|unsent| unsent > 0), [writes; 2]);
}
