//! Runs a piece of code one instruction at a time, and tells which locked instructions it executed and
//! on which addresses; for tests that hold the hot path to its promises. `x86_64` only.
//!
//! A test starts itself again as a child, which marks the piece by stopping itself before and after
//! it ([`mark`]); the parent steps from the first mark to the second. What
//! is counted is what the processor ran, not what the source seems to say. System calls are one
//! step: what the kernel does is not seen.
//!
//! Locked are instructions with a LOCK prefix, and XCHG with memory, which locks without one.
//!
//! Which lines of memory the piece wrote is found by comparing the program's writable memory before and after it. A store
//! of the value that was there is not seen; what another thread of the child stores meanwhile is taken for the piece's.

use std::collections::BTreeSet;
use std::io;

/// What was seen between two marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// Instructions.
    pub instructions: u64,
    /// Addresses that locked instructions worked on, in their order.
    pub locked: Vec<u64>,
    /// Words of eight bytes, by their addresses, that have other bytes after it than before.
    pub changed: BTreeSet<u64>,
}

/// Gives up after this many instructions: the second mark was not met.
const STEPS_MAX: u64 = 20_000_000;
/// The longest instruction.
const CODE_MAX: usize = 16;

/// Stops the calling thread for the tracer.
pub fn mark() {
    // SAFETY: a signal to the calling thread itself; stopping has no effect on its memory.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Asks the parent to trace the calling thread. To be called by the child, before its first mark.
///
/// # Errors
/// As ptrace(2): forbidden here.
pub fn be_traced() -> io::Result<()> {
    // SAFETY: PTRACE_TRACEME takes no memory.
    match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Steps the child, of this process id, from each odd mark to the next even one, and gives what was seen in between,
/// piece by piece, until it ends. There are no other children.
///
/// # Errors
/// As ptrace(2) and waitpid(2); the child failed, or went on for too long.
pub fn watch(child: u32) -> io::Result<Vec<Executed>> {
    let mut pieces = Vec::new();
    while let Some((thread, signal)) = next_stop(child)? {
        if signal == libc::SIGSTOP {
            pieces.push(step_to_mark(thread)?);
            go_on(thread, 0)?;
        } else {
            go_on(thread, signal)?;
        }
    }
    Ok(pieces)
}

/// The next thread that stopped, and why; `None` when the child has ended well.
fn next_stop(child: u32) -> io::Result<Option<(libc::pid_t, i32)>> {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        if thread < 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::WIFSTOPPED(status) {
            return Ok(Some((thread, libc::WSTOPSIG(status))));
        }
        if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
            let failed = format!("the traced program failed: status {status:#x}");
            return Err(io::Error::other(failed));
        }
        // its other threads end before it
        if u32::try_from(thread) == Ok(child) {
            return Ok(None);
        }
    }
}

