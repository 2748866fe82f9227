//! A client of version 4.0 with a program for callbacks: a listener of its own, which answers as it is told.

use crate::callbacks::connected;
use crate::rig::Server;
use client::nfs4::{CALLBACK_PROGRAM, Operations, results, succeeded};
use client::{Client, Reply};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CbCompoundHead, ClientAddr4, Nfsstat4, OpenArgs, OpenClaim4, OpenConfirmArgs,
    OpenHow4, OpenOwner4, RenewArgs, SetclientidArgs, SetclientidConfirmArgs, Stateid4, op,
};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use xdr::{Reader, Writer};

/// A limit on waiting that keeps a failure from hanging.
const PATIENCE: Duration = Duration::from_secs(60);
/// `callback_ident`.
pub const IDENT: u32 = 77;
const OWNER: &[u8] = b"owner";

/// How callbacks are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// CB_NULL, and operations with these results.
    Ok(Vec<u8>),
    /// The operation fails so.
    Failed(u32),
    /// By what is no answer to the operation.
    Garbage,
    /// After so long.
    Late(Duration),
    /// Not at all.
    Silence,
    /// The connection is closed.
    HangUp,
}

/// A callback that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    pub program: u32,
    /// The flavour of the credential, and the user in it.
    pub flavor: u32,
    pub uid: Option<u32>,
    /// Minor version, `callback_ident` and count of a CB_COMPOUND; `None`: CB_NULL.
    pub head: Option<(u32, u32, u32)>,
    pub operation: u32,
    pub args: Vec<u8>,
}

/// The client's callback program.
pub struct Listener {
    pub port: u16,
    answer: Arc<Mutex<Answer>>,
    seen: Receiver<Called>,
}

impl Listener {
    pub fn new(answer: Answer) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(Mutex::new(answer));
        let (sender, seen) = channel();
        let how = Arc::clone(&answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (how, sender) = (Arc::clone(&how), sender.clone());
                std::thread::spawn(move || drop(serve(&mut stream.unwrap(), &how, &sender)));
            }
        });
        Self { port, answer, seen }
    }

    pub fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// The next callback, CB_NULL included.
    pub fn next(&self) -> Called {
        self.seen.recv_timeout(PATIENCE).expect("a callback")
    }

    /// The next callback with an operation.
    pub fn next_operation(&self) -> Called {
        loop {
            let called = self.next();
            if called.head.is_some() {
                return called;
            }
        }
    }
}

fn serve(stream: &mut TcpStream, how: &Mutex<Answer>, seen: &Sender<Called>) -> io::Result<()> {
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut record)?;
        let (xid, called) = decode(&record).unwrap();
        let answer = how.lock().unwrap().clone();
        drop(seen.send(called.clone()));
        match &answer {
            Answer::Silence => continue,
            Answer::HangUp => return Ok(()),
            Answer::Late(time) => std::thread::sleep(*time),
            Answer::Ok(_) | Answer::Failed(_) | Answer::Garbage => {}
        }
        let reply = encode(xid, &called, &answer);
        let mark = 0x8000_0000 | u32::try_from(reply.len()).unwrap();
        stream.write_all(&[&mark.to_be_bytes()[..], &reply].concat())?;
    }
}

fn decode(record: &[u8]) -> Result<(u32, Called), xdr::Error> {
    let mut r = Reader::new(record);
    let [xid, _call, _rpc_version, program, _version, number, flavor] = r.words()?;
    let mut credential = Reader::new(r.opaque(400)?);
    let mut uid = None;
    if flavor == 1 {
        let _stamp = credential.u32()?;
        credential.opaque(255)?;
        uid = Some(credential.u32()?);
    }
    let _verifier = r.u32()?;
    r.opaque(400)?;
    let mut called =
        Called { program, flavor, uid, head: None, operation: 0, args: r.rest().to_vec() };
    if number == 1 {
        let head: CbCompoundHead<'_> = r.get()?;
        called.head = Some((head.minor, head.ident, head.count));
        called.operation = r.u32()?;
        called.args = r.rest().to_vec();
    }
    Ok((xid, called))
}

fn encode(xid: u32, called: &Called, answer: &Answer) -> Vec<u8> {
    let mut w = Writer::new();
    // accepted, with a verifier of AUTH_NONE
    w.words([xid, 1, 0, 0, 0, 0]);
    if called.head.is_some() {
        let (status, results) = match answer {
            Answer::Ok(results) => (0, &results[..]),
            Answer::Failed(status) => (*status, &[][..]),
            Answer::Garbage => return [w.bytes(), &[9; 12]].concat(),
            _ => (0, &[][..]),
        };
        w.words([status, 0, 1, called.operation, status]);
        w.raw(results);
    }
    w.bytes().to_vec()
}

/// A client of version 4.0 with an open owner.
pub struct Machine {
    pub client: Client,
    pub id: u64,
    pub listener: Listener,
    name: Vec<u8>,
    seqid: u32,
}

/// What OPEN gave.
pub struct Opened {
    pub handle: Vec<u8>,
    pub open: Stateid4,
    /// `OPEN_DELEGATE_*`.
    pub kind: u32,
    pub delegation: Option<Stateid4>,
    /// The delegation is to be returned at once.
    pub recalled: bool,
}

fn status(reply: &Reply) -> Nfsstat4 {
    Reader::new(reply.body()).get().unwrap()
}

