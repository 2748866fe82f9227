//! The calls of the proof in versions 4.1 and 4.2. It opens nothing: in a grace period it would have to wait for that, and
//! the server would have to record it. READ's special stateid needs the permissions of the file alone.

use super::{ENTRIES_MAX, FILE_MAX, LIST_BYTES, Listed, Mounted, READ_MAX};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::nfs4::{Operations, Session, results_inside, succeeded};
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, FHSIZE, Fattr4, FileType4, GetattrArgs, ReadArgs, ReaddirArgs, STRING_MAX, Stateid4,
    Verifier4, attr, op,
};
use xdr::Reader;

/// What is asked of each entry. One that cannot be looked at has the error instead.
const ENTRY_ATTRS: Bitmap4 = Bitmap4::of(&[attr::TYPE, attr::SIZE, attr::RDATTR_ERROR]);

/// An export that is mounted.
pub(super) struct Tree<'c> {
    client: &'c mut Client,
    session: Session,
    root: Vec<u8>,
}

const fn garbled(source: xdr::Error) -> Error {
    Error::Garbled { operation: "COMPOUND", source }
}

impl<'c> Tree<'c> {
    /// The directory at a path from the root.
    pub fn mount(client: &'c mut Client, minor: u32, path: &[u8]) -> Result<Self> {
        let owner = format!("bowline serve --prove {}", std::process::id());
        let mut session = client.open_reading_session(minor, owner.as_bytes(), 1)?;
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let mut operations = Operations::new().bare(op::PUTROOTFH);
        let mut steps = vec![op::PUTROOTFH];
        for name in names {
            operations = operations.with(op::LOOKUP, &Bytes::<STRING_MAX>(name));
            steps.push(op::LOOKUP);
        }
        let reply = client.compound(&mut session, &operations.bare(op::GETFH))?;
        let mut r = results_inside(&reply)?;
        for step in steps {
            succeeded(&mut r, step)?;
        }
        succeeded(&mut r, op::GETFH)?;
        let root = r.opaque(FHSIZE).map_err(garbled)?.to_vec();
        Ok(Self { client, session, root })
    }

    /// Has the server forget the client.
    pub fn unmount(self) -> Result<()> {
        self.client.destroy_client(&self.session)
    }

    /// A piece of the root's listing from a cookie on: the verifier, and whether it is the last one.
    fn piece(
        &mut self,
        (cookie, cookieverf): (u64, Verifier4),
        entries: &mut Vec<(u64, Listed)>,
    ) -> Result<(Verifier4, bool)> {
        let (dircount, maxcount, attrs) = (LIST_BYTES, LIST_BYTES, ENTRY_ATTRS);
        let args = ReaddirArgs { cookie, cookieverf, dircount, maxcount, attrs };
        let operations = Operations::new().at(&self.root).with(op::READDIR, &args);
        let reply = self.client.compound(&mut self.session, &operations)?;
        let mut r = results_inside(&reply)?;
        succeeded(&mut r, op::PUTFH)?;
        succeeded(&mut r, op::READDIR)?;
        let verifier = r.array().map_err(garbled)?;
        while r.bool().map_err(garbled)? {
            entries.push(entry(&mut r).map_err(garbled)?);
        }
        Ok((verifier, r.bool().map_err(garbled)?))
    }

    /// READ at an offset: the data, and whether the file ends there.
    fn read_at(&mut self, file: &[u8], offset: u64, count: u32) -> Result<(Vec<u8>, bool)> {
        let args = ReadArgs { stateid: Stateid4::BYPASS, offset, count };
        let operations = Operations::new().at(file).with(op::READ, &args);
        let reply = self.client.compound(&mut self.session, &operations)?;
        let mut r = results_inside(&reply)?;
        succeeded(&mut r, op::PUTFH)?;
        succeeded(&mut r, op::READ)?;
        let eof = r.bool().map_err(garbled)?;
        Ok((r.opaque(count as usize).map_err(garbled)?.to_vec(), eof))
    }
}

/// `entry4`, without whether it is there.
fn entry(r: &mut Reader<'_>) -> std::result::Result<(u64, Listed), xdr::Error> {
    let cookie = r.u64()?;
    let name = r.opaque(STRING_MAX)?.to_vec();
    let Fattr4 { mask, values } = r.get()?;
    let mut values = Reader::new(values.0);
    let is_file = mask.has(attr::TYPE) && values.u32()? == FileType4::Reg.number();
    let size = if mask.has(attr::SIZE) { Some(values.u64()?) } else { None };
    Ok((cookie, Listed { name, file_bytes: size.filter(|_| is_file) }))
}

impl Mounted for Tree<'_> {
    fn list(&mut self) -> Result<Vec<Listed>> {
        let mut entries = Vec::new();
        let mut from = (0, [0; 8]);
        loop {
            let before = entries.len();
            let (verifier, is_last) = self.piece(from, &mut entries)?;
            let cookie = entries.last().map_or(0, |(cookie, _)| *cookie);
            if is_last || entries.len() == before || entries.len() >= ENTRIES_MAX {
                return Ok(entries.into_iter().map(|(_, listed)| listed).collect());
            }
            from = (cookie, verifier);
        }
    }

    fn read(&mut self, name: &[u8]) -> Result<Vec<u8>> {
        let size = GetattrArgs { attrs: Bitmap4::of(&[attr::SIZE]) };
        let operations = Operations::new()
            .at(&self.root)
            .with(op::LOOKUP, &Bytes::<STRING_MAX>(name))
            .bare(op::GETFH)
            .with(op::GETATTR, &size);
        let reply = self.client.compound(&mut self.session, &operations)?;
        let mut r = results_inside(&reply)?;
        succeeded(&mut r, op::PUTFH)?;
        succeeded(&mut r, op::LOOKUP)?;
        succeeded(&mut r, op::GETFH)?;
        let file = r.opaque(FHSIZE).map_err(garbled)?.to_vec();
        succeeded(&mut r, op::GETATTR)?;
        let attrs: Fattr4<'_> = r.get().map_err(garbled)?;
        let size = Reader::new(attrs.values.0).u64().map_err(garbled)?.min(FILE_MAX);
        let mut data = Vec::new();
        loop {
            let at = u64::try_from(data.len()).unwrap_or(u64::MAX);
            let left = u32::try_from(size.saturating_sub(at)).unwrap_or(u32::MAX).min(READ_MAX);
            if left == 0 {
                return Ok(data);
            }
            let (mut piece, eof) = self.read_at(&file, at, left)?;
            if piece.is_empty() && !eof {
                return Err(garbled(xdr::Error::Invalid("no data before the end of the file")));
            }
            data.append(&mut piece);
            if eof {
                return Ok(data);
            }
        }
    }
}