fn go_on(thread: libc::pid_t, signal: i32) -> io::Result<()> {
    // SAFETY: takes no memory; the thread is stopped under our trace.
    match unsafe { libc::ptrace(libc::PTRACE_CONT, thread, 0, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(target_arch = "x86_64")]
fn step_to_mark(thread: libc::pid_t) -> io::Result<Executed> {
    let mut seen = Executed::default();
    let before = Memory::read(thread)?;
    while seen.instructions < STEPS_MAX {
        let registers = registers(thread)?;
        let code = code(thread, registers.rip)?;
        if let Some(address) = decode::locked(&code, &registers) {
            seen.locked.push(address);
        }
        // SAFETY: takes no memory; the thread is stopped under our trace.
        if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, thread, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        if unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if !libc::WIFSTOPPED(status) {
            return Err(io::Error::other("the traced program ended between two marks"));
        }
        if libc::WSTOPSIG(status) == libc::SIGSTOP {
            seen.changed = before.changed(&Memory::read(thread)?);
            return Ok(seen);
        }
        seen.instructions += 1;
    }
    Err(io::Error::other("the second mark was not met"))
}

#[cfg(not(target_arch = "x86_64"))]
fn step_to_mark(_: libc::pid_t) -> io::Result<Executed> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The memory that the traced program can write and that no file is behind, or only privately: each range and its bytes.
#[cfg(target_arch = "x86_64")]
struct Memory(Vec<(u64, Vec<u8>)>);

#[cfg(target_arch = "x86_64")]
impl Memory {
    /// Bytes that are compared at once.
    const WORD: usize = 8;

    fn read(thread: libc::pid_t) -> io::Result<Self> {
        use std::os::unix::fs::FileExt;
        let maps = std::fs::read_to_string(format!("/proc/{thread}/maps"))?;
        let memory = std::fs::File::open(format!("/proc/{thread}/mem"))?;
        let mut ranges = Vec::new();
        for line in maps.lines() {
            let mut fields = line.split(' ');
            let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
            let Some((start, end)) = range.split_once('-') else { continue };
            let address = |text| u64::from_str_radix(text, 16).map_err(io::Error::other);
            let (start, end) = (address(start)?, address(end)?);
            if rights.starts_with("rw") && rights.ends_with('p') {
                let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
                memory.read_exact_at(&mut bytes, start)?;
                ranges.push((start, bytes));
            }
        }
        Ok(Self(ranges))
    }

    /// The words that differ in the other, in ranges that both have.
    fn changed(&self, after: &Self) -> BTreeSet<u64> {
        let mut changed = BTreeSet::new();
        for (start, before) in &self.0 {
            let Some((_, after)) = after.0.iter().find(|(other, _)| other == start) else {
                continue;
            };
            let words = before.chunks(Self::WORD).zip(after.chunks(Self::WORD));
            for (at, (before, after)) in (*start..).step_by(Self::WORD).zip(words) {
                if before != after {
                    changed.insert(at);
                }
            }
        }
        changed
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn registers(thread: libc::pid_t) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all-zero bytes are valid registers: numbers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: `registers` has the kernel's layout and outlives the call.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETREGS, thread, 0, &raw mut registers) };
    if got == 0 { Ok(registers) } else { Err(io::Error::last_os_error()) }
}

/// The bytes at an address of the traced program; as many as can be read.
#[cfg(target_arch = "x86_64")]
fn code(thread: libc::pid_t, at: u64) -> io::Result<[u8; CODE_MAX]> {
    let mut code = [0; CODE_MAX];
    let local = libc::iovec { iov_base: code.as_mut_ptr().cast(), iov_len: CODE_MAX };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(usize::try_from(at).unwrap_or(0)),
        iov_len: CODE_MAX,
    };
    let got =
        // SAFETY: `local` is `code`, which has the room that it says; the kernel checks the address
        // in the other process.
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    if got > 0 { Ok(code) } else { Err(io::Error::last_os_error()) }
}

/// As much of the instruction format (Intel SDM volume 2, chapter 2) as it takes to know a locked
/// instruction and its operand.
#[cfg(target_arch = "x86_64")]
mod decode {
    use libc::user_regs_struct;

    /// The address that an instruction locks, if it does.
    pub(super) fn locked(code: &[u8], r: &user_regs_struct) -> Option<u64> {
        let (mut at, mut lock, mut base) = (0, false, 0);
        loop {
            match code.get(at)? {
                0xf0 => lock = true,
                0x64 => base = r.fs_base,
                0x65 => base = r.gs_base,
                0x26 | 0x2e | 0x36 | 0x3e | 0x66 | 0x67 | 0xf2 | 0xf3 => {}
                _ => break,
            }
            at += 1;
        }
        let mut rex = 0;
        if let Some(byte @ 0x40..=0x4f) = code.get(at) {
            rex = *byte;
            at += 1;
        }
        let opcode = *code.get(at)?;
        at += 1;
        // the lengths of what follows the operand, for addresses relative to the next instruction
        let immediate = match opcode {
            0x0f => {
                let second = *code.get(at)?;
                at += 1;
                u64::from(second == 0xba)
            }
            0x80 | 0x83 => 1,
            0x81 => 4,
            _ => 0,
        };
        let exchange = matches!(opcode, 0x86 | 0x87) && code.get(at)? >> 6 != 3;
        (lock || exchange)
            .then(|| operand(code, at, rex, r, immediate))?
            .map(|a| a.wrapping_add(base))
    }

    fn operand(
        code: &[u8],
        at: usize,
        rex: u8,
        r: &user_regs_struct,
        immediate: u64,
    ) -> Option<u64> {
        let modrm = *code.get(at)?;
        let (mode, low) = (modrm >> 6, modrm & 7);
        let mut at = at + 1;
        let mut address = if low == 4 {
            let sib = *code.get(at)?;
            at += 1;
            let index = (sib >> 3 & 7) | (rex & 2) << 2;
            let scaled =
                if index == 4 { 0 } else { register(index, r).wrapping_shl(u32::from(sib >> 6)) };
            let no_base = sib & 7 == 5 && mode == 0;
            let base = if no_base { 0 } else { register(sib & 7 | (rex & 1) << 3, r) };
            let far = if no_base { displacement(code, at, 4)? } else { 0 };
            base.wrapping_add(scaled).wrapping_add(far)
        } else if low == 5 && mode == 0 {
            let next = r.rip.wrapping_add(at as u64 + 4 + immediate);
            next.wrapping_add(displacement(code, at, 4)?)
        } else {
            register(low | (rex & 1) << 3, r)
        };
        address = match mode {
            1 => address.wrapping_add(displacement(code, at, 1)?),
            2 => address.wrapping_add(displacement(code, at, 4)?),
            _ => address,
        };
        Some(address)
    }

    fn displacement(code: &[u8], at: usize, len: usize) -> Option<u64> {
        let bytes = code.get(at..at + len)?;
        let value = match *bytes {
            [byte] => i64::from(byte.cast_signed()),
            _ => i64::from(i32::from_le_bytes(*bytes.first_chunk()?)),
        };
        Some(value.cast_unsigned())
    }

    const fn register(number: u8, r: &user_regs_struct) -> u64 {
        match number {
            0 => r.rax,
            1 => r.rcx,
            2 => r.rdx,
            3 => r.rbx,
            4 => r.rsp,
            5 => r.rbp,
            6 => r.rsi,
            7 => r.rdi,
            8 => r.r8,
            9 => r.r9,
            10 => r.r10,
            11 => r.r11,
            12 => r.r12,
            13 => r.r13,
            14 => r.r14,
            _ => r.r15,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::locked;

        #[test]
        fn locked_instructions_and_their_operands_are_known() {
            // SAFETY: all-zero bytes are valid registers.
            let mut r: libc::user_regs_struct = unsafe { std::mem::zeroed() };
            (r.rax, r.rbx, r.rcx, r.r12, r.rip, r.fs_base) =
                (0x1000, 0x20, 0x3000, 0x4000, 0x500, 0x70_0000);
            let cases: [(&[u8], Option<u64>); 9] = [
                (&[0xf0, 0x48, 0xff, 0x00], Some(0x1000)), // lock incq (%rax)
                (&[0xf0, 0x48, 0x0f, 0xc1, 0x48, 0x08], Some(0x1008)), // lock xadd %rcx,8(%rax)
                (&[0xf0, 0x0f, 0xb1, 0x1c, 0x98], Some(0x1080)), // lock cmpxchg %ebx,(%rax,%rbx,4)
                (&[0x49, 0x87, 0x04, 0x24], Some(0x4000)), // xchg %rax,(%r12)
                (&[0x48, 0x87, 0xc3], None),               // xchg %rax,%rbx
                (&[0xf0, 0xff, 0x05, 0x10, 0, 0, 0], Some(0x517)), // lock incl 16(%rip)
                (&[0xf0, 0x83, 0x05, 0x10, 0, 0, 0, 1], Some(0x518)), // lock addl $1,16(%rip)
                (&[0xf0, 0x64, 0x48, 0xff, 0x40, 0xf8], Some(0x70_0ff8)), // lock incq %fs:-8(%rax)
                (&[0x48, 0x89, 0x08], None),               // mov %rcx,(%rax)
            ];
            for (code, want) in cases {
                let mut padded = code.to_vec();
                padded.resize(16, 0x90);
                assert_eq!(locked(&padded, &r), want, "{code:x?}");
            }
        }
    }
}