impl Machine {
    /// A client whose callbacks are answered so, with a confirmed open owner that has `confirm` open.
    pub fn new(server: &Server, name: &[u8], answer: Answer) -> Self {
        let (client, listener) = (connected(server), Listener::new(answer));
        let mut machine = Self { client, id: 0, listener, name: name.into(), seqid: 0 };
        machine.make_known();
        machine.confirm();
        machine
    }

    /// SETCLIENTID and its confirmation, with the port of the listener.
    pub fn make_known(&mut self) {
        let port = self.listener.port;
        let addr = format!("127.0.0.1.{}.{}", port >> 8, port & 0xff);
        let args = SetclientidArgs {
            verifier: [1; 8],
            id: Bytes(&self.name),
            cb_program: CALLBACK_PROGRAM,
            cb_location: ClientAddr4 { netid: Bytes(b"tcp"), addr: Bytes(addr.as_bytes()) },
            callback_ident: IDENT,
        };
        let reply = self.call(&Operations::new().with(op::SETCLIENTID, &args));
        let mut r = results(&reply).unwrap();
        succeeded(&mut r, op::SETCLIENTID).unwrap();
        let (clientid, confirm) = (r.u64().unwrap(), r.array().unwrap());
        let args = SetclientidConfirmArgs { clientid, confirm };
        let reply = self.call(&Operations::new().with(op::SETCLIENTID_CONFIRM, &args));
        assert_eq!(status(&reply), Nfsstat4::Ok);
        self.id = clientid;
    }

    /// The owner's first OPEN, which is to be confirmed, of a file that is closed again.
    fn confirm(&mut self) {
        let opened = self.open(1, OpenClaim4::Null(Bytes(b"confirm"))).unwrap();
        assert_eq!(opened.delegation, None, "not confirmed");
        let args = OpenConfirmArgs { stateid: opened.open, seqid: self.next_seqid() };
        assert_eq!(self.at(&opened.handle, op::OPEN_CONFIRM, &args), Nfsstat4::Ok);
    }

    pub fn call(&mut self, operations: &Operations) -> Reply {
        self.client.compound_alone(0, operations).unwrap()
    }

    /// The status of an operation on a file.
    pub fn at(
        &mut self,
        handle: &[u8],
        number: u32,
        args: &(impl xdr::Encode + ?Sized),
    ) -> Nfsstat4 {
        status(&self.call(&Operations::new().at(handle).with(number, args)))
    }

    pub fn renew(&mut self) -> Nfsstat4 {
        let args = RenewArgs { clientid: self.id };
        status(&self.call(&Operations::new().with(op::RENEW, &args)))
    }

    fn next_seqid(&mut self) -> u32 {
        self.seqid += 1;
        self.seqid
    }

    /// Opens a file of the export.
    pub fn open(&mut self, access: u32, claim: OpenClaim4<'_>) -> Result<Opened, Nfsstat4> {
        let at = Operations::new().bare(op::PUTROOTFH).with(op::LOOKUP, &Bytes::<255>(b"e"));
        self.open_at(at, &[op::PUTROOTFH, op::LOOKUP], access, claim)
    }

    pub fn open_name(&mut self, access: u32, name: &str) -> Result<Opened, Nfsstat4> {
        self.open(access, OpenClaim4::Null(Bytes(name.as_bytes())))
    }

    /// Opens what is current after these operations, or a name in it.
    pub fn open_at(
        &mut self,
        before: Operations,
        numbers: &[u32],
        access: u32,
        claim: OpenClaim4<'_>,
    ) -> Result<Opened, Nfsstat4> {
        let args = OpenArgs {
            seqid: self.next_seqid(),
            share_access: access,
            share_deny: 0,
            owner: OpenOwner4 { clientid: self.id, owner: Bytes(OWNER) },
            how: OpenHow4::NoCreate,
            claim,
        };
        let reply = self.call(&before.with(op::OPEN, &args).bare(op::GETFH));
        let status = status(&reply);
        if status != Nfsstat4::Ok {
            if matches!(status, Nfsstat4::BadStateid | Nfsstat4::StaleClientid) {
                self.seqid -= 1;
            }
            return Err(status);
        }
        let mut r = results(&reply).unwrap();
        numbers.iter().for_each(|number| succeeded(&mut r, *number).unwrap());
        succeeded(&mut r, op::OPEN).unwrap();
        let open: Stateid4 = r.get().unwrap();
        r.opaque_fixed(20).unwrap();
        let _flags = r.u32().unwrap();
        let _set: Bitmap4 = r.get().unwrap();
        let kind = r.u32().unwrap();
        let (mut delegation, mut recalled) = (None, false);
        if kind != 0 {
            delegation = Some(r.get().unwrap());
            recalled = r.u32().unwrap() != 0;
            if kind == 2 {
                assert_eq!(r.words().unwrap(), [2, 0, 1]);
            }
            assert_eq!(r.words().unwrap(), [0, 0, 0, 0]);
        }
        succeeded(&mut r, op::GETFH).unwrap();
        let handle = r.opaque(128).unwrap().to_vec();
        Ok(Opened { handle, open, kind, delegation, recalled })
    }

    /// Opens a file until that gives a delegation: CB_NULL is answered at some time.
    pub fn delegated(&mut self, access: u32, name: &str) -> (Vec<u8>, Stateid4) {
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let opened = self.open_name(access, name).unwrap();
            if let Some(delegation) = opened.delegation {
                assert!(!opened.recalled);
                return (opened.handle, delegation);
            }
            assert!(std::time::Instant::now() < end, "no delegation");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn give_back(&mut self, handle: &[u8], delegation: Stateid4) {
        assert_eq!(self.at(handle, op::DELEGRETURN, &delegation), Nfsstat4::Ok);
    }
}
