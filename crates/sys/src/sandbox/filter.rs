//! The filter of system calls (seccomp(2)): those are refused that serving never makes, neither by itself nor in the
//! libraries of the name service and of Kerberos, and by which a process that was taken over would reach further.
//!
//! A system call looks for its number in a tree, so that one that is allowed passes few instructions where the kernel runs
//! them at all: since Linux 5.11 it remembers which numbers are always allowed. Calls of another architecture's numbers
//! are refused whole.

use crate::quota;
use std::io;

/// Offsets in the kernel's `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;
/// `SECCOMP_SET_MODE_FILTER`.
const SET_MODE_FILTER: libc::c_ulong = 1;
/// Does not switch on what slows a process down against speculation attacks by code that it runs for others, which the
/// server does not.
const SPEC_ALLOW: libc::c_ulong = 4;

/// The numbers of this program's system calls (linux/audit.h).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
/// From here on numbers are those of x32, a third architecture of the same name.
#[cfg(target_arch = "x86_64")]
const NUMBERS_END: u32 = 0x4000_0000;
#[cfg(target_arch = "aarch64")]
const NUMBERS_END: u32 = u32::MAX;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Refused.
    Never,
    /// As if the kernel did not have it: the C library uses an older one, whose arguments can be looked at.
    Missing,
    /// With this process as the first argument only.
    OwnProcess,
    /// With none of these bits in the first argument.
    WithoutBits(u32),
    /// With one of these numbers as the first argument.
    OneOf(&'static [u32]),
    /// With this number as the second argument, its last byte aside.
    Command(u32),
}

/// Namespaces of clone(2), and the bit of new threads' cgroups and time is not among its flags.
const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned();
/// Families of sockets that are used: by the server, and by libraries to reach their daemons and the kernel.
const FAMILIES: [u32; 4] = [
    libc::AF_UNIX.cast_unsigned(),
    libc::AF_INET.cast_unsigned(),
    libc::AF_INET6.cast_unsigned(),
    libc::AF_NETLINK.cast_unsigned(),
];

/// Calls that are looked at.
const RULES: [(libc::c_long, Rule); 62] = [
    // other programs
    (libc::SYS_execve, Rule::Never),
    (libc::SYS_execveat, Rule::Never),
    // other processes
    (libc::SYS_ptrace, Rule::Never),
    (libc::SYS_process_vm_readv, Rule::Never),
    (libc::SYS_process_vm_writev, Rule::Never),
    (libc::SYS_process_madvise, Rule::Never),
    (libc::SYS_pidfd_getfd, Rule::Never),
    (libc::SYS_pidfd_send_signal, Rule::Never),
    (libc::SYS_kcmp, Rule::Never),
    (libc::SYS_kill, Rule::OwnProcess),
    (libc::SYS_tgkill, Rule::OwnProcess),
    (libc::SYS_rt_sigqueueinfo, Rule::OwnProcess),
    (libc::SYS_rt_tgsigqueueinfo, Rule::OwnProcess),
    // namespaces and mounts
    (libc::SYS_clone, Rule::WithoutBits(NAMESPACES)),
    (libc::SYS_clone3, Rule::Missing),
    (libc::SYS_unshare, Rule::Never),
    (libc::SYS_setns, Rule::Never),
    (libc::SYS_chroot, Rule::Never),
    (libc::SYS_pivot_root, Rule::Never),
    (libc::SYS_mount, Rule::Never),
    (libc::SYS_umount2, Rule::Never),
    (libc::SYS_move_mount, Rule::Never),
    (libc::SYS_mount_setattr, Rule::Never),
    (libc::SYS_fsopen, Rule::Never),
    (libc::SYS_fsconfig, Rule::Never),
    (libc::SYS_fsmount, Rule::Never),
    (libc::SYS_fspick, Rule::Never),
    // the kernel
    (libc::SYS_init_module, Rule::Never),
    (libc::SYS_finit_module, Rule::Never),
    (libc::SYS_delete_module, Rule::Never),
    (libc::SYS_kexec_load, Rule::Never),
    (libc::SYS_reboot, Rule::Never),
    (libc::SYS_bpf, Rule::Never),
    (libc::SYS_perf_event_open, Rule::Never),
    (libc::SYS_userfaultfd, Rule::Never),
    (libc::SYS_io_uring_setup, Rule::Never),
    (libc::SYS_io_uring_enter, Rule::Never),
    (libc::SYS_io_uring_register, Rule::Never),
    (libc::SYS_fanotify_init, Rule::Never),
    (libc::SYS_add_key, Rule::Never),
    (libc::SYS_request_key, Rule::Never),
    (libc::SYS_keyctl, Rule::Never),
    (libc::SYS_syslog, Rule::Never),
    (libc::SYS_lookup_dcookie, Rule::Never),
    (libc::SYS_nfsservctl, Rule::Never),
    // the machine
    (libc::SYS_swapon, Rule::Never),
    (libc::SYS_swapoff, Rule::Never),
    (libc::SYS_acct, Rule::Never),
    (libc::SYS_quotactl, Rule::Never),
    (libc::SYS_quotactl_fd, Rule::Command(quota::GET)),
    (libc::SYS_sethostname, Rule::Never),
    (libc::SYS_setdomainname, Rule::Never),
    (libc::SYS_clock_settime, Rule::Never),
    (libc::SYS_clock_adjtime, Rule::Never),
    (libc::SYS_adjtimex, Rule::Never),
    (libc::SYS_settimeofday, Rule::Never),
    (libc::SYS_vhangup, Rule::Never),
    (libc::SYS_personality, Rule::Never),
    (libc::SYS_migrate_pages, Rule::Never),
    (libc::SYS_move_pages, Rule::Never),
    (libc::SYS_kexec_file_load, Rule::Never),
    // sockets
    (libc::SYS_socket, Rule::OneOf(&FAMILIES)),
];

