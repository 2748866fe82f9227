//! The process's resource limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process which may choose gets: what Linux allows where nothing else is set
/// (`fs.nr_open`).
const OPEN_FILES_MAX: u64 = 1 << 20;

/// Raises the limit of open descriptors: to [`OPEN_FILES_MAX`] where the process may
/// (`CAP_SYS_RESOURCE`), else to the hard one; gives the limit in force.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: Some(OPEN_FILES_MAX), maximum: Some(OPEN_FILES_MAX) };
    if limit.maximum.is_some_and(|hard| hard < OPEN_FILES_MAX)
        && setrlimit(Resource::Nofile, most).is_ok()
    {
        return OPEN_FILES_MAX;
    }
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let raised = setrlimit(Resource::Nofile, wanted).is_ok();
    let now = if raised { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

/// The limit of open descriptors in force.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Bytes of a page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Bytes of the machine's memory; 0 if it does not tell.
pub fn memory_bytes() -> u64 {
    // SAFETY: sysconf takes a number and gives one.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(page_bytes())
}

/// Sets the soft limit of open descriptors; for tests that run out of them.
///
/// # Errors
/// What the kernel says.
pub fn set_open_files(limit: u64) -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })?)
}
