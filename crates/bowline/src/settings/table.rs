//! Every run-time setting, one row each.
//!
//! A row names the setting's type, which lives in the crate that uses the value, its default, how a new value
//! is applied to a running server, and its documentation. `--set`, the table `[set]` of the configuration,
//! `bowline set`, `bowline get`, completion and bowline-settings(7) are made from these rows.

use super::apply_tcp_buffers;
use super::audit::{AuditFile, AuditFiles, AuditSize};
use super::byte_size::{AutoOr, ByteSize, Bytes};
use super::row::settings;
use super::sandbox::Sandbox;
use super::tcp_buffers::{BufferSettings, ScopedSizes};
use super::tls::{HandshakeThreads, TlsDemand};
use crate::logging::LogLevel;
use crate::memory_shares::MemoryShares;
use crate::output::error_text;
use crate::serve::parts::ServerParts;
use export::{Delegate, IdmapDomain};
use gss::krb5::{Keytab, PrincipalsFile, Sealing};
use nfs::nsm::NsmMode;
use nfs::{CopyMode, NfsVersions, OnOff, TransferSize};
use state::{GraceSeconds, LeaseSeconds, SessionSlots};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use svc::{
    Congestion, ExportShare, KernelTlsChoice, MemoryLimit, PoolMode, ThreadRange, UdpBufferSize,
    UdpSockets, WakePolicy, ZeroCopy,
};
use sys::tcp::Side;

/// Most threads for each CPU by default; most of them wait for a disk.
const THREADS_PER_CPU: usize = 32;
/// Bounds of the default for the most threads.
const THREADS_DEFAULT: std::ops::RangeInclusive<usize> = 64..=512;

fn default_threads() -> ThreadRange {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (low, high) = THREADS_DEFAULT.into_inner();
    let wanted = (cpus * THREADS_PER_CPU).clamp(low, high).max(cpus);
    ThreadRange::nearest(cpus, MemoryShares::of_this_process().threads(wanted))
}

/// Sets the largest READ or WRITE. Mounted clients keep the size that they were offered.
fn set_transfer(setting: &AtomicU32, size: Bytes<TransferSize>, call: &str) -> Vec<String> {
    let before = setting.swap(size.0.bytes(), Relaxed);
    let note = || {
        let old = ByteSize(before.into());
        format!(
            "clients that have mounted with {old} go on sending {call}s of that size, and each transfers {size} at most"
        )
    };
    (size.0.bytes() < before).then(note).into_iter().collect()
}

/// Sets which versions are served. Clients that have mounted with one that no longer is get PROG_MISMATCH.
fn set_versions(parts: &ServerParts, versions: &NfsVersions) -> Vec<String> {
    let nfs = &parts.nfs;
    nfs.settings.set_versions(versions);
    let unannounced = parts.portmap.announce().err().map(|error| error_text(&error));
    let clients = nfs.v4.state.client_rows(nfs.clock.now()).len();
    let note = || {
        format!(
            "{clients} clients that have mounted with version 4 get errors until it is served again"
        )
    };
    let lost = (clients > 0 && versions.newest_minor().is_none()).then(note);
    unannounced.into_iter().chain(lost).collect()
}

