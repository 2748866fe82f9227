//! More files open at once than the server may have descriptors: each is used, also after its last name has gone.
//! `OPENS=1000000 DESCRIPTORS=65536 WITHIN=/a/disk` for as many as a server has room for; `REMOVED_ONE_IN` says
//! how many files lose their name, each of which costs a descriptor.

use crate::lock_recovery::alone;
use crate::many_lock_hosts::{count, cpu_ms, memory_kib};
use crate::rig::{Server, wrap};
use client::nfs4::{Operations, Session, results_inside, succeeded};
use client::{Client, Identity, Reply};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CloseArgs, Createhow4, Fattr4, Nfsstat4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4,
    ReadArgs, StableHow4, Stateid4, WriteArgs, op,
};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Files that are open, and descriptors of the server, unless `OPENS` and `DESCRIPTORS` say otherwise.
const OPENS: u32 = 6_000;
const DESCRIPTORS: u32 = 2_048;
/// Opens of a client: those with more get none when room is scarce.
const EACH: u32 = 4_000;
/// Of so many files one loses its name while it is open, unless `REMOVED_ONE_IN` says otherwise.
const REMOVED_ONE_IN: u32 = 5;
/// Files of a directory.
const DIRECTORY: u32 = 10_000;
const PATIENCE: Duration = Duration::from_secs(120);
const BOTH: u32 = 3;

/// An open file.
struct Opened {
    number: u32,
    handle: Vec<u8>,
    stateid: Stateid4,
}

/// A client with its opens.
struct Machine {
    client: Client,
    session: Session,
    opened: Vec<Opened>,
}

/// The names of the directory and of the file of a number.
fn names(number: u32) -> (String, String) {
    (format!("d{}", number / DIRECTORY), format!("f{number}"))
}

impl Machine {
    fn new(port: u16, number: u32) -> Self {
        let mut client = Client::tcp(([127, 0, 0, 1], port).into(), PATIENCE).unwrap();
        client.set_identity(Some(Identity::new(65_534, 65_534)));
        let session = client.open_session(format!("machine {number}").as_bytes(), 4).unwrap();
        Self { client, session, opened: Vec::new() }
    }

    /// Opens a new file and writes its number to it.
    fn open(&mut self, number: u32) {
        let (dir, file) = names(number);
        let attrs = Fattr4 { mask: Bitmap4::NONE, values: Bytes(b"") };
        let args = OpenArgs {
            seqid: 0,
            share_access: BOTH,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(b"owner") },
            how: OpenHow4::Create(Createhow4::Unchecked(attrs)),
            claim: OpenClaim4::Null(Bytes(file.as_bytes())),
        };
        let data = number.to_be_bytes();
        let write = WriteArgs {
            stateid: Stateid4::CURRENT,
            offset: 0,
            stable: StableHow4::Unstable,
            data: Bytes(&data),
        };
        let operations = Operations::new()
            .bare(op::PUTROOTFH)
            .with(op::LOOKUP, &Bytes::<255>(dir.as_bytes()))
            .with(op::OPEN, &args)
            .bare(op::GETFH)
            .with(op::WRITE, &write);
        let reply = self.client.compound(&mut self.session, &operations).unwrap();
        let mut r = results_inside(&reply).unwrap_or_else(|error| panic!("file {number}: {error}"));
        succeeded(&mut r, op::PUTROOTFH).unwrap();
        succeeded(&mut r, op::LOOKUP).unwrap();
        succeeded(&mut r, op::OPEN).unwrap();
        let stateid = r.get().unwrap();
        // change_info4, flags, no attributes, no delegation
        r.opaque_fixed(24).unwrap();
        let _set: Bitmap4 = r.get().unwrap();
        r.u32().unwrap();
        succeeded(&mut r, op::GETFH).unwrap();
        let handle = r.opaque(128).unwrap().to_vec();
        self.opened.push(Opened { number, handle, stateid });
    }

    /// Takes the name of a file away, and reads what was written to it.
    fn check(&mut self, at: usize, removed_one_in: u32) {
        let Opened { number, handle, stateid } = &self.opened[at];
        let (dir, file) = names(*number);
        if number % removed_one_in == 0 {
            let remove = Operations::new()
                .bare(op::PUTROOTFH)
                .with(op::LOOKUP, &Bytes::<255>(dir.as_bytes()))
                .with(op::REMOVE, &Bytes::<255>(file.as_bytes()));
            run(&mut self.client, &mut self.session, &remove);
        }
        let read = ReadArgs { stateid: *stateid, offset: 0, count: 16 };
        let read = Operations::new().at(handle).with(op::READ, &read);
        let reply = run(&mut self.client, &mut self.session, &read);
        // eof, and four bytes
        let end = [[0, 0, 0, 1], [0, 0, 0, 4], number.to_be_bytes()].concat();
        assert!(reply.body().ends_with(&end), "file {number}");
    }

    fn close(&mut self, at: usize) {
        let Opened { number, handle, stateid } = &self.opened[at];
        let close = CloseArgs { seqid: 0, stateid: *stateid };
        let operations = Operations::new().at(handle).with(op::CLOSE, &close);
        let reply = self.client.compound(&mut self.session, &operations).unwrap();
        let status: Nfsstat4 = xdr::Reader::new(reply.body()).get().unwrap();
        assert_eq!(status, Nfsstat4::Ok, "file {number}");
    }
}

