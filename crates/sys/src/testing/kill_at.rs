//! Kills a program at one of its system calls, for tests of what a crash leaves behind. The program asks to be traced
//! and marks the piece that matters ([`super::single_step`]).

use std::io;
use std::process::Child;

/// Lets a child run to its first mark, and from there past `stops` beginnings and ends of system calls, and kills
/// it. `false`: it came to its second mark before. Must be called by the thread that has started the child.
///
/// # Errors
/// As ptrace(2) and waitpid(2); the child ended by itself.
pub fn kill_at(child: &mut Child, stops: u32) -> io::Result<bool> {
    let thread = run_to_mark();
    let killed =
        thread.as_ref().map_err(|error| error.kind()).copied().map(|thread| pass(thread, stops));
    kill(child, thread.ok())?;
    killed?
}

/// Kills a child of which a thread may be traced.
pub(super) fn kill(child: &mut Child, traced: Option<libc::pid_t>) -> io::Result<()> {
    child.kill()?;
    if let Some(thread) = traced
        && u32::try_from(thread) != Ok(child.id())
    {
        // the process is not gone before whoever traces one of its threads knows that the thread is
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
    }
    child.wait().map(drop)
}

/// Runs the child to its mark; the thread that is there.
fn run_to_mark() -> io::Result<libc::pid_t> {
    loop {
        match next_stop()? {
            (thread, libc::SIGSTOP) => return Ok(thread),
            (thread, signal) => go_on(libc::PTRACE_CONT, thread, signal)?,
        }
    }
}

fn pass(thread: libc::pid_t, stops: u32) -> io::Result<bool> {
    let (mut seen, mut signal) = (0, 0);
    while seen < stops {
        go_on(libc::PTRACE_SYSCALL, thread, signal)?;
        signal = match next_stop()?.1 {
            libc::SIGSTOP => return Ok(false),
            libc::SIGTRAP => {
                seen += 1;
                0
            }
            other => other,
        };
    }
    Ok(true)
}

/// The next stop of what this thread traces, and its signal.
pub(super) fn next_stop() -> io::Result<(libc::pid_t, i32)> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    if thread < 0 {
        return Err(io::Error::last_os_error());
    }
    if !libc::WIFSTOPPED(status) {
        return Err(io::Error::other(format!("the program ended: status {status:#x}")));
    }
    Ok((thread, libc::WSTOPSIG(status)))
}

pub(super) fn go_on(request: libc::c_uint, thread: libc::pid_t, signal: i32) -> io::Result<()> {
    // SAFETY: takes no memory; the thread is stopped under our trace.
    match unsafe { libc::ptrace(request, thread, 0, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
