//! A restart under many clients of version 4.1 at once that have a file open and reclaim it: what the server spends on
//! each, over plain TCP and over TLS. `CLIENTS=10000` for more.

use crate::lock_recovery::alone;
use crate::many_lock_hosts::{count, cpu_ms, memory_kib};
use crate::rig::channel::Channel;
use crate::rig::{NOBODY, Server};
use client::nfs4::{Operations, Session, results_inside, succeeded};
use client::{Client, Identity};
use proto::layout::Bytes;
use proto::nfs4::{Bitmap4, Createhow4, Fattr4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4, op};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections that the clients share: as those of a few machines that pass on the calls of many.
const CONNECTIONS: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(60);

fn open_args<'a>(how: OpenHow4<'a>, claim: OpenClaim4<'a>) -> OpenArgs<'a> {
    let owner = OpenOwner4 { clientid: 0, owner: Bytes(b"owner") };
    OpenArgs { seqid: 0, share_access: 1, share_deny: 0, owner, how, claim }
}

/// Opens the file by its name, which makes it; its handle.
fn open(client: &mut Client, session: &mut Session) -> Vec<u8> {
    let attrs = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };
    let how = OpenHow4::Create(Createhow4::Unchecked(attrs));
    let operations = Operations::new()
        .bare(op::PUTROOTFH)
        .with(op::OPEN, &open_args(how, OpenClaim4::Null(Bytes(b"file"))))
        .bare(op::GETFH);
    let reply = client.compound(session, &operations).unwrap();
    let mut r = results_inside(&reply).unwrap();
    succeeded(&mut r, op::PUTROOTFH).unwrap();
    succeeded(&mut r, op::OPEN).unwrap();
    // stateid, change_info4, flags, no attributes, no delegation
    r.opaque_fixed(16 + 20 + 4).unwrap();
    let _set: Bitmap4 = r.get().unwrap();
    r.u32().unwrap();
    succeeded(&mut r, op::GETFH).unwrap();
    r.opaque(128).unwrap().to_vec()
}

fn connected(server: &Server, channel: &Channel) -> Client {
    let mut client = channel.connect(([127, 0, 0, 1], server.port).into(), PATIENCE).unwrap();
    client.set_identity(Some(Identity::new(NOBODY, NOBODY)));
    client
}

/// Has all clients do something, those of each connection one after the other; the connections at the same time.
fn all(
    (server, channel): (&Server, &Channel),
    clients: u32,
    act: impl Fn(&mut Client, &[u8]) + Sync,
) {
    std::thread::scope(|scope| {
        for first in 0..CONNECTIONS {
            let act = &act;
            scope.spawn(move || {
                let mut client = connected(server, channel);
                for number in (first..clients).step_by(CONNECTIONS as usize) {
                    act(&mut client, format!("machine {number}").as_bytes());
                }
            });
        }
    });
}

/// What the server's log says of the end of the grace period.
fn grace_ended(log: &Path) -> String {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).unwrap();
        if let Some(line) = text.lines().find(|line| line.contains("grace period: over")) {
            return line.to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing of it in {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn many_clients_reclaim_at_once_after_a_restart() {
    reclaim_at_once(Channel::Plain, count("CLIENTS", 500));
}

#[test]
fn many_clients_reclaim_at_once_over_tls_after_a_restart() {
    reclaim_at_once(Channel::tls(), count("CLIENTS", 100));
}

fn reclaim_at_once(channel: Channel, clients: u32) {
    alone(move || {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut args = channel.options();
        let exports = dir.path().join("exports");
        let options = format!("rw,insecure,fsid=0{}", channel.demanded());
        std::fs::write(&exports, format!("{} *({options})\n", dir.path().display())).unwrap();
        args.extend(["--exports".to_owned(), exports.display().to_string()]);
        let log = tempfile::NamedTempFile::new().unwrap();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let mut server = Server::start_with(&args, |command| {
            command.stderr(log.reopen().unwrap());
        });
        let mut first = connected(&server, &channel);
        let mut session = first.open_session(b"first", 4).unwrap();
        let handle = open(&mut first, &mut session);
        first.destroy_session(&session).unwrap();
        let before = memory_kib(server.child.id());
        let begun = Instant::now();
        all((&server, &channel), clients, |client, name| {
            let mut session = client.open_session(name, 64).unwrap();
            open(client, &mut session);
        });
        let each = (memory_kib(server.child.id()) - before) * 1024 / i64::from(clients);
        println!(
            "{clients} clients with a session and an open: {each} bytes of memory for each, {:.1} s",
            begun.elapsed().as_secs_f64()
        );
        server.kill();
        server.start_again();
        let pid = server.child.id();
        let (begun, cpu) = (Instant::now(), cpu_ms(pid));
        all((&server, &channel), clients, |client, name| {
            let mut session = client.open_reading_session(1, name, 64).unwrap();
            let claim = open_args(OpenHow4::NoCreate, OpenClaim4::Previous(0));
            let operations = Operations::new().at(&handle).with(op::OPEN, &claim);
            results_inside(&client.compound(&mut session, &operations).unwrap()).unwrap();
            let done = Operations::new().with(op::RECLAIM_COMPLETE, &false);
            results_inside(&client.compound(&mut session, &done).unwrap()).unwrap();
        });
        let (took, cpu) = (begun.elapsed(), cpu_ms(pid) - cpu);
        println!(
            "{clients} clients reclaimed in {:.1} s and {cpu} ms of processor time",
            took.as_secs_f64()
        );
        assert_eq!(server.json("opens").as_array().unwrap().len(), clients as usize);
        // the client that is not back has closed nothing: the grace period waits for it and for nobody else
        let mut first = connected(&server, &channel);
        let session = first.open_session(b"first", 4);
        let mut session = session.unwrap();
        open(&mut first, &mut session);
        let ended = grace_ended(log.path());
        let told = format!(
            "of {} clients {clients} were seen to reclaim something, and 0 did not",
            clients + 1
        );
        assert!(ended.contains(&told), "also those that came back just before the end: {ended}");
        let used = server.json("sessions");
        let slots = used.as_array().unwrap().iter().map(|row| row["slots"].as_u64().unwrap());
        assert!(slots.clone().min() >= Some(4), "no client is left with a single slot");
    });
}
