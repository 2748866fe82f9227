//! Child processes that do not outlive their parent.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel kill the process that `command` starts when the *thread* that starts it ends, by
/// whatever way: SIGKILL of the parent included. The thread must therefore live as long as the
/// child should.
pub fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only two system calls are made (prctl, getppid); nothing
    // allocates, locks or touches memory that another thread may have left half written.
    unsafe {
        command.pre_exec(move || {
            let signal = rustix::process::Signal::KILL;
            rustix::process::set_parent_process_death_signal(Some(signal))?;
            // the parent may have died before the line above
            if rustix::process::getppid() != Some(parent) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        });
    }
}

/// A signal that ends a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// SIGTERM: finish and exit.
    Terminate,
    /// SIGINT: as Ctrl-C.
    Interrupt,
    /// SIGKILL: at once.
    Kill,
}

/// Sends a signal to a process; one that no longer exists is not an error. The caller must know that the
/// number still is that of the process it means: its own child that it has not waited for.
///
/// # Errors
/// As kill(2): it is another user's.
pub fn end(pid: u32, how: Ending) -> io::Result<()> {
    let signal = match how {
        Ending::Terminate => rustix::process::Signal::TERM,
        Ending::Interrupt => rustix::process::Signal::INT,
        Ending::Kill => rustix::process::Signal::KILL,
    };
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let Some(pid) = pid else { return Err(io::ErrorKind::InvalidInput.into()) };
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a process of this number exists, a dead one that nobody has waited for included.
pub fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::{Ending, die_with_parent, end, exists};
    use std::process::Command;

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let started = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("100");
            die_with_parent(&mut command);
            command.spawn().unwrap()
        });
        let mut child = started.join().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_process_is_terminated_and_no_longer_exists() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        assert!(exists(child.id()));
        end(child.id(), Ending::Terminate).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!exists(child.id()));
        assert!(end(0, Ending::Kill).is_err());
    }
}