type Program = Vec<libc::sock_filter>;

fn step(code: u32, jt: usize, jf: usize, k: u32) -> libc::sock_filter {
    let distance = |steps: usize| u8::try_from(steps).unwrap_or(u8::MAX);
    libc::sock_filter { code: code as u16, jt: distance(jt), jf: distance(jf), k }
}

fn load(at: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at)
}

fn end(verdict: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, 0, verdict)
}

fn refuse(errno: i32) -> libc::sock_filter {
    end(libc::SECCOMP_RET_ERRNO | errno.unsigned_abs())
}

fn allow() -> libc::sock_filter {
    end(libc::SECCOMP_RET_ALLOW)
}

/// Goes `jt` steps further if the number is `k`, else `jf`.
fn jump_if(test: u32, k: u32, jt: usize, jf: usize) -> libc::sock_filter {
    step(libc::BPF_JMP | test | libc::BPF_K, jt, jf, k)
}

impl Rule {
    /// What is done with a call of its number. Each way through it ends.
    fn steps(self, own_process: u32) -> Program {
        // the lower half of an argument, which is all of one that is an int
        let argument = |number: u32| load(ARGUMENTS_AT.saturating_add(number.saturating_mul(8)));
        match self {
            Self::Never => vec![refuse(libc::EPERM)],
            Self::Missing => vec![refuse(libc::ENOSYS)],
            Self::OwnProcess => vec![
                argument(0),
                jump_if(libc::BPF_JEQ, own_process, 0, 1),
                allow(),
                refuse(libc::EPERM),
            ],
            Self::WithoutBits(bits) => {
                vec![argument(0), jump_if(libc::BPF_JSET, bits, 0, 1), refuse(libc::EPERM), allow()]
            }
            Self::OneOf(numbers) => {
                let tests = numbers.iter().enumerate().map(|(at, number)| {
                    let to_end = numbers.len().saturating_sub(at);
                    jump_if(libc::BPF_JEQ, *number, to_end, 0)
                });
                let mut steps: Program = std::iter::once(argument(0)).chain(tests).collect();
                steps.extend([refuse(libc::EAFNOSUPPORT), allow()]);
                steps
            }
            Self::Command(command) => vec![
                argument(1),
                step(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 8),
                jump_if(libc::BPF_JEQ, command, 0, 1),
                allow(),
                refuse(libc::EPERM),
            ],
        }
    }
}

/// Looks for the number that is loaded; `rules` are in order.
fn tree(rules: &[(u32, Rule)], own_process: u32) -> Program {
    let half = rules.len() / 2;
    match rules {
        [] => vec![allow()],
        [(number, rule)] => {
            let found = rule.steps(own_process);
            let mut steps = vec![jump_if(libc::BPF_JEQ, *number, 0, found.len())];
            steps.extend(found);
            steps.push(allow());
            steps
        }
        _ => {
            let (low, high) = rules.split_at(half);
            let first = high.first().map_or(u32::MAX, |(number, _)| *number);
            let below = tree(low, own_process);
            let mut steps = Program::new();
            // further than a conditional jump goes
            steps.push(jump_if(libc::BPF_JGE, first, 0, 1));
            let distance = u32::try_from(below.len()).unwrap_or(u32::MAX);
            steps.push(step(libc::BPF_JMP | libc::BPF_JA, 0, 0, distance));
            steps.extend(below);
            steps.extend(tree(high, own_process));
            steps
        }
    }
}

