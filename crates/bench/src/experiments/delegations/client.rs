//! A client that makes the calls that Linux makes for programs that read files whose data it has in its memory, and whose
//! attributes it has known for longer than it trusts them.
//!
//! A file of which it has a delegation is opened, read and looked at without a call. Of any other one the attributes are
//! fetched, and what is opened is closed; the data is read only if the file has changed. What is recalled is returned after
//! the call under way.

use crate::experiments::RunError;
use client::nfs4::{Operations, Session, results_inside, succeeded};
use client::{Callback, CallbackReply, Client, Identity};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CbRecallArgs, CloseArgs, FHSIZE, Fattr4, OpenArgs, OpenClaim4, OpenHow4, OpenOwner4,
    ReadArgs, ReaddirArgs, STRING_MAX, Stateid4, attr, cb_op, op,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use xdr::Reader;

const TIMEOUT: Duration = Duration::from_secs(20);
/// `OPEN4_SHARE_ACCESS_READ`.
const READ: u32 = 1;
/// `OPEN_DELEGATE_*`.
const DELEGATE_NONE: u32 = 0;
const DELEGATE_READ: u32 = 1;
const DELEGATE_NONE_EXT: u32 = 3;
/// Larger than any of the files.
const READ_BYTES: u32 = 64 << 10;
const LISTING_BYTES: u32 = 32 << 10;

const HEADERS: u32 = 40;
const SOURCES: u32 = 8;
const OTHERS: u32 = 51;
/// What git reads besides.
const INDEX: &str = "index";

fn header(n: u32) -> String {
    format!("h{n}.h")
}

fn source(n: u32) -> String {
    format!("c{n}.c")
}

fn names() -> Vec<String> {
    let others = (0..OTHERS).map(|n| format!("other{n}"));
    let all = (0..HEADERS).map(header).chain((0..SOURCES).map(source)).chain(others);
    all.chain([INDEX.to_owned()]).collect()
}

/// Makes the files, in one directory.
pub(super) fn make_tree(dir: &Path) -> std::io::Result<()> {
    names().iter().try_for_each(|name| std::fs::write(dir.join(name), vec![b'x'; 1024]))
}

/// What is done with the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// Each source is read, and with it all headers.
    Compile,
    /// The directory is listed, each file looked at, the index read.
    GitStatus,
    /// The directory is listed, each file looked at.
    RsyncDryRun,
}

impl Program {
    pub const ALL: [Self; 3] = [Self::Compile, Self::GitStatus, Self::RsyncDryRun];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::GitStatus => "git status",
            Self::RsyncDryRun => "rsync -n",
        }
    }
}

/// What the client knows of a file.
struct Known {
    handle: Vec<u8>,
    /// The `change` of the data that it has.
    change: u64,
    delegation: Option<Stateid4>,
}

pub(super) struct ReadingClient {
    client: Client,
    session: Session,
    dir: Vec<u8>,
    files: BTreeMap<String, Known>,
    recalled: Receiver<Stateid4>,
    calls: u32,
}

fn failed(error: &impl std::fmt::Display) -> RunError {
    RunError::Failed(error.to_string())
}

/// What OPEN gave.
struct Opened {
    stateid: Stateid4,
    delegation: Option<Stateid4>,
}

fn opened(r: &mut Reader<'_>) -> Result<Opened, xdr::Error> {
    let stateid = r.get()?;
    let _directory: proto::nfs4::ChangeInfo4 = r.get()?;
    let _flags = r.u32()?;
    let _set: Bitmap4 = r.get()?;
    let delegation = match r.u32()? {
        DELEGATE_NONE => None,
        DELEGATE_READ => {
            let stateid = r.get()?;
            let _recalled = r.bool()?;
            r.words::<3>()?;
            r.opaque(STRING_MAX)?;
            Some(stateid)
        }
        DELEGATE_NONE_EXT => {
            if matches!(r.u32()?, 1 | 2) {
                r.bool()?;
            }
            None
        }
        value => return Err(xdr::Error::NotMember { what: "open_delegation_type4", value }),
    };
    Ok(Opened { stateid, delegation })
}

