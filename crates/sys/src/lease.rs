//! Leases of the kernel on files, delegations on directories, and how one learns that somebody is in their way (fcntl(2),
//! `F_SETLEASE`; `F_SETDELEG`, from Linux 6.19 on).
//!
//! Whoever opens a leased file in a way that conflicts waits until the lease is given back, but for
//! `/proc/sys/fs/lease-break-time` seconds at most; one who opens it with `O_NONBLOCK` gets `EWOULDBLOCK`. Either
//! breaks the lease: its holder gets a signal. The signals are sent to one thread, which has them blocked and reads them
//! as a queue, so that no other thread and no handler sees any.
//!
//! What happens to a file's names and attributes breaks no lease; [`NameWatch`] tells of it afterwards.
//!
//! Who changes the entries or attributes of a directory with a delegation waits in the same way, whoever it is: the process
//! that has the delegation too, and `open` with `O_NONBLOCK` as well, if it creates a file. That a directory itself is renamed
//! or removed breaks no delegation of it.

use crate::event::Event;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// Which signal a file's owner gets; fcntl(2).
const F_SETSIG: libc::c_int = 10;
/// Who a file's owner is; fcntl(2).
const F_SETOWN_EX: libc::c_int = 15;
/// Which delegation an open file has, and another one for it (linux/fcntl.h).
const F_GETDELEG: libc::c_int = 1039;
const F_SETDELEG: libc::c_int = 1040;
/// The owner is a thread.
const F_OWNER_TID: libc::c_int = 0;

/// The kernel's `struct f_owner_ex`.
#[repr(C)]
struct OwnerEx {
    kind: libc::c_int,
    id: libc::pid_t,
}

/// The kernel's `struct delegation`.
#[repr(C)]
#[derive(Default)]
struct Delegation {
    flags: u32,
    kind: u16,
    pad: u16,
}

/// The signal of a broken lease. Nothing else in the process uses it.
fn break_signal() -> libc::c_int {
    libc::SIGRTMIN().saturating_add(1)
}

/// Whom a lease holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whoever opens the file for writing or truncates it (`F_RDLCK`); its holder has it open for reading only.
    Writers,
    /// Whoever opens it (`F_WRLCK`); its holder has it open once.
    Everybody,
    /// Whoever changes a directory: its entries or its own attributes.
    Changes,
}

impl Kind {
    const fn number(self) -> libc::c_int {
        match self {
            Self::Writers | Self::Changes => libc::F_RDLCK,
            Self::Everybody => libc::F_WRLCK,
        }
    }
}

