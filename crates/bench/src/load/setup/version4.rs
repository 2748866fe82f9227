//! The calls of version 4, whatever the minor version: a client of its own, made known at the first call that needs it and
//! forgotten at the end.
//!
//! A file is open from when it is made until the next one is, so that it can be filled.

use super::calls::{DirItem, ObjectKind, SetupCalls};
use crate::load::error::LoadError;
use crate::load::plan::Plan;
use crate::load::version4::{retry_while_delayed, unique_name};
use client::nfs4::{ClientRecord, OpenOwner, Operations, succeeded};
use client::{Client, Fh, Target};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CreateArgs, CreateType4, DATA_MAX, FHSIZE, Fattr4, FileType4, GetattrArgs,
    ReaddirArgs, STRING_MAX, StableHow4, Stateid4, VERSION, Verifier4, WriteArgs, attr, op,
    procedure, share,
};
use std::time::{Duration, Instant};
use xdr::Reader;

/// Bytes of a READDIR reply while the tree is read.
const PIECE: u32 = 32 << 10;
/// Bytes of one WRITE while files are created.
const WRITE_AT_ONCE: usize = 256 << 10;
/// What is asked of each entry. One that cannot be looked at has the error instead.
const ENTRY: Bitmap4 = Bitmap4::of(&[attr::TYPE, attr::SIZE, attr::RDATTR_ERROR, attr::FILEHANDLE]);

pub(super) struct Calls {
    client: Client,
    minor: u32,
    timeout: Duration,
    record: Option<ClientRecord>,
    owner: OpenOwner,
    /// The file that was made last.
    open: Option<(Fh, Stateid4)>,
}

const fn garbled(source: xdr::Error) -> client::Error {
    client::Error::Garbled { operation: "COMPOUND", source }
}

const TOO_LONG: client::Error = client::Error::Unsendable("a handle over 128 bytes");

impl Calls {
    pub(super) fn new(client: Client, plan: &Plan) -> Self {
        let minor = plan.version.minor().unwrap_or(0);
        let owner = OpenOwner::new(b"setup");
        Self { client, minor, timeout: plan.timeout, record: None, owner, open: None }
    }

    /// What the server knows of this client, beside its connection and its open owner.
    fn known(&mut self) -> Result<(&mut Client, &mut ClientRecord, &mut OpenOwner), client::Error> {
        let record = match self.record.take() {
            Some(record) => record,
            None => {
                let (client, minor) = (&mut self.client, self.minor);
                let name = unique_name(&"setup");
                let deadline = Instant::now() + self.timeout;
                retry_while_delayed(deadline, || {
                    ClientRecord::establish(client, minor, name.as_bytes(), 1)
                })?
            }
        };
        Ok((&mut self.client, self.record.insert(record), &mut self.owner))
    }

    /// Runs operations, and reads the results of those before `read` by their numbers.
    fn run<T>(
        &mut self,
        operations: &Operations,
        steps: &[u32],
        read: impl Fn(&mut Reader<'_>) -> Result<T, xdr::Error>,
    ) -> Result<T, client::Error> {
        let deadline = Instant::now() + self.timeout;
        let (client, record, _) = self.known()?;
        retry_while_delayed(deadline, || {
            let reply = record.compound(client, operations)?;
            let mut r = record.results(&reply)?;
            for step in steps {
                succeeded(&mut r, *step)?;
            }
            read(&mut r).map_err(garbled)
        })
    }

    fn handle(&mut self, operations: Operations, steps: &[u32]) -> Result<Fh, client::Error> {
        let operations = operations.bare(op::GETFH);
        let found = self.run(&operations, &[steps, &[op::GETFH]].concat(), |r| {
            Ok(Fh::new(r.opaque(FHSIZE)?))
        })?;
        found.ok_or(TOO_LONG)
    }

    fn close(&mut self) -> Result<(), client::Error> {
        let Some((file, stateid)) = self.open.take() else { return Ok(()) };
        let (client, record, owner) = self.known()?;
        record.close(client, owner, &file, stateid)
    }

    /// An entry of a listing, and its cookie; the object is missing where the server says an error instead.
    fn entry(r: &mut Reader<'_>) -> Result<(u64, Vec<u8>, Option<DirItem>), xdr::Error> {
        let cookie = r.u64()?;
        let name = r.opaque(STRING_MAX)?.to_vec();
        let Fattr4 { mask, values } = r.get()?;
        let mut values = Reader::new(values.0);
        if !mask.has(attr::TYPE) || !mask.has(attr::FILEHANDLE) {
            return Ok((cookie, name, None));
        }
        let kind = match FileType4::from_number(values.u32()?) {
            Some(FileType4::Dir) => ObjectKind::Dir,
            Some(FileType4::Reg) => ObjectKind::File,
            _ => ObjectKind::Other,
        };
        let size = if mask.has(attr::SIZE) { values.u64()? } else { 0 };
        if mask.has(attr::RDATTR_ERROR) {
            values.u32()?;
        }
        let fh = Fh::new(values.opaque(FHSIZE)?);
        let item = fh.map(|fh| DirItem { name: name.clone(), fh, kind, size });
        Ok((cookie, name, item))
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // the lease ends what cannot be given back
        let _ = self.close();
        if let Some(record) = self.record.take() {
            let _ = record.destroy(&mut self.client);
        }
    }
}

impl SetupCalls for Calls {
    fn null(&mut self) -> Result<(), client::Error> {
        let (program, procedure) = (proto::nfs3::PROGRAM, procedure::NULL);
        let target = Target { program, version: VERSION, procedure };
        self.client.call(target, &client::Nothing)?.decode::<client::Nothing>("NULL").map(|_| ())
    }