settings! {
    threads: ThreadRange {
        key: "threads",
        values: "MIN..MAX",
        default: default_threads(),
        default_text: Some(
            "one for each CPU, up to 32 for each CPU but 64 to 512 in all, and fewer if a quarter of the \
             memory is less than 2 MiB for each"
        ),
        apply: Some(|parts, range, _| parts.change_server(|s| s.set_threads(range.min(), range.max()))),
        help: "fewest and most threads that process calls",
        manual: "All pools share the two numbers; each pool has at least one thread. A call that waits for a \
                 disk occupies its thread meanwhile. One number stands for both.",
    }
    export_threads: ExportShare {
        key: "export-threads",
        values: "PERCENT",
        default: ExportShare::DEFAULT,
        default_text: None,
        apply: Some(|parts, share, _| parts.change_server(|s| { s.set_export_share(share.percent()); Ok(()) })),
        help: "share of all threads that may be blocked in one export",
        manual: "1% to 100%. Limits the effect of a file system that does not answer to its own export: further \
                 calls for it wait, and after two seconds get NFS3ERR_JUKEBOX, so that clients try again later, \
                 while other exports are served by the remaining threads.",
    }
    pool_mode: PoolMode {
        key: "pool-mode",
        values: "auto|global|percpu|pernode",
        default: PoolMode::Auto,
        default_text: None,
        apply: Some(|parts, mode, _| parts.change_server(|s| s.set_pool_mode(*mode))),
        help: "how many pools of threads there are, and which CPUs share one",
        manual: "auto starts with one pool and adds pools, up to one for each CPU, while the load needs them; \
                 global is one pool, percpu one for each CPU, pernode one for each NUMA node with its threads \
                 bound to the node. Connections move to the new pools with everything received on them.",
    }
    wake_policy: WakePolicy {
        key: "wake-policy",
        values: "adaptive|unlimited|cap:N|chain",
        default: WakePolicy::Adaptive,
        default_text: None,
        apply: Some(|parts, policy, _| parts.change_server(|s| s.set_wake_policy(*policy))),
        help: "which threads are woken for a call",
        manual: "adaptive processes calls in the thread that receives them and promotes another thread before a \
                 call blocks. The other policies put connections that are ready into a queue, as the kernel's \
                 server does: unlimited wakes a thread for each, cap:N only while fewer than N woken threads \
                 have not run yet, chain one at a time, which wakes the next.",
    }
    udp_sockets: UdpSockets {
        key: "udp-sockets",
        values: "single|interface|cpu|interface-cpu|off",
        default: UdpSockets::Single,
        default_text: None,
        apply: Some(|parts, layout, _| parts.set_udp_sockets(*layout)),
        help: "how many UDP sockets there are on each address, if any",
        manual: "single is one for all, interface one for each network interface, cpu one for each CPU, \
                 interface-cpu one for each CPU of each interface. With off, UDP is not served and portmappers \
                 no longer announce it.",
    }
    udp_buffer: AutoOr<Bytes<UdpBufferSize>> {
        key: "udp-buffer",
        values: "auto|SIZE",
        default: AutoOr::Auto,
        default_text: None,
        apply: Some(|parts, size, _| parts.change_server(|s| s.set_udp_buffer(udp_buffer_bytes(*size)))),
        help: "size of the receive and the send buffer of each UDP socket",
        manual: "auto is what the sysctls net.core.rmem_max and wmem_max allow, up to 4M. A size is 4K to 1G.",
    }
    zero_copy: ZeroCopy {
        key: "zero-copy",
        values: "on|off|auto",
        default: ZeroCopy::Auto,
        default_text: None,
        apply: Some(|parts, choice, _| parts.change_server(|s| { s.set_zero_copy(*choice); Ok(()) })),
        help: "whether READ sends file pages without copying them, and large WRITEs are spliced through a pipe",
        manual: "auto sends file pages where that costs less than copying: larger READs over TCP. With on and \
                 auto, the data of a WRITE of more than 256 KiB moves from the socket to the file through a \
                 pipe inside the kernel; with off it is received first.",
    }
    tcp_rcvbuf: ScopedSizes {
        key: "tcp-rcvbuf",
        values: "auto|0|SIZE",
        default: ScopedSizes::default(),
        default_text: None,
        apply: Some(|parts, size, after| apply_tcp_buffers::apply(parts, Side::Receive, size, &after.buffers())),
        help: "smallest receive buffer of a connection; for some connections with tcp-rcvbuf@NETWORK or \
               tcp-rcvbuf@/EXPORT",
        manual: "auto leaves the size to the kernel; 0 restores the default. A size is 4K to 512M; the kernel may \
                 make the buffer larger. The buffers of all connections together stay below the first number of \
                 net.ipv4.tcp_mem.",
    }
    tcp_sndbuf: ScopedSizes {
        key: "tcp-sndbuf",
        values: "auto|0|SIZE",
        default: ScopedSizes::default(),
        default_text: None,
        apply: Some(|parts, size, after| apply_tcp_buffers::apply(parts, Side::Send, size, &after.buffers())),
        help: "smallest send buffer of a connection; for some connections with tcp-sndbuf@NETWORK or \
               tcp-sndbuf@/EXPORT",
        manual: "As tcp-rcvbuf.",
    }
    tcp_congestion: Congestion {
        key: "tcp-congestion",
        values: "auto|system|NAME",
        default: Congestion::Auto,
        default_text: None,
        apply: Some(|parts, name, _| parts.change_server(|s| s.set_congestion(name.clone()))),
        help: "congestion control of connections",
        manual: "system is the sysctl net.ipv4.tcp_congestion_control. auto is the same, except that clients on \
                 this machine get one that does not pace. NAME is one of \
                 net.ipv4.tcp_available_congestion_control.",
    }
    versions: NfsVersions {
        key: "versions",
        values: "2,3,4.0,4.1,4.2",
        default: NfsVersions::default(),
        default_text: None,
        apply: Some(|parts, versions, _| Ok(set_versions(parts, versions))),
        help: "versions of NFS that are served",
        manual: "A list. 4.0, 4.1 and 4.2 are served over TCP only. A client that is not told which version \
                 to use takes the newest.",
    }
    max_read: Bytes<TransferSize> {
        key: "max-read",
        values: "SIZE",
        default: Bytes(TransferSize::DEFAULT),
        default_text: None,
        apply: Some(|parts, size, _| Ok(set_transfer(&parts.nfs.settings.max_read, *size, "READ"))),
        help: "largest READ that is offered to new mounts",
        manual: "4K to 4M, in steps of 4K. Over UDP at most 60K.",
    }
    max_write: Bytes<TransferSize> {
        key: "max-write",
        values: "SIZE",
        default: Bytes(TransferSize::DEFAULT),
        default_text: None,
        apply: Some(|parts, size, _| Ok(set_transfer(&parts.nfs.settings.max_write, *size, "WRITE"))),
        help: "largest WRITE that is offered to new mounts",
        manual: "4K to 4M, in steps of 4K. Over UDP at most 60K.",
    }
    local_locks: OnOff {
        key: "local-locks",
        values: "on|off",
        default: OnOff::On,
        default_text: None,
        apply: Some(|parts, choice, _| { parts.nlm.settings.set_local_locks(*choice); Ok(Vec::new()) }),
        help: "whether locks of clients and fcntl(2) locks of programs on this machine exclude each other",
        manual: "With off, clients exclude only each other. A file that is locked keeps what held when its first \
                 lock was granted.",
    }
    grace: GraceSeconds {
        key: "grace",
        values: "SECONDS",
        default: GraceSeconds::DEFAULT,
        default_text: None,
        apply: Some(|parts, grace, _| { parts.nfs.state.set_grace_ms(grace.ms()); parts.lock_timer.wake(); Ok(Vec::new()) }),
        help: "maximum time after a restart in which clients reclaim their locks and no new locks are granted",
        manual: "1 to 600; not less than the lease, or clients that are idle learn of the restart too late. There is a \
                 grace period only if a client held something before the restart. It ends when all clients of version \
                 4.1 have said that they are done and all others have reclaimed or answered, ten seconds after the last \
                 of these has; while a client is reclaiming it goes on for up to twice the time.",
    }
    lease: LeaseSeconds {
        key: "lease",
        values: "SECONDS",
        default: LeaseSeconds::DEFAULT,
        default_text: None,
        apply: Some(|parts, lease, _| { parts.nfs.v4.state.set_lease_ms(lease.ms()); Ok(Vec::new()) }),
        help: "lease time of NFSv4 clients: after this time without a request, other clients can take a client's locks and opens",
        manual: "5 to 3600. A client whose lease is over keeps what it has until another wants it, for a day at the \
                 most. Clients learn of another lease when they mount or find the server restarted.",
    }
    session_slots: SessionSlots {
        key: "session-slots",
        values: "COUNT",
        default: SessionSlots::DEFAULT,
        default_text: None,
        apply: Some(|parts, slots, _| { parts.nfs.v4.set_session_slots(slots.count()); Ok(Vec::new()) }),
        help: "most requests that a client of version 4.1 may have in flight in a session",
        manual: "1 to 1024. A session has 64 at first, and twice as many whenever its client uses all of them. A client \
                 that has more than the setting allows is told to use fewer, and loses the others when it does. When new \
                 sessions find too few left of the 131,072 slots of all sessions, those that have grown give back what \
                 they have grown by.",
    }
    idmap_domain: IdmapDomain {
        key: "idmap-domain",
        values: "off|DOMAIN",
        default: IdmapDomain::Off,
        default_text: None,
        apply: Some(|parts, domain, _| { parts.nfs.exports.owner_names().set_domain(domain); Ok(Vec::new()) }),
        help: "domain by which NFSv4 names users and groups, instead of their numbers",
        manual: "With off, owners are numbers in both directions, as Linux clients with AUTH_SYS and the kernel's server \
                 use them. With a domain, a user or group that this machine's name services (nsswitch.conf) know is \
                 NAME@DOMAIN, others are numbers; clients may send either, and a name that is not known here is refused \
                 (NFS4ERR_BADOWNER). It must be the Domain in the idmapd.conf(5) of clients, which show users that they \
                 do not know as nobody. The calls themselves go on to carry numbers with AUTH_SYS: names do not make \
                 a user who has another number on the client the same user. Answers of the name services are used for \
                 five minutes. Clients show names that they have looked at until their own caches are empty \
                 (nfsidmap -c).",
    }
    delegations: Delegate {
        key: "delegations",
        values: "off|read|write",
        default: Delegate::Read,
        default_text: None,
        apply: Some(|parts, delegate, _| { parts.nfs.set_delegations(*delegate); Ok(Vec::new()) }),
        help: "whether clients of version 4 get delegations, which let them use cached files without revalidation, unless the export says otherwise",
        manual: "With read, a client that opens a file for reading opens it again and reads it from its cache without \
                 asking, until somebody wants to change it. Who writes to it waits until the client has returned it, \
                 for up to 40 seconds if the client does not answer, then it is taken from the client: other clients, \
                 and programs on this machine, which the server holds back by leases of the kernel (fcntl(2), \
                 F_SETLEASE). There is none on file systems whose leases count on this machine only (FUSE, NFS, SMB), \
                 for files that are open for writing, for 30 seconds after one was returned because of a change, and for \
                 a second after somebody was allowed to change it. After a restart of the server a client that has made \
                 no call yet reads its cache, while other clients and programs may change the file. \
                 Clients hear of programs on this machine that rename, remove, or change the attributes of such a file \
                 just after it has happened, within milliseconds if they answer: switch it off where such a program and a \
                 client take turns and the client must see a file that was replaced at that very moment. Switch it off \
                 also where programs on this machine must never wait for clients, or where another program uses \
                 leases. \
                 Clients that ask for delegations of directories (Linux 7.2 does) get them with read and write, where \
                 the kernel can hold programs on this machine back from a directory (Linux from 6.19 on, fcntl(2), \
                 F_SETDELEG; `bowline status` says whether it can): they list a directory and look for names in it \
                 without asking, until somebody else makes, removes or renames an entry, or changes the directory's \
                 attributes. A client's own changes of entries do not end its delegation. There is none of a directory \
                 that was changed within the last two seconds. \
                 With write, a client that opens a file for writing which nobody else has open also keeps what it writes, \
                 and its locks, to itself until somebody else wants to open, read or lock the file: \
                 the call waits until the client has returned the delegation, and so does a program on this machine \
                 that opens the file. A client that asks for the size or times is told those that the first client has, \
                 which is asked for them; if it does not answer within a tenth of a second it must return the delegation. \
                 A program on this machine that only asks for attributes does not wait, and sees what the \
                 client has sent. Clients of version 4.2 that ask for it keep the times of such a file themselves, and set them at the end. What a client has not sent when it is switched off, or when its delegation is taken from it, is lost. \
                 Clients of version 4.0 get them once the address has answered at which they want to be called back; it must \
                 be the one that they call from, and a firewall must let the server connect to it. Those that use Kerberos or \
                 TLS get none: callbacks to an address are made without. \
                 off recalls those that were granted, read those for writing.",
    }
    copy: CopyMode {
        key: "copy",
        values: "sync|async",
        default: CopyMode::Sync,
        default_text: None,
        apply: Some(|parts, mode, _| { parts.nfs.settings.set_copy(*mode); Ok(Vec::new()) }),
        help: "whether COPY of version 4.2 is answered when it is done, or goes on after it was answered",
        manual: "With sync, a COPY is answered within about a second, with what is copied by then, and the client asks for \
                 the rest. With async, one of more than 8 MiB within an export is answered at once if the client permits it, \
                 as Linux does, and goes on; the client is called back when it is done, can ask how far it is, and \
                 can cancel it; bowline ops shows it. Each export copies with two threads of its own, 8 MiB each at a time. \
                 A client has up to 16 such copies, an export 64, all exports 1,024; what goes beyond is answered as \
                 with sync. A copy stops, and the client goes on, when one of its files is closed or a reload changes \
                 the export. Linux asks for such copies of more than twice its rsize. Its older versions wait for the callback \
                 as long as the connection for callbacks is broken; newer ones ask how far the copy is. After a restart of \
                 the server, which knows no copy of before, the older ones (6.1) copy again, and the newer ones (7.2) read and \
                 write the file.",
    }
    preserve_unlinked: OnOff {
        key: "preserve-unlinked",
        values: "on|off",
        default: OnOff::Off,
        default_text: None,
        apply: Some(|parts, choice, _| { parts.nfs.settings.set_preserve_unlinked(*choice); Ok(Vec::new()) }),
        help: "whether files that NFSv4.1 clients have open outlive their last name and a restart of the server, unless the export says otherwise",
        manual: "With off, a file that is removed while a client has it open lasts until it is closed or the server ends; \
                 Linux clients therefore rename a file that one of their programs has open to .nfsXXXX \
                 instead of removing it, and remove that when it is closed. With on, OPEN of versions 4.1 and 4.2 promises \
                 (OPEN4_RESULT_PRESERVE_UNLINKED) that the file lasts through a restart of the server as well, and Linux \
                 clients remove it: its directory is empty, its space is counted until it is closed, and its link count is 0. \
                 (For a file that another replaces by a rename, Linux 6.1 goes on to make a .nfsXXXX.) \
                 To keep the promise, the server links such a file into the directory .bowline-open of the exported \
                 directory, which it makes with the first OPEN, with mode 0700 and its own user, and removes it from there \
                 when the file was closed, or when the grace period after a restart is over and no client has reclaimed it. \
                 Clients of all versions do not see that directory and cannot make one of that name; programs on this \
                 machine see it: leave it out of backups and of comparisons, and leave it alone. A link that remains there \
                 when the server is not running is removed at its next start, and the directory at a start that finds it empty. \
                 Where the directory cannot be made (a read-only file system, no permission, somebody else's directory of \
                 that name), for files of a file system or a btrfs subvolume other than that of the exported directory, \
                 and for other users' files if the server runs as an ordinary user, clients are promised nothing, and \
                 the log says once why. A file that a program on this machine removes, or whose link finds no room on a full \
                 disk, lasts as long as the server only. A client that has had a file open since before the setting was \
                 changed goes on as before.",
    }
    nsm: NsmMode {
        key: "nsm",
        values: "auto|own|statd|off",
        default: NsmMode::Auto,
        default_text: None,
        apply: Some(|parts, mode, _| parts.set_nsm(*mode)),
        help: "whether the server accepts reboot notifications from clients that hold locks, and notifies them of its own restarts",
        manual: "own needs no rpc.statd. statd is for a machine that needs rpc.statd as a client of other servers: the \
                 number of the status monitor is left to it, and it is asked, over the loopback address, to watch each \
                 client that gets a lock; clients are still told of a restart by the server itself. A client is watched \
                 by its address: of several clients behind one address that all hold locks, none loses them when one of \
                 them reboots. While rpc.statd does not answer, locks are granted, and `bowline status` says what that \
                 means. auto is statd while a running rpc.statd has the number at the port mapper, else own. With off, the locks of a client that reboots stay until it locks again and \
                 unlocks, or `bowline release`, and clients do not reclaim locks after a restart of the server unless \
                 something else tells them.",
    }
    keytab: Keytab {
        key: "keytab",
        values: "auto|off|PATH",
        default: Keytab::Auto,
        default_text: None,
        apply: Some(|parts, keytab, _| Ok(parts.kerberos.set_keytab(keytab))),
        help: "the server's keytab, for exports with sec=krb5, krb5i or krb5p",
        manual: "A file with the keys of nfs/NAME for each name by which clients know this server. auto is the file \
                 that KRB5_KTNAME names, else /etc/krb5.keytab. It is not looked at while no export names Kerberos, \
                 and read anew for each client that comes, so that new keys count at once. The library \
                 libgssapi_krb5.so.2 of the system is needed.",
    }
    principals: PrincipalsFile {
        key: "principals",
        values: "off|PATH",
        default: PrincipalsFile::Off,
        default_text: None,
        apply: Some(|parts, file, _| Ok(parts.kerberos.set_principals(file))),
        help: "a file that maps Kerberos principals to users",
        manual: "Lines of a principal, in which one * may stand for any characters, and a user's name, or - for the \
                 anonymous user. A principal that is not in the file is the user that auth_to_local of krb5.conf(5) \
                 makes of it, else the user whose name is the whole principal, else anonymous. Nobody is root but \
                 by a line of this file. It is read again by `bowline reload`; clients that have a context keep \
                 their user until they get another.",
    }
    gss_sealing: Sealing {
        key: "gss-sealing",
        values: "own|library",
        default: Sealing::Own,
        default_text: None,
        apply: Some(|parts, sealing, _| Ok(parts.kerberos.set_sealing(*sealing))),
        help: "the implementation that signs and encrypts Kerberos messages (krb5, krb5i, krb5p)",
        manual: "own signs and encrypts in place, with the session keys that the library has negotiated; library uses \
                 libgssapi_krb5, which takes several times the CPU time. Both produce the same messages. After a \
                 change clients establish their contexts anew, which they do by themselves.",
    }
    memory: Bytes<MemoryLimit> {
        key: "memory",
        values: "SIZE",
        default: Bytes(MemoryShares::of_this_process().memory()),
        default_text: Some(
            "a quarter of the memory of the machine or, if that is less, of the process's control group or address \
             space, 16M to 512M"
        ),
        apply: Some(|parts, limit, _| parts.set_memory(limit.0)),
        help: "most memory for calls that are being received and replies that clients have not taken",
        manual: "16M to 1T. Beyond it, incomplete calls cost their own connection; unread replies cost the \
                 connections that have held the most for longest. Where the process's address space is limited \
                 (RLIMIT_AS), no more than a third of what the program leaves of it is used; \
                 bowline status says how much.",
    }
    audit: AuditFile {
        key: "audit",
        values: "off|PATH",
        default: AuditFile::Off,
        default_text: None,
        apply: Some(|parts, _, after| parts.audit.apply(after).map(|()| Vec::new())),
        help: "a file that records removes, renames and attribute changes, with client and user",
        manual: "A line of JSON for each REMOVE, RMDIR, RENAME and SETATTR, also for those that fail, with client, user \
                 and path. The file is opened again by `bowline reload` and SIGHUP. No call waits for the disk: of \
                 more than 8192 records that wait for it the rest is dropped, and it is said in the file, the log and \
                 `bowline status` how many.",
    }
    audit_size: Bytes<AuditSize> {
        key: "audit-size",
        values: "SIZE",
        default: Bytes(AuditSize::DEFAULT),
        default_text: None,
        apply: Some(|parts, _, after| parts.audit.apply(after).map(|()| Vec::new())),
        help: "size at which the audit file is renamed and a new one begun",
        manual: "64K to 1T.",
    }
    audit_files: AuditFiles {
        key: "audit-files",
        values: "NUMBER",
        default: AuditFiles::default(),
        default_text: None,
        apply: Some(|parts, _, after| parts.audit.apply(after).map(|()| Vec::new())),
        help: "number of full audit files that are kept, as PATH.1, PATH.2 and so on",
        manual: "0 to 100; the oldest is removed.",
    }
    tls: TlsDemand {
        key: "tls",
        values: "allow|require",
        default: TlsDemand::Allow,
        default_text: None,
        apply: None,
        help: "whether calls without TLS are refused",
        manual: "With require, calls without TLS are refused, whatever xprtsec an export has, except NULL and the \
                 probe for TLS; so are all over UDP. Clients of version 3 then cannot mount, as they send MNT in the \
                 clear, nor lock. Needs --tls-cert.",
    }
    tls_handshake_threads: HandshakeThreads {
        key: "tls-handshake-threads",
        values: "NUMBER",
        default: HandshakeThreads::default(),
        default_text: None,
        apply: None,
        help: "number of threads for TLS handshakes",
        manual: "1 to 16. Worker threads perform no handshakes.",
    }
    ktls: KernelTlsChoice {
        key: "ktls",
        values: "auto|off",
        default: KernelTlsChoice::Auto,
        default_text: None,
        apply: Some(|parts, choice, _| parts.change_server(|s| { s.set_kernel_tls(*choice); Ok(()) })),
        help: "whether the kernel encrypts and decrypts TLS records",
        manual: "With auto the kernel takes over the connections whose cipher suite it has, after their handshakes: READ then \
                 sends file pages without copying them, as without TLS. It needs the kernel's module tls, which has to be \
                 loaded (modprobe tls); bowline status and bowline doctor tls say whether it is used and why not. A client \
                 that changes its keys, as Linux does not, is disconnected by kernels before 6.14. A change applies to new \
                 connections; auto, when it is set again, looks for the module again.",
    }
    sandbox: Sandbox {
        key: "sandbox",
        values: "auto|off",
        default: Sandbox::Auto,
        default_text: None,
        apply: None,
        help: "whether the process gives up what serving does not need before it serves",
        manual: "auto keeps the capabilities to act as clients' users, to open files by handle, to make device nodes, to \
                 bind reserved ports and to take leases, and two for single calls (buffers beyond the sysctls; quotas of \
                 others and directories that a mount covers); gives up the right to gain any by executing a file; and \
                 has the kernel refuse system calls by which a process that was taken over would reach further: \
                 executing, tracing and signals to others, mounts and namespaces, modules, clocks, io_uring, sockets \
                 other than of IP, UNIX and netlink. bowline status says what is in force. off is for the case that a \
                 library of the name service needs more.",
    }
    log_level: LogLevel {
        key: "log-level",
        values: "error|warn|info|debug|trace",
        default: LogLevel::Info,
        default_text: None,
        apply: Some(|parts, level, _| {
            parts.log.set(*level);
            Ok(Vec::new())
        }),
        help: "minimum severity of messages that are logged",
        manual: "The log goes to standard error. No level logs a line for each call.",
    }
}

impl Values {
    /// `tcp-rcvbuf` and `tcp-sndbuf`.
    pub fn buffers(&self) -> BufferSettings {
        BufferSettings { receive: self.tcp_rcvbuf.clone(), send: self.tcp_sndbuf.clone() }
    }
}

/// Bytes of each buffer of UDP sockets; `None`: as large as the sysctls allow.
pub fn udp_buffer_bytes(size: AutoOr<Bytes<UdpBufferSize>>) -> Option<usize> {
    match size {
        AutoOr::Auto => None,
        AutoOr::Value(Bytes(size)) => Some(size.bytes()),
    }
}