/// Asks for a kind of lock as a lease of an open file, or as a delegation of a directory.
fn set(fd: BorrowedFd<'_>, kind: Kind, lock: libc::c_int) -> io::Result<()> {
    let done = if kind == Kind::Changes {
        let asked = Delegation { kind: u16::try_from(lock).unwrap_or(0), ..Delegation::default() };
        // SAFETY: F_SETDELEG reads a struct delegation, which outlives the call.
        unsafe { libc::fcntl(fd.as_raw_fd(), F_SETDELEG, std::ptr::from_ref(&asked)) }
    } else {
        // SAFETY: F_SETLEASE takes a kind of lock.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, lock) }
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kind of lock of a directory's delegation.
fn delegation_of(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    let mut found = Delegation::default();
    // SAFETY: F_GETDELEG reads and writes a struct delegation, which outlives the call.
    match unsafe { libc::fcntl(fd.as_raw_fd(), F_GETDELEG, std::ptr::from_mut(&mut found)) } {
        0 => Ok(found.kind.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel has delegations of directories at all; a file system may have none all the same.
pub fn kernel_holds_directories() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    // it says of every open file which one it has
    let ask = || Event::new().is_ok_and(|any| delegation_of(any.as_fd()).is_ok());
    *KNOWN.get_or_init(ask)
}

/// Takes a lease for an open file; the thread of this number gets the signals. `false` if somebody has the file open whom
/// it would hold back.
///
/// # Errors
/// `EACCES` for another's file without `CAP_LEASE`; `EINVAL` where the file system has no leases.
pub fn take(fd: BorrowedFd<'_>, kind: Kind, thread: i32) -> io::Result<bool> {
    let owner = OwnerEx { kind: F_OWNER_TID, id: thread };
    // SAFETY: F_SETOWN_EX reads a struct f_owner_ex, which outlives the call.
    if unsafe { libc::fcntl(fd.as_raw_fd(), F_SETOWN_EX, std::ptr::from_ref(&owner)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: F_SETSIG takes the number of a signal.
    if unsafe { libc::fcntl(fd.as_raw_fd(), F_SETSIG, break_signal()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    match set(fd, kind, kind.number()) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        done => done.map(|()| true),
    }
}

/// Gives a lease back: whoever waits for it goes on.
///
/// # Errors
/// There is none.
pub fn give_back(fd: BorrowedFd<'_>, kind: Kind) -> io::Result<()> {
    set(fd, kind, libc::F_UNLCK)
}

/// Whether a lease is whole: neither broken nor taken away.
pub fn is_whole(fd: BorrowedFd<'_>, kind: Kind) -> bool {
    if kind == Kind::Changes {
        return delegation_of(fd).is_ok_and(|found| found == kind.number());
    }
    // SAFETY: F_GETLEASE takes no argument.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETLEASE) == kind.number() }
}

/// What a signal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The lease of this descriptor.
    Descriptor(RawFd),
    /// The queue was full: it may be any.
    Any,
}

/// The signals of broken leases, for one thread.
#[derive(Debug)]
pub struct BreakSignals {
    queue: OwnedFd,
    thread: i32,
}

impl BreakSignals {
    /// Takes them over for the thread that calls this, which is the only one that can read them.
    ///
    /// # Errors
    /// As signalfd(2): no descriptors or no memory left.
    pub fn take_over() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set it is given, sigaddset changes an initialised one.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), break_signal());
            // what comes if the queue is full
            libc::sigaddset(set.as_mut_ptr(), libc::SIGIO);
            set.assume_init()
        };
        // SAFETY: the set is initialised and outlives the call; the old mask is not asked for.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is initialised and outlives the call; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let queue = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { queue, thread: rustix::thread::gettid().as_raw_nonzero().get() })
    }

    /// The number of the thread, for [`take`].
    pub const fn thread(&self) -> i32 {
        self.thread
    }

    /// The next one; `None` if there is none now.
    pub fn next(&self) -> Option<Broken> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `size` bytes to a place that is that large.
        let got = unsafe { libc::read(self.queue.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        if usize::try_from(got) != Ok(size) {
            return None;
        }
        // SAFETY: the kernel has filled in all of it.
        let info = unsafe { info.assume_init() };
        let ours = i32::try_from(info.ssi_signo) == Ok(break_signal());
        Some(if ours { Broken::Descriptor(info.ssi_fd) } else { Broken::Any })
    }
}

impl AsFd for BreakSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

/// Tells when files have got other names, attributes or links; inotify(7). A time of access that is set alone is not told.
#[derive(Debug)]
pub struct NameWatch(OwnedFd);

impl NameWatch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// As inotify_init(2): too many of the user's, no descriptors or no memory left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?))
    }

    /// Watches an open file; the number of the watch. One file has one, however often it is watched. While nobody can write
    /// it, it is also reported when the time of its last change is set alone, which cannot be told from writing.
    ///
    /// # Errors
    /// `ENOSPC` if the user watches too much; `ENOENT` without `/proc`.
    pub fn add(&self, fd: BorrowedFd<'_>, kind: Kind) -> io::Result<i32> {
        let names = inotify::WatchFlags::MOVE_SELF | inotify::WatchFlags::DELETE_SELF;
        let what = names
            | match kind {
                Kind::Writers => inotify::WatchFlags::ATTRIB | inotify::WatchFlags::MODIFY,
                Kind::Everybody | Kind::Changes => inotify::WatchFlags::ATTRIB,
            };
        Ok(inotify::add_watch(&self.0, crate::open::proc_path(fd), what)?)
    }

    /// Watches it no more.
    pub fn remove(&self, watch: i32) {
        // the kernel removes the watch of a file that is no more
        let _gone = inotify::remove_watch(&self.0, watch);
    }

    /// Which watches something has happened to since; `None` if some are not known, because there were too many.
    pub fn changed(&self) -> Option<Vec<i32>> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut changed = Vec::new();
        let mut all_known = true;
        while let Ok(event) = reader.next() {
            if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                all_known = false;
            // what has happened to an entry of a watched directory has a name
            } else if event.file_name().is_none()
                && !event.events().contains(inotify::ReadFlags::IGNORED)
            {
                changed.push(event.wd());
            }
        }
        all_known.then_some(changed)
    }
}

