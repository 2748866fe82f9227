//! Whom the calling thread acts as towards file systems, and the process's capabilities.
//!
//! Linux keeps `fsuid`, `fsgid` and groups per thread; the raw system calls used here change the
//! calling thread only. The thread's identity is remembered in a thread-local, so that asking for
//! the one in force costs nothing. When `fsuid` leaves 0, the kernel takes the file capabilities
//! (override, chown, …) from the thread; when it comes back, it gives them back.

use std::cell::RefCell;
use std::io;
use std::sync::OnceLock;

/// The most groups that a thread is given; AUTH_SYS carries 16, server-side look-ups more.
const GROUPS_MAX: usize = 1024;

/// The id that no user and no group has: to the system calls it means "leave it as it is".
const NO_ID: u32 = u32::MAX;

/// Which ids there are in the process's user namespace.
const UID_MAP: &str = "/proc/self/uid_map";
/// The same for groups.
const GID_MAP: &str = "/proc/self/gid_map";

/// Whom a thread's file system ids make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Who {
    /// As the process was started.
    #[default]
    Process,
    /// A change failed half way, or the thread was started by one that acted as somebody.
    Unknown,
    /// This user and this group.
    User(u32, u32),
}

#[derive(Default)]
struct Current {
    ids: Who,
    /// Whom nobody has changed yet has those that the process was started with.
    groups: Option<Vec<u32>>,
    /// The groups before the first change.
    started_with: Option<Vec<u32>>,
}

impl Current {
    fn is(&self, uid: u32, gid: u32, groups: &[u32]) -> bool {
        self.ids == Who::User(uid, gid) && self.groups.as_deref() == Some(groups)
    }

    fn set_groups(&mut self, groups: &[u32]) -> io::Result<()> {
        if self.groups.as_deref() == Some(groups) {
            return Ok(());
        }
        // forgotten first: after a failure nobody may believe the old ones; the memory stays
        let mut kept = self.groups.take().unwrap_or_default();
        set_groups(groups)?;
        kept.clear();
        kept.extend_from_slice(groups);
        self.groups = Some(kept);
        Ok(())
    }
}

thread_local! {
    static CURRENT: RefCell<Current> = RefCell::default();
}

/// The process's own identity, as it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// The process's own identity.
///
/// # Errors
/// The kernel's error.
pub fn own() -> io::Result<Own> {
    let groups = rustix::process::getgroups()?;
    Ok(Own {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
    })
}

/// Lets the calling thread act as this user until told otherwise.
///
/// # Errors
/// The kernel's error; the thread then acts as nobody in particular and must try again. `EPERM` for an
/// id that nobody has: the kernel would take it for an order to change nothing, and whoever the thread was
/// before would do the caller's work.
pub fn act_as(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    if uid == NO_ID || gid == NO_ID {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    CURRENT.with_borrow_mut(|current| {
        let groups = groups.get(..groups.len().min(GROUPS_MAX)).unwrap_or_default();
        if current.is(uid, gid, groups) {
            return Ok(());
        }
        if current.started_with.is_none() {
            current.started_with = Some(own()?.groups);
        }
        // forgotten first: after a failure half way nobody may believe the old identity
        current.ids = Who::Unknown;
        current.set_groups(groups)?;
        set_fs_ids(uid, gid)?;
        current.ids = Who::User(uid, gid);
        Ok(())
    })
}

/// Whether the calling thread acts as this user now.
pub fn acts_as(uid: u32, gid: u32, groups: &[u32]) -> bool {
    CURRENT.with_borrow(|current| current.is(uid, gid, groups))
}

/// Lets the calling thread act as the process again, whoever it was: for code that does not know
/// what ran on the thread before.
///
/// # Errors
/// The kernel's error.
pub fn act_as_process() -> io::Result<()> {
    let groups = CURRENT.with_borrow(|current| current.started_with.clone());
    let Some(groups) = groups else { return Ok(()) };
    let uid = rustix::process::geteuid().as_raw();
    act_as_self(&Own { uid, gid: rustix::process::getegid().as_raw(), groups })
}

/// To be called first by a thread that may have been started by one that acts as somebody: the
/// kernel has a new thread go on as the one that started it, which nothing here remembers. `own` is
/// the process, as [`own`] gave it to a thread that acted as nobody else.
///
/// If the kernel refuses, nobody believes the thread to be anybody, and each call tries again.
pub fn begin(own: &Own) {
    if !has(Capability::SetUid) || !has(Capability::SetGid) {
        // no thread of this process acts as another
        return;
    }
    CURRENT.with_borrow_mut(|current| {
        let started_with = Some(own.groups.clone());
        *current = Current { ids: Who::Unknown, groups: None, started_with };
    });
    let _ = act_as_self(own);
}

/// Lets the calling thread act as the process again.
///
/// # Errors
/// The kernel's error.
pub fn act_as_self(own: &Own) -> io::Result<()> {
    CURRENT.with_borrow_mut(|current| {
        if current.ids == Who::Process {
            return Ok(());
        }
        current.ids = Who::Unknown;
        set_fs_ids(own.uid, own.gid)?;
        current.set_groups(&own.groups)?;
        current.ids = Who::Process;
        Ok(())
    })
}

/// In a user namespace that lacks some of the groups, as rootless containers do, the others: nothing
/// there is shown to belong to a group that it lacks.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    match set_all_groups(groups) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            static MAP: OnceLock<String> = OnceLock::new();
            let map = MAP.get_or_init(|| std::fs::read_to_string(GID_MAP).unwrap_or_default());
            let mut known = groups.to_vec();
            known.retain(|group| *group == NO_ID || maps(map, *group));
            set_all_groups(&known)
        }
        done => done,
    }
}