/// Runs operations, again while the server has them come back later: threads that are off their CPU for long may keep
/// descriptors that another one needs.
fn run(client: &mut Client, session: &mut Session, operations: &Operations) -> Reply {
    let begun = Instant::now();
    loop {
        let reply = client.compound(session, operations).unwrap();
        let status: Nfsstat4 = xdr::Reader::new(reply.body()).get().unwrap();
        if status != Nfsstat4::Delay || begun.elapsed() > PATIENCE {
            assert_eq!(status, Nfsstat4::Ok);
            return reply;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Each client does something with each of its files; two clients at the same time.
fn all(machines: &mut [Machine], act: impl Fn(&mut Machine, usize) + Sync) {
    let half = machines.len().div_ceil(2);
    std::thread::scope(|scope| {
        for part in machines.chunks_mut(half) {
            scope.spawn(|| {
                for machine in part {
                    (0..machine.opened.len()).for_each(|at| act(machine, at));
                }
            });
        }
    });
}

#[test]
fn more_files_are_open_than_there_are_descriptors() {
    let (opens, most) = (count("OPENS", OPENS), count("DESCRIPTORS", DESCRIPTORS));
    let removed_one_in = count("REMOVED_ONE_IN", REMOVED_ONE_IN);
    alone(move || {
        let within = std::env::var("WITHIN").unwrap_or_else(|_| "/dev/shm".to_owned());
        let base = tempfile::tempdir_in(within).unwrap();
        let served = base.path().join("served");
        std::fs::create_dir(&served).unwrap();
        for path in [base.path(), &served] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        for number in (0..opens).step_by(DIRECTORY as usize) {
            let dir = served.join(names(number).0);
            std::fs::create_dir(&dir).unwrap();
            std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let exports = base.path().join("exports");
        let options = "rw,insecure,async,fsid=0";
        std::fs::write(&exports, format!("{} *({options})\n", served.display())).unwrap();
        let limit = format!("--nofile={most}:{most}");
        // a client that waits for its turn is not silent for too long
        let args = ["--exports", exports.to_str().unwrap(), "--set", "lease=3600"];
        let server = Server::start_with(&args, |command| wrap(command, &["prlimit", &limit]));
        let pid = server.child.id();
        let (begun, before, cpu) = (Instant::now(), memory_kib(pid), cpu_ms(pid));
        let count = opens.div_ceil(EACH);
        let mut machines: Vec<Machine> =
            (0..count).map(|number| Machine::new(server.port, number)).collect();
        for (number, machine) in (0..).zip(&mut machines) {
            (number * EACH..opens.min((number + 1) * EACH)).for_each(|file| machine.open(file));
        }
        let each = (memory_kib(pid) - before) * 1024 / i64::from(opens);
        let (took, cpu) = (begun.elapsed().as_secs_f64(), cpu_ms(pid) - cpu);
        let used = descriptors(pid);
        println!(
            "{opens} files open with {used} of {most} descriptors: {each} bytes of memory for each, \
             {took:.1} s, {cpu} ms of processor time"
        );
        assert!(used < most as usize);
        all(&mut machines, |machine, at| machine.check(at, removed_one_in));
        println!(
            "{} descriptors after {} names have gone",
            descriptors(pid),
            opens / removed_one_in
        );
        assert!(descriptors(pid) < most as usize);
        all(&mut machines, Machine::close);
        assert!(server.json("opens").as_array().unwrap().is_empty());
    });
}
