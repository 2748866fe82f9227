//! The process's resource limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process which may choose gets: what Linux allows where nothing else is set
/// (`fs.nr_open`).
const OPEN_FILES_MAX: u64 = 1 << 20;

/// Address space that each heap but the first reserves; glibc asks for twice as much to begin with.
const HEAP_ADDRESS_BYTES: u64 = 128 << 20;
/// A heap for so much memory that the process may have.
const HEAP_SHARE_BYTES: u64 = 128 << 20;
/// The part of the memory that each heap may have to spare, and its bounds.
const SPARE_SHARE: u64 = 64;
const SPARE_BYTES_MIN: u64 = 1 << 20;
const SPARE_BYTES_MAX: u64 = 16 << 20;

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

/// Bytes of memory that this process may have: the machine's, or less where its control group or its limit of
/// address space says so; the largest number if nothing tells.
pub fn memory_bytes_max() -> u64 {
    let machine = Some(memory_bytes()).filter(|bytes| *bytes > 0);
    let limits = [machine, crate::cgroup::memory_max(), address_bytes_max()];
    limits.into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// The limit of the process's address space (RLIMIT_AS) in bytes, if it has one. Whatever is mapped counts,
/// whether it is used or not: the program, stacks, heaps.
pub fn address_bytes_max() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// Bytes of the process's address space that are mapped now; 0 if `/proc` does not tell.
pub fn address_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(page_bytes())
}

/// Has few heaps keep little that is free. By itself glibc gives nearly each thread a heap of its own, and
/// each keeps what its largest call took: with 128 threads more than all that is in use. To be called
/// before the first thread is started; other C libraries have one heap and need nothing. `bytes_max` is what
/// the process may have in all.
pub fn keep_memory_small(bytes_max: u64) {
    #[cfg(target_env = "gnu")]
    {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let fit = usize::try_from(bytes_max / HEAP_SHARE_BYTES).unwrap_or(usize::MAX);
        // where address space is limited one heap may be all that there is room for
        let most = address_bytes_max().map_or(8, |most| most / 8 / HEAP_ADDRESS_BYTES);
        let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(1, 8);
        let heaps = libc::c_int::try_from(cpus.min(fit).max(2).min(most)).unwrap_or(1);
        // Above the largest record, which would otherwise be mapped and unmapped for each call. What a heap
        // may have to spare: with 1 MiB its end is given back and asked for again all the time, and a
        // WRITE of 1 MiB costs a fifth more.
        let block_max_bytes = 8 << 20;
        let spare_bytes = (bytes_max / SPARE_SHARE).clamp(SPARE_BYTES_MIN, SPARE_BYTES_MAX);
        let spare_bytes = libc::c_int::try_from(spare_bytes).unwrap_or(libc::c_int::MAX);
        for (parameter, value) in [
            (libc::M_ARENA_MAX, heaps),
            (libc::M_TRIM_THRESHOLD, spare_bytes),
            (libc::M_MMAP_THRESHOLD, block_max_bytes),
        ] {
            // SAFETY: mallopt takes two numbers and refuses those that make no sense.
            unsafe { libc::mallopt(parameter, value) };
        }
    }
}

/// Gives all memory back to the kernel that is free in the heaps, in their middle too. Takes some
/// milliseconds where there is much, and each heap's lock for that time.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim touches only what the allocator holds as free, under its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Sets the soft limit of open descriptors; for tests that run out of them.
///
/// # Errors
/// The kernel's error.
pub fn set_open_files(limit: u64) -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum })?)
}