fn set_all_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: `groups` is valid for its length; the raw call changes the calling thread only.
    let status = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The ids of this process's user namespace.
#[derive(Debug, Clone)]
pub struct Namespace {
    users: String,
    groups: String,
}

impl Namespace {
    /// Reads them; all there are, where the kernel does not tell.
    pub fn look() -> Self {
        let all = || format!("0 0 {NO_ID}");
        let read = |path| std::fs::read_to_string(path).unwrap_or_else(|_| all());
        Self { users: read(UID_MAP), groups: read(GID_MAP) }
    }

    /// Whether there are this user and this group.
    pub fn have(&self, uid: u32, gid: u32) -> bool {
        maps(&self.users, uid) && maps(&self.groups, gid)
    }

    /// Whether there is one user only, and outside that one is not root.
    pub fn is_one_ordinary_user(&self) -> bool {
        let mut rows = rows(&self.users);
        matches!((rows.next(), rows.next()), (Some((_, outside, 1)), None) if outside != 0)
    }
}

/// The rows of an id map: first id inside, first outside, how many (user_namespaces(7)).
fn rows(map: &str) -> impl Iterator<Item = (u32, u32, u32)> {
    map.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map_while(|word| word.parse().ok());
        Some((words.next()?, words.next()?, words.next()?))
    })
}

fn maps(map: &str, id: u32) -> bool {
    rows(map).any(|(first, _, count)| id >= first && id - first < count)
}

/// Whether threads of this process can become others: root of a user namespace that an ordinary user
/// has made has the capabilities, but may not change its groups.
pub fn can_become_others() -> bool {
    if !has(Capability::SetUid) || !has(Capability::SetGid) {
        return false;
    }
    // only by trying is it seen; on a thread that ends, as it changes the calling thread
    let tried = std::thread::Builder::new().spawn(|| set_all_groups(&[]).is_ok());
    // where no thread is to be had the server does not start anyway, and says why
    tried.map_or(true, |thread| thread.join().unwrap_or(false))
}

/// Both calls give the id in force before and never an error; whether they worked is seen by asking
/// again, each time: they may fail for lack of memory, with ids that have worked before.
fn set_fs_ids(uid: u32, gid: u32) -> io::Result<()> {
    let calls = [(libc::SYS_setfsgid, gid), (libc::SYS_setfsuid, uid)];
    for (call, id) in calls {
        // SAFETY: no memory is involved.
        unsafe { libc::syscall(call, id) };
    }
    for (call, id) in calls {
        // SAFETY: no memory is involved; -1 changes nothing and gives the id in force.
        let now = unsafe { libc::syscall(call, u32::MAX) };
        if u32::try_from(now & 0xffff_ffff).ok() != Some(id) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    Ok(())
}

/// Sets the file system ids of the calling thread to those that the process has, which changes nothing where no call
/// acts as a client.
///
/// # Errors
/// They cannot be set at all: a filter of system calls refuses it.
pub fn keep_fs_ids() -> io::Result<()> {
    let own = own()?;
    set_fs_ids(own.uid, own.gid)
}

/// A capability that the server asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Give files to another user.
    Chown = 0,
    /// Override permissions: what lets root serve others' files.
    DacOverride = 1,
    /// Open files by handle.
    DacReadSearch = 2,
    /// Change the mode and the times of others' files.
    Fowner = 3,
    /// Keep set-user-ID and set-group-ID bits.
    Fsetid = 4,
    /// Change a thread's groups.
    SetGid = 6,
    /// Change a thread's user.
    SetUid = 7,
    /// Bind ports below 1024.
    NetBindService = 10,
    /// Make socket buffers larger than the sysctls allow.
    NetAdmin = 12,
    /// Ask for others' quotas, open what a mount point covers; much else besides.
    SysAdmin = 21,
    /// Ignore quotas and reserved blocks.
    SysResource = 24,
    /// Make device nodes.
    Mknod = 27,
    /// Take leases on others' files.
    Lease = 28,
}