impl ReadingClient {
    /// A client of a name that no other has.
    pub fn new(server: SocketAddr, export: &str, name: &str) -> Result<Self, RunError> {
        let mut client = Client::tcp(server, TIMEOUT).map_err(|e| failed(&e))?;
        client.set_identity(Some(Identity::root()));
        let (tell, recalled) = channel();
        client.answer_callbacks(Box::new(move |callback| {
            if let Callback::Compound { operation: cb_op::RECALL, args, .. } = callback
                && let Ok(args) = Reader::new(args).get::<CbRecallArgs<'_>>()
            {
                // nobody receives it once the client has ended
                let _over = tell.send(args.stateid);
            }
            CallbackReply::Ok(Vec::new())
        }));
        let session = client.open_session_with_callbacks(name.as_bytes(), (4, 4));
        let session = session.map_err(|e| failed(&e))?;
        let (dir, files) = (Vec::new(), BTreeMap::new());
        let mut new = Self { client, session, dir, files, recalled, calls: 0 };
        let mut find = Operations::new().bare(op::PUTROOTFH);
        let parts: Vec<&str> = export.split('/').filter(|part| !part.is_empty()).collect();
        let mut numbers = vec![op::PUTROOTFH];
        for part in &parts {
            find = find.with(op::LOOKUP, &Bytes::<STRING_MAX>(part.as_bytes()));
            numbers.push(op::LOOKUP);
        }
        numbers.push(op::GETFH);
        new.dir = new.call(&find.bare(op::GETFH), &numbers, |r| Ok(r.opaque(FHSIZE)?.to_vec()))?;
        Ok(new)
    }

    /// How many calls it has made.
    pub const fn calls(&self) -> u32 {
        self.calls
    }

