//! Which system calls a program makes, for tests of what a call of a client costs: the kernel's part of that is nearly all of
//! it, and cannot be measured while the machine is busy. The program asks to be traced and marks the pieces that
//! matter ([`super::single_step`]). `x86_64` only.

use super::kill_at::{go_on, kill, next_stop};
use crate::system_call::names;
use std::io;
use std::process::Child;

/// The calls of raise(3), by which a piece is marked.
const OF_MARKS: [i64; 4] =
    [libc::SYS_rt_sigprocmask, libc::SYS_getpid, libc::SYS_gettid, libc::SYS_tgkill];

/// A system call by name; one that is not known by number.
pub fn name(number: i64) -> String {
    names::name(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// Lets a child run through so many pieces, each from an odd mark to the next even one, and kills it; the numbers of the
/// system calls of each. Must be called by the thread that has started the child.
///
/// # Errors
/// As ptrace(2) and waitpid(2); the child failed.
pub fn system_calls(child: &mut Child, pieces: usize) -> io::Result<Vec<Vec<i64>>> {
    let (mut seen, mut thread) = (Vec::new(), None);
    for _ in 0..pieces {
        if let Some(stopped) = thread {
            go_on(libc::PTRACE_CONT, stopped, 0)?;
        }
        let (traced, calls) = piece()?;
        thread = Some(traced);
        seen.push(calls);
    }
    kill(child, thread)?;
    Ok(seen)
}

/// Runs to an odd mark, and then to the next one; with the thread that is traced, which is stopped there.
fn piece() -> io::Result<(libc::pid_t, Vec<i64>)> {
    let thread = loop {
        match next_stop()? {
            (thread, libc::SIGSTOP) => break thread,
            (thread, signal) => go_on(libc::PTRACE_CONT, thread, signal)?,
        }
    };
    let (mut calls, mut begins, mut signal) = (Vec::new(), true, 0);
    loop {
        go_on(libc::PTRACE_SYSCALL, thread, signal)?;
        signal = match next_stop()?.1 {
            libc::SIGSTOP => break,
            libc::SIGTRAP => {
                let number = number(thread)?;
                if begins && !OF_MARKS.contains(&number) {
                    calls.push(number);
                }
                begins = !begins;
                0
            }
            other => other,
        };
    }
    Ok((thread, calls))
}

#[cfg(target_arch = "x86_64")]
fn number(thread: libc::pid_t) -> io::Result<i64> {
    super::single_step::registers(thread).map(|registers| registers.orig_rax.cast_signed())
}

#[cfg(not(target_arch = "x86_64"))]
fn number(_: libc::pid_t) -> io::Result<i64> {
    Err(io::ErrorKind::Unsupported.into())
}