impl Capability {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`: two sets of 32 bits.
const VERSION_3: u32 = 0x2008_0522;

fn capabilities() -> io::Result<[Data; 2]> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: header and data have the kernel's layout for version 3.
    let status = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    if status == 0 { Ok(data) } else { Err(io::Error::last_os_error()) }
}

/// Whether the calling thread has a capability now.
pub fn has(capability: Capability) -> bool {
    capabilities().is_ok_and(|[low, _]| low.effective & capability.bit() != 0)
}

/// Gives up all capabilities but these, for the calling thread and those that it starts: the `effective` ones are in
/// force, and those `on_demand` only inside of [`with`]. None comes that the process has not. How many there are then.
///
/// # Errors
/// What the kernel says.
pub(crate) fn keep_only(effective: &[Capability], on_demand: &[Capability]) -> io::Result<u32> {
    let bits = |all: &[Capability]| all.iter().fold(0, |bits, one| bits | one.bit());
    let [low, _] = capabilities()?;
    let permitted = low.permitted & (bits(effective) | bits(on_demand));
    let kept = Data { effective: permitted & bits(effective), permitted, inheritable: 0 };
    set_capabilities([kept, Data::default()])?;
    Ok(permitted.count_ones())
}

/// Runs `call` with a capability in force, if the process has kept it for such calls.
pub(crate) fn with<T>(capability: Capability, call: impl FnOnce() -> T) -> T {
    /// What the thread had before.
    struct Lower([Data; 2]);

    impl Drop for Lower {
        fn drop(&mut self) {
            // less than it has is always granted
            let _ = set_capabilities(self.0);
        }
    }

    let Ok(before) = capabilities() else { return call() };
    let [mut low, high] = before;
    let is_missing = low.effective & capability.bit() == 0;
    if !is_missing || low.permitted & capability.bit() == 0 {
        return call();
    }
    low.effective |= capability.bit();
    let _lower = set_capabilities([low, high]).is_ok().then_some(Lower(before));
    call()
}

fn set_capabilities(data: [Data; 2]) -> io::Result<()> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: header and data have the kernel's layout for version 3.
    let status = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives up `CAP_SYS_RESOURCE` for the calling thread and those that it starts, so that quotas and
/// reserved blocks hold for clients. To be called at start, after limits were raised.
///
/// # Errors
/// The kernel's error.
pub fn drop_resource_capability() -> io::Result<()> {
    let mut data = capabilities()?;
    let [low, _] = &mut data;
    low.effective &= !Capability::SysResource.bit();
    set_capabilities(data)
}

#[cfg(test)]
mod tests {
    use super::{Namespace, act_as, act_as_self, acts_as, begin, maps, own};

    #[test]
    fn uid_and_gid_maps_are_parsed() {
        let podman = "         0       1000          1\n         1     100000      65536\n";
        assert!(maps(podman, 0) && maps(podman, 65536) && !maps(podman, 65537));
        let of = |users: &str| Namespace { users: users.to_owned(), groups: podman.to_owned() };
        assert!(of(podman).have(65534, 65534) && !of("0 1000 1").have(1, 1));
        assert!(of("0 1000 1\n").is_one_ordinary_user());
        assert!(!of("0 0 1\n").is_one_ordinary_user() && !of(podman).is_one_ordinary_user());
        assert!(Namespace::look().have(0, 0) && !maps("nonsense\n", 0));
    }

    /// The fsuid and the groups of the calling thread, as the kernel has them.
    fn seen() -> (String, String) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        (line("Uid:")[3].clone(), line("Groups:").join(","))
    }

    /// A client may say that it is one of those, and the kernel then changes nothing without a word.
    #[test]
    fn acting_as_an_invalid_id_fails() {
        let process = own().unwrap();
        if process.uid != 0 {
            return testing::skip(testing::Missing::Root, "other users' identities");
        }
        act_as_self(&process).unwrap();
        for (uid, gid) in [(u32::MAX, u32::MAX), (u32::MAX, 4001), (4001, u32::MAX)] {
            for again in 0..3 {
                act_as(uid, gid, &[4100]).unwrap_err();
                assert!(!acts_as(uid, gid, &[4100]), "{uid} {gid}, {again}");
            }
        }
        // a failure half way is nobody's identity either
        act_as(4001, 4001, &[u32::MAX]).unwrap_err();
        for ids in [(u32::MAX, u32::MAX), (4001, 4001), (0, 0)] {
            assert!(!acts_as(ids.0, ids.1, &[u32::MAX]) && !acts_as(ids.0, ids.1, &[]));
        }
        act_as_self(&process).unwrap();
    }

    #[test]
    fn a_new_thread_starts_with_the_identity_of_the_process() {
        let process = own().unwrap();
        if process.uid != 0 {
            return testing::skip(testing::Missing::Root, "other users' identities");
        }
        let before = seen();
        act_as(4001, 4001, &[4100]).unwrap();
        let acting = seen();
        let (inherited, begun) = std::thread::scope(|scope| {
            let start = || {
                let inherited = seen();
                begin(&process);
                assert!(!acts_as(4001, 4001, &[4100]));
                act_as_self(&process).unwrap();
                (inherited, seen())
            };
            scope.spawn(start).join().unwrap()
        });
        act_as_self(&process).unwrap();
        assert_eq!((acting.0.as_str(), acting.1.as_str()), ("4001", "4100"));
        assert_eq!(inherited, acting, "what the kernel does with a new thread");
        assert_eq!((begun, seen()), (before.clone(), before));
    }
}