    /// Makes a call; `decode` reads the result of the last of these operations and what follows.
    fn call<T>(
        &mut self,
        operations: &Operations,
        numbers: &[u32],
        decode: impl FnOnce(&mut Reader<'_>) -> Result<T, xdr::Error>,
    ) -> Result<T, RunError> {
        self.calls = self.calls.saturating_add(1);
        let reply = self.client.compound(&mut self.session, operations).map_err(|e| failed(&e))?;
        let mut r = results_inside(&reply).map_err(|e| failed(&e))?;
        numbers.iter().try_for_each(|number| succeeded(&mut r, *number)).map_err(|e| failed(&e))?;
        decode(&mut r).map_err(|e| failed(&e))
    }

    /// Reads and looks at every file, as whoever has just copied or committed them.
    pub fn read_everything(&mut self) -> Result<(), RunError> {
        self.list()?;
        names().iter().try_for_each(|name| self.read(name))
    }

    pub fn run(&mut self, program: Program) -> Result<(), RunError> {
        match program {
            Program::Compile => (0..SOURCES).try_for_each(|n| {
                self.read(&source(n))?;
                (0..HEADERS).try_for_each(|n| self.read(&header(n)))
            }),
            Program::GitStatus => {
                self.look_at_all()?;
                self.read(INDEX)
            }
            Program::RsyncDryRun => self.look_at_all(),
        }
    }

    fn look_at_all(&mut self) -> Result<(), RunError> {
        self.list()?;
        names().iter().try_for_each(|name| self.look_at(name))
    }

    fn is_held(&self, name: &str) -> bool {
        self.files.get(name).is_some_and(|known| known.delegation.is_some())
    }

    /// Opens a file, reads it if the data is not known, and closes it.
    fn read(&mut self, name: &str) -> Result<(), RunError> {
        if self.is_held(name) {
            return Ok(());
        }
        let args = OpenArgs {
            seqid: 0,
            share_access: READ,
            share_deny: 0,
            owner: OpenOwner4 { clientid: 0, owner: Bytes(b"program") },
            how: OpenHow4::NoCreate,
            claim: OpenClaim4::Null(Bytes(name.as_bytes())),
        };
        let operations = Operations::new()
            .at(&self.dir)
            .with(op::OPEN, &args)
            .bare(op::GETFH)
            .with(op::GETATTR, &Bitmap4::of(&[attr::CHANGE]));
        let (opened, handle, change) = self.call(&operations, &[op::PUTFH, op::OPEN], |r| {
            let opened = opened(r)?;
            let [_number, _status] = r.words()?;
            let handle = r.opaque(FHSIZE)?.to_vec();
            let [_number, _status] = r.words()?;
            let attrs: Fattr4<'_> = r.get()?;
            Ok((opened, handle, Reader::new(attrs.values.0).u64()?))
        })?;
        if self.files.get(name).is_none_or(|known| known.change != change) {
            let args = ReadArgs { stateid: opened.stateid, offset: 0, count: READ_BYTES };
            let operations = Operations::new().at(&handle).with(op::READ, &args);
            self.call(&operations, &[op::PUTFH, op::READ], |_| Ok(()))?;
        }
        let args = CloseArgs { seqid: 0, stateid: opened.stateid };
        let operations = Operations::new().at(&handle).with(op::CLOSE, &args);
        self.call(&operations, &[op::PUTFH, op::CLOSE], |_| Ok(()))?;
        let known = Known { handle, change, delegation: opened.delegation };
        self.files.insert(name.to_owned(), known);
        self.return_recalled()
    }

    /// Fetches the attributes of a file that was read before.
    fn look_at(&mut self, name: &str) -> Result<(), RunError> {
        let Some(known) = self.files.get(name).filter(|known| known.delegation.is_none()) else {
            return Ok(());
        };
        let attrs = Bitmap4::of(&[attr::CHANGE, attr::SIZE, attr::MODE, attr::TIME_MODIFY]);
        let operations = Operations::new().at(&known.handle).with(op::GETATTR, &attrs);
        self.call(&operations, &[op::PUTFH, op::GETATTR], |_| Ok(()))
    }

    /// Lists the directory, which has changed attributes or not.
    fn list(&mut self) -> Result<(), RunError> {
        let (mut cookie, mut cookieverf) = (0, [0; 8]);
        loop {
            let (dircount, maxcount) = (LISTING_BYTES, LISTING_BYTES);
            let attrs = Bitmap4::of(&[attr::FILEID]);
            let args = ReaddirArgs { cookie, cookieverf, dircount, maxcount, attrs };
            let operations = Operations::new().at(&self.dir).with(op::READDIR, &args);
            let (last, verifier, eof) = self.call(&operations, &[op::PUTFH, op::READDIR], |r| {
                let (verifier, mut last) = (r.array()?, cookie);
                while r.bool()? {
                    last = r.u64()?;
                    r.opaque(STRING_MAX)?;
                    let _attrs: Fattr4<'_> = r.get()?;
                }
                Ok((last, verifier, r.bool()?))
            })?;
            if eof || last == cookie {
                return Ok(());
            }
            (cookie, cookieverf) = (last, verifier);
        }
    }

    fn return_recalled(&mut self) -> Result<(), RunError> {
        while let Ok(stateid) = self.recalled.try_recv() {
            let held = self.files.values_mut().find(|known| known.delegation == Some(stateid));
            let Some(handle) = held.map(|known| {
                known.delegation = None;
                known.handle.clone()
            }) else {
                continue;
            };
            self.give_back(&handle, stateid)?;
        }
        Ok(())
    }

    fn give_back(&mut self, handle: &[u8], stateid: Stateid4) -> Result<(), RunError> {
        let operations = Operations::new().at(handle).with(op::DELEGRETURN, &stateid);
        self.call(&operations, &[op::PUTFH, op::DELEGRETURN], |_| Ok(()))
    }

    /// Returns what it holds, and ends.
    pub fn end(mut self) -> Result<(), RunError> {
        for known in std::mem::take(&mut self.files).into_values() {
            if let Some(stateid) = known.delegation {
                self.give_back(&known.handle, stateid)?;
            }
        }
        self.client.destroy_client(&self.session).map_err(|e| failed(&e))
    }
}