/// The whole filter.
fn program(own_process: u32) -> Program {
    let mut rules: Vec<(u32, Rule)> =
        RULES.iter().filter_map(|(call, rule)| Some((u32::try_from(*call).ok()?, *rule))).collect();
    rules.sort_unstable_by_key(|(number, _)| *number);
    let mut steps = vec![
        load(ARCHITECTURE_AT),
        jump_if(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        refuse(libc::ENOSYS),
        load(NUMBER_AT),
        jump_if(libc::BPF_JGE, NUMBERS_END, 0, 1),
        refuse(libc::ENOSYS),
    ];
    steps.extend(tree(&rules, own_process));
    steps
}

/// Puts the filter on the calling thread, which may gain no privileges any more; how many calls it looks at.
///
/// # Errors
/// As seccomp(2): the kernel has no filters, or one that is there already refuses it.
pub fn install() -> io::Result<usize> {
    let mut steps = program(std::process::id());
    let len = libc::c_ushort::try_from(steps.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    // SAFETY: SECCOMP_SET_MODE_FILTER takes a sock_fprog, whose pointer leads to as many instructions as it says; the
    // kernel copies them.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, SPEC_ALLOW, &raw const program)
    };
    if done == 0 { Ok(RULES.len()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::{ARCHITECTURE, NUMBERS_END, RULES, Rule, program};

    const OWN: u32 = 4711;

    /// What becomes of a call, as the kernel would run the filter; and how many steps that took.
    fn run(architecture: u32, number: u32, args: [u64; 2]) -> (u32, usize) {
        let mut data = vec![number, architecture, 0, 0];
        data.extend(args.iter().flat_map(|arg| [*arg as u32, (*arg >> 32) as u32]));
        let (steps, mut at, mut word, mut count) = (program(OWN), 0, 0_u32, 0);
        loop {
            let now = steps[at];
            at += 1;
            count += 1;
            let code = u32::from(now.code);
            let test = |holds: bool| usize::from(if holds { now.jt } else { now.jf });
            match code {
                c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    word = data[now.k as usize / 4];
                }
                c if c == libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K => word >>= now.k,
                c if c == libc::BPF_JMP | libc::BPF_JA => at += now.k as usize,
                c if c == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += test(word == now.k),
                c if c == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => at += test(word >= now.k),
                c if c == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => {
                    at += test(word & now.k != 0);
                }
                c if c == libc::BPF_RET | libc::BPF_K => return (now.k, count),
                other => panic!("{other:#x}"),
            }
        }
    }

    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
    const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

    fn verdict(number: libc::c_long, args: [u64; 2]) -> u32 {
        run(ARCHITECTURE, u32::try_from(number).unwrap(), args).0
    }

    #[test]
    fn calls_are_allowed_but_for_those_in_the_table() {
        for number in 0..600 {
            let rule = RULES.iter().find(|(call, _)| *call == number);
            let (found, steps) = run(ARCHITECTURE, u32::try_from(number).unwrap(), [0, 0]);
            assert_eq!(found == ALLOWED, rule.is_none_or(|r| matches!(r.1, Rule::WithoutBits(_))));
            assert!(rule.is_some() || steps < 25, "{number}: {steps} steps");
        }
        let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        assert_eq!(run(0x4000_0003, 3, [0, 0]).0, missing, "32 bits");
        assert_eq!(run(ARCHITECTURE, NUMBERS_END, [0, 0]).0, missing);
    }

    #[test]
    fn arguments_are_looked_at() {
        let own = u64::from(OWN);
        assert_eq!(verdict(libc::SYS_kill, [own, 9]), ALLOWED);
        assert_eq!(verdict(libc::SYS_kill, [own + 1, 0]), REFUSED);
        assert_eq!(verdict(libc::SYS_tgkill, [1, own]), REFUSED);
        let threads = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
        assert_eq!(verdict(libc::SYS_clone, [threads as u64, 0]), ALLOWED);
        assert_eq!(verdict(libc::SYS_clone, [libc::CLONE_NEWNET as u64, 0]), REFUSED);
        assert_eq!(verdict(libc::SYS_socket, [libc::AF_INET6 as u64, 1]), ALLOWED);
        assert_eq!(verdict(libc::SYS_socket, [libc::AF_UNIX as u64, 1]), ALLOWED);
        let unknown = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
        assert_eq!(verdict(libc::SYS_socket, [libc::AF_ALG as u64, 1]), unknown);
        for kind in 0..3 {
            assert_eq!(verdict(libc::SYS_quotactl_fd, [3, 0x80_0007 << 8 | kind]), ALLOWED);
            assert_eq!(verdict(libc::SYS_quotactl_fd, [3, 0x80_0008 << 8 | kind]), REFUSED);
        }
    }
}
