//! The system call that a thread of this process is in, and the file that it is about, as far as `/proc` tells.
//!
//! Nothing here waits for a file system: the kernel makes a descriptor's path from what it has in memory, and a name
//! is read from this process's own memory.

pub(crate) mod names;

use crate::thread::ThreadNumber;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Longest name that is shown.
const NAME_BYTES_MAX: usize = 255;

/// A system call under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemCall {
    /// Its name, or its number.
    pub name: String,
    /// The file, or the directory and the name in it.
    pub path: Option<PathBuf>,
}

impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} of {}", self.name, path.display()),
            None => f.write_str(&self.name),
        }
    }
}

/// Where a system call has the file that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// The first argument is a descriptor.
    Descriptor,
    /// The first two are a directory's descriptor and a name in it.
    NameIn,
}

/// Where the system calls that a file system may keep waiting have their file.
const FILES: [(libc::c_long, Names); 34] = [
    (libc::SYS_openat, Names::NameIn),
    (libc::SYS_openat2, Names::NameIn),
    (libc::SYS_open_by_handle_at, Names::Descriptor),
    (libc::SYS_name_to_handle_at, Names::NameIn),
    (libc::SYS_read, Names::Descriptor),
    (libc::SYS_pread64, Names::Descriptor),
    (libc::SYS_preadv, Names::Descriptor),
    (libc::SYS_preadv2, Names::Descriptor),
    (libc::SYS_write, Names::Descriptor),
    (libc::SYS_pwrite64, Names::Descriptor),
    (libc::SYS_pwritev, Names::Descriptor),
    (libc::SYS_pwritev2, Names::Descriptor),
    (libc::SYS_fsync, Names::Descriptor),
    (libc::SYS_fdatasync, Names::Descriptor),
    (libc::SYS_syncfs, Names::Descriptor),
    (libc::SYS_fallocate, Names::Descriptor),
    (libc::SYS_ftruncate, Names::Descriptor),
    (libc::SYS_fstat, Names::Descriptor),
    (libc::SYS_statx, Names::NameIn),
    (libc::SYS_fstatfs, Names::Descriptor),
    (libc::SYS_getdents64, Names::Descriptor),
    (libc::SYS_mkdirat, Names::NameIn),
    (libc::SYS_mknodat, Names::NameIn),
    (libc::SYS_unlinkat, Names::NameIn),
    (libc::SYS_renameat2, Names::NameIn),
    (libc::SYS_readlinkat, Names::NameIn),
    (libc::SYS_utimensat, Names::Descriptor),
    (libc::SYS_fchmod, Names::Descriptor),
    (libc::SYS_fchownat, Names::NameIn),
    (libc::SYS_fgetxattr, Names::Descriptor),
    (libc::SYS_fsetxattr, Names::Descriptor),
    (libc::SYS_splice, Names::Descriptor),
    (libc::SYS_close, Names::Descriptor),
    (libc::SYS_flock, Names::Descriptor),
];

/// The system call that a thread sleeps in; `None` if it runs, has ended, or the kernel does not tell
/// (`CONFIG_HAVE_ARCH_TRACEHOOK`, a filter).
pub fn of_thread(thread: ThreadNumber) -> Option<SystemCall> {
    let file = format!("/proc/self/task/{}/syscall", thread.word());
    let before = std::fs::read_to_string(&file).ok()?;
    let call = parse(&before)?;
    // the same call still: what was read from memory belongs to it
    (std::fs::read_to_string(&file).ok()? == before).then_some(call)
}

/// The line of `/proc/PID/syscall`: the number, six arguments, two pointers.
fn parse(line: &str) -> Option<SystemCall> {
    let mut words = line.split_whitespace();
    let number: libc::c_long = words.next()?.parse().ok()?;
    let mut argument = || {
        let text = words.next()?.strip_prefix("0x")?;
        u64::from_str_radix(text, 16).ok()
    };
    let (first, second) = (argument(), argument());
    let name = names::name(number).map_or_else(|| format!("system call {number}"), str::to_owned);
    let known = FILES.iter().find(|(known, _)| *known == number);
    let path = known.and_then(|(_, names)| match names {
        Names::Descriptor => first.and_then(descriptor_path),
        Names::NameIn => {
            first.and_then(descriptor_path).map(|dir| match second.and_then(name_at) {
                Some(name) => dir.join(std::ffi::OsStr::from_bytes(&name)),
                None => dir,
            })
        }
    });
    Some(SystemCall { name, path })
}

fn descriptor_path(argument: u64) -> Option<PathBuf> {
    // a descriptor is an int: the upper half of the register may be anything
    let descriptor = i32::try_from(argument & 0xffff_ffff).ok()?;
    std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()
}

/// The bytes before the next NUL at an address of this process; `None` if they cannot be read or there are too many.
fn name_at(address: u64) -> Option<Vec<u8>> {
    let memory = File::open("/proc/self/mem").ok()?;
    let mut name = vec![0; NAME_BYTES_MAX + 1];
    let n = memory.read_at(&mut name, address).ok()?;
    name.truncate(n);
    let end = name.iter().position(|byte| *byte == 0)?;
    name.truncate(end);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::{SystemCall, of_thread, parse};
    use crate::thread::ThreadNumber;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn the_system_call_and_file_of_a_thread_are_found() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let descriptor = reader.as_raw_fd();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            tell.send(ThreadNumber::own()).unwrap();
            let _ = reader.read(&mut [0]);
        });
        let number = told.recv().unwrap();
        let begun = Instant::now();
        let call = loop {
            match of_thread(number) {
                Some(call) if call.name == "read" => break call,
                _ if begun.elapsed() > Duration::from_secs(10) => panic!("not found"),
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap();
        assert!(call.path == Some(path.clone()) && call.to_string().contains("read of pipe:["));
        drop(writer);
        thread.join().unwrap();
        assert_eq!(of_thread(number), None, "it has ended");
    }

    #[test]
    fn a_name_is_read_from_memory() {
        let name = c"some name";
        let dir = std::fs::File::open("/").unwrap();
        let line = format!(
            "{} {:#x} {:#x} 0x0 0x0 0x0 0x0 0x7f 0x7f\n",
            libc::SYS_unlinkat,
            dir.as_raw_fd(),
            name.as_ptr() as usize
        );
        assert_eq!(parse(&line).unwrap().to_string(), "unlinkat of /some name");
        assert_eq!(parse("running\n"), None);
        let sleeps = format!("{} 0x1 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f\n", libc::SYS_clock_nanosleep);
        assert_eq!(parse(&sleeps).unwrap().to_string(), "clock_nanosleep");
        let other = SystemCall { name: "system call 9999".to_owned(), path: None };
        assert_eq!(parse("9999 0x1 0x2 0x0 0x0 0x0 0x0 0x7f 0x7f\n"), Some(other));
        let bad =
            format!("{} {:#x} 0x10 0x0 0x0 0x0 0x0 0x7f 0x7f", libc::SYS_openat, dir.as_raw_fd());
        assert_eq!(parse(&bad).unwrap().to_string(), "openat of /");
    }
}