impl AsFd for NameWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of these can be read.
pub fn wait_readable(fds: [BorrowedFd<'_>; 3]) {
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    // after an interruption there is nothing to read, and the caller waits again
    let _interrupted = poll(&mut polled, None);
}

/// For how many seconds the kernel holds back whoever is in the way of a lease; `None` if it has no leases.
pub fn break_time_s() -> Option<u64> {
    let text = |name| std::fs::read_to_string(format!("/proc/sys/fs/{name}")).ok();
    let enabled = text("leases-enable")?.trim() != "0";
    text("lease-break-time")?.trim().parse().ok().filter(|_| enabled)
}

#[cfg(test)]
mod tests {
    use super::{
        BreakSignals, Broken, Kind, NameWatch, give_back, is_whole, kernel_holds_directories, take,
    };
    use std::fs::{File, OpenOptions};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::OpenOptionsExt;

    fn on_a_thread(work: impl FnOnce() + Send + 'static) {
        std::thread::spawn(work).join().unwrap();
    }

    #[test]
    fn a_lease_blocks_writers_and_reports_the_break() {
        on_a_thread(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            File::create(&path).unwrap();
            let signals = BreakSignals::take_over().unwrap();
            let writer = OpenOptions::new().write(true).open(&path).unwrap();
            let leased = File::open(&path).unwrap();
            let take = || take(leased.as_fd(), Kind::Writers, signals.thread()).unwrap();
            assert!(!take(), "it is being written");
            drop(writer);
            assert!(take());
            let open_nonblocking = |write| {
                let mut options = OpenOptions::new();
                options.read(true).write(write).custom_flags(libc::O_NONBLOCK).open(&path)
            };
            open_nonblocking(false).unwrap();
            let is_whole = || is_whole(leased.as_fd(), Kind::Writers);
            assert_eq!((signals.next(), is_whole()), (None, true));
            let refused = open_nonblocking(true).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
            assert_eq!(signals.next(), Some(Broken::Descriptor(leased.as_raw_fd())));
            assert!(!is_whole());
            give_back(leased.as_fd(), Kind::Writers).unwrap();
            open_nonblocking(true).unwrap();
        });
    }

    #[test]
    fn a_lease_against_everybody_needs_the_only_open_file_and_is_broken_by_readers() {
        on_a_thread(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            File::create(&path).unwrap();
            let signals = BreakSignals::take_over().unwrap();
            let reader = File::open(&path).unwrap();
            let leased = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let copy = leased.try_clone().unwrap();
            let take = || take(leased.as_fd(), Kind::Everybody, signals.thread()).unwrap();
            assert!(!take(), "another reads it");
            drop(reader);
            assert!(take(), "a copy of the descriptor is the same open file");
            let mut options = OpenOptions::new();
            let refused = options.read(true).custom_flags(libc::O_NONBLOCK).open(&path);
            assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
            assert_eq!(signals.next(), Some(Broken::Descriptor(leased.as_raw_fd())));
            assert!(!is_whole(leased.as_fd(), Kind::Everybody));
            drop(copy);
        });
    }

    /// Where the kernel has none, it says so, and takes none.
    #[test]
    fn a_directorys_delegation_holds_back_changes_of_its_entries() {
        on_a_thread(|| {
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            let signals = BreakSignals::take_over().unwrap();
            let open = File::open(dir.path()).unwrap();
            let taken = take(open.as_fd(), Kind::Changes, signals.thread());
            if !kernel_holds_directories() {
                assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
                return;
            }
            assert!(taken.unwrap());
            let path = dir.path().join("entry");
            let made = std::thread::spawn(move || std::fs::create_dir(path));
            while signals.next() != Some(Broken::Descriptor(open.as_raw_fd())) {
                std::thread::yield_now();
            }
            assert!(!made.is_finished() && !is_whole(open.as_fd(), Kind::Changes));
            give_back(open.as_fd(), Kind::Changes).unwrap();
            made.join().unwrap().unwrap();
        });
    }

    #[test]
    fn changed_names_and_attributes_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let file = File::create(&one).unwrap();
        let other = File::create(&two).unwrap();
        let watch = NameWatch::new().unwrap();
        let (first, second) = (
            watch.add(file.as_fd(), Kind::Writers).unwrap(),
            watch.add(other.as_fd(), Kind::Everybody).unwrap(),
        );
        assert_eq!(watch.add(file.as_fd(), Kind::Writers).unwrap(), first);
        assert_eq!(watch.changed(), Some(vec![]));
        std::fs::rename(&one, &two).unwrap();
        let changed = watch.changed().unwrap();
        assert!(changed.contains(&first) && changed.contains(&second), "{changed:?}");
        watch.remove(first);
        watch.changed();
        std::fs::remove_file(&two).unwrap();
        assert_eq!(watch.changed(), Some(vec![]));
        drop((file, other));
        // the end of what was replaced
        watch.changed();
        let opened = File::open(dir.path()).unwrap();
        let whole = watch.add(opened.as_fd(), Kind::Changes).unwrap();
        let entry = File::create(&one).unwrap();
        entry.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(watch.changed(), Some(vec![]), "an entry's attributes are not the directory's");
        std::fs::remove_file(&one).unwrap();
        dir.close().unwrap();
        // told once nobody has it open
        drop((entry, opened));
        assert!(watch.changed().unwrap().contains(&whole));
    }
}
