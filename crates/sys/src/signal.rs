//! Signals as a queue that one thread reads, instead of handlers that interrupt any.
//!
//! Invariant: the signals are blocked in the thread that makes the [`Signals`] and in all threads
//! that it starts afterwards, so it must be made before any other thread.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What the outside asks of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: finish and exit.
    Terminate,
    /// SIGINT: the same, from a terminal.
    Interrupt,
    /// SIGHUP: read the configuration again.
    HangUp,
    /// SIGUSR1: say how it goes.
    Report,
}

impl Signal {
    const ALL: [(libc::c_int, Self); 4] = [
        (libc::SIGTERM, Self::Terminate),
        (libc::SIGINT, Self::Interrupt),
        (libc::SIGHUP, Self::HangUp),
        (libc::SIGUSR1, Self::Report),
    ];
}

/// Signals that end a process unless it says otherwise, and are not meant to end a server. SIGUSR2 is
/// sent by habit; SIGXFSZ comes with a write beyond the largest file that the process may make
/// (`ulimit -f`), so a client could send it: without it, the write fails with EFBIG.
const IGNORED: [libc::c_int; 2] = [libc::SIGUSR2, libc::SIGXFSZ];

/// Ignores what must not end a server. Programs that it starts afterwards ignore the same.
///
/// # Errors
/// As sigaction(2), which knows these signals.
pub fn ignore_others() -> io::Result<()> {
    for number in IGNORED {
        // SAFETY: SIG_IGN is not a function, so nothing is called in a handler's place.
        if unsafe { libc::signal(number, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// SIGTERM, SIGINT, SIGHUP and SIGUSR1 of this process, one after the other.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Takes these signals over.
    ///
    /// # Errors
    /// As signalfd(2): no descriptors or no memory left.
    pub fn take_over() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set it is given, sigaddset changes an initialised one.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for (number, _) in Signal::ALL {
                libc::sigaddset(set.as_mut_ptr(), number);
            }
            set.assume_init()
        };
        // SAFETY: the set is initialised and outlives the call; the old mask is not asked for.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: the set is initialised and outlives the call; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// As read(2) on a signalfd; interruptions are waited out.
    pub fn wait(&self) -> io::Result<Signal> {
        loop {
            let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
            let size = size_of::<libc::signalfd_siginfo>();
            // SAFETY: the kernel writes at most `size` bytes to a place that is that large.
            let got = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if got < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            if usize::try_from(got) != Ok(size) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // SAFETY: the kernel has filled in all of it.
            let number = unsafe { info.assume_init() }.ssi_signo;
            let known = Signal::ALL.iter().find(|(n, _)| u32::try_from(*n) == Ok(number));
            if let Some((_, signal)) = known {
                return Ok(*signal);
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Signal, Signals};

    #[test]
    fn a_signal_is_read_instead_of_killing() {
        // A thread of its own, whose mask goes away with it; the signal is sent to it alone.
        std::thread::spawn(|| {
            let signals = Signals::take_over().unwrap();
            // SAFETY: pthread_self is this thread, which lives; SIGHUP is blocked in it.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGHUP) };
            assert_eq!(signals.wait().unwrap(), Signal::HangUp);
        })
        .join()
        .unwrap();
    }
}