    fn root(&mut self, plan: &Plan) -> Result<Fh, LoadError> {
        let first = plan.servers.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 2049).into());
        let mut fh = self.handle(Operations::new().bare(op::PUTROOTFH), &[op::PUTROOTFH])?;
        for name in plan.export.as_bytes().split(|byte| *byte == b'/').filter(|n| !n.is_empty()) {
            fh = self.find(&fh, name).map_err(|source| {
                LoadError::Nothing(format!(
                    "{first} has no {} in NFS version 4 ({source}); paths begin at its root, which an export with \
                     fsid=0 replaces",
                    plan.export
                ))
            })?;
        }
        Ok(fh)
    }

    fn list(&mut self, dir: &Fh) -> Result<Vec<DirItem>, LoadError> {
        let (mut all, mut cookie, mut cookieverf): (_, _, Verifier4) = (Vec::new(), 0, [0; 8]);
        loop {
            let (dircount, maxcount, attrs) = (PIECE, PIECE, ENTRY);
            let args = ReaddirArgs { cookie, cookieverf, dircount, maxcount, attrs };
            let operations = Operations::new().at(dir.bytes()).with(op::READDIR, &args);
            let (verifier, entries, eof) =
                self.run(&operations, &[op::PUTFH, op::READDIR], |r| {
                    let (verifier, mut entries) = (r.array()?, Vec::new());
                    while r.bool()? {
                        entries.push(Self::entry(r)?);
                    }
                    Ok((verifier, entries, r.bool()?))
                })?;
            let stuck = entries.is_empty() && !eof;
            cookieverf = verifier;
            for (at, name, item) in entries {
                cookie = at;
                match item {
                    Some(item) => all.push(item),
                    // whatever it is: it can be looked up, or is left out
                    None => match self.find(dir, &name) {
                        Ok(fh) => all.push(DirItem { name, fh, kind: ObjectKind::Other, size: 0 }),
                        Err(client::Error::Nfs { .. }) => {}
                        Err(other) => return Err(other.into()),
                    },
                }
            }
            if eof || stuck {
                return Ok(all);
            }
        }
    }

    fn find(&mut self, dir: &Fh, name: &[u8]) -> Result<Fh, client::Error> {
        let operations =
            Operations::new().at(dir.bytes()).with(op::LOOKUP, &Bytes::<STRING_MAX>(name));
        self.handle(operations, &[op::PUTFH, op::LOOKUP])
    }

    fn make_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        let (mask, mode) = (Bitmap4::of(&[attr::MODE]), 0o777_u32.to_be_bytes());
        let attrs = Fattr4 { mask, values: Bytes(&mode) };
        let args = CreateArgs { what: CreateType4::Dir, name: Bytes(name), attrs };
        let operations = Operations::new().at(dir.bytes()).with(op::CREATE, &args);
        self.run(&operations, &[op::PUTFH, op::CREATE], |_| Ok(()))
    }

    fn make_file(&mut self, dir: &Fh, name: &[u8]) -> Result<(Fh, u64), client::Error> {
        self.close()?;
        let (deadline, access) =
            (Instant::now() + self.timeout, share::ACCESS_READ | share::ACCESS_WRITE);
        let (client, record, owner) = self.known()?;
        let (fh, stateid) = retry_while_delayed(deadline, || {
            record.open(client, owner, (dir, name), access, Some(0o666))
        })?;
        self.open = Some((fh, stateid));
        let args = GetattrArgs { attrs: Bitmap4::of(&[attr::SIZE]) };
        let operations = Operations::new().at(fh.bytes()).with(op::GETATTR, &args);
        let size = self.run(&operations, &[op::PUTFH, op::GETATTR], |r| {
            let attrs: Fattr4<'_> = r.get()?;
            Reader::new(attrs.values.0).u64()
        })?;
        Ok((fh, size))
    }

    fn write_max(&self) -> usize {
        WRITE_AT_ONCE
    }

    fn write(&mut self, fh: &Fh, offset: u64, data: &[u8]) -> Result<usize, client::Error> {
        let open = self.open.filter(|(file, _)| file == fh);
        let stateid = open.map_or(Stateid4::ANONYMOUS, |(_, stateid)| stateid);
        let (stable, data) = (StableHow4::Unstable, Bytes::<DATA_MAX>(data));
        let args = WriteArgs { stateid, offset, stable, data };
        let operations = Operations::new().at(fh.bytes()).with(op::WRITE, &args);
        self.run(&operations, &[op::PUTFH, op::WRITE], |r| Ok(r.u32()? as usize))
    }

    fn remove(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        let operations =
            Operations::new().at(dir.bytes()).with(op::REMOVE, &Bytes::<STRING_MAX>(name));
        self.run(&operations, &[op::PUTFH, op::REMOVE], |_| Ok(()))
    }

    fn remove_dir(&mut self, dir: &Fh, name: &[u8]) -> Result<(), client::Error> {
        self.remove(dir, name)
    }
}
