//! OPEN and CLOSE from the client's side, for all minor versions: owners with their seqids, which count in version 4.0 only.

use super::{ClientRecord, Operations, garbled, succeeded};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::handle::Fh;
use proto::layout::Bytes;
use proto::nfs4::{
    Bitmap4, CloseArgs, Createhow4, FHSIZE, Fattr4, OpenArgs, OpenClaim4, OpenConfirmArgs,
    OpenHow4, OpenOwner4, STRING_MAX, Stateid4, attr, op, share,
};
use xdr::{Decode, Reader};

/// A bit of `share_access` since version 4.1: no delegation is wanted.
pub const WITHOUT_DELEGATION: u32 = share::WANT_NO_DELEG;
/// Flag of OPEN's result: the owner must be confirmed (RFC 7530 §16.16.5).
const MUST_CONFIRM: u32 = 2;

/// The result of OPEN (`OPEN4resok`), as far as a client without delegations needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDone {
    /// The open.
    pub stateid: Stateid4,
    /// Whether OPEN_CONFIRM must follow.
    pub must_confirm: bool,
}

impl<'a> Decode<'a> for OpenDone {
    fn decode(r: &mut Reader<'a>) -> std::result::Result<Self, xdr::Error> {
        let stateid = r.get()?;
        let _directory: proto::nfs4::ChangeInfo4 = r.get()?;
        let flags = r.u32()?;
        let _set: Bitmap4 = r.get()?;
        skip_delegation(r)?;
        Ok(Self { stateid, must_confirm: flags & MUST_CONFIRM != 0 })
    }
}

/// `open_delegation4`.
fn skip_delegation(r: &mut Reader<'_>) -> std::result::Result<(), xdr::Error> {
    let kind = r.u32()?;
    match kind {
        0 => return Ok(()),
        // OPEN_DELEGATE_NONE_EXT: of two reasons it says whether the server will tell more
        3 => {
            if matches!(r.u32()?, 1 | 2) {
                r.bool()?;
            }
            return Ok(());
        }
        1 | 2 => {}
        value => return Err(xdr::Error::NotMember { what: "open_delegation_type4", value }),
    }
    let _stateid: Stateid4 = r.get()?;
    let _recall = r.bool()?;
    if kind == 2 {
        // the limit of space: how, and eight bytes either way
        r.words::<3>()?;
    }
    // an ACE, and for whom it is
    r.words::<3>()?;
    r.opaque(STRING_MAX).map(drop)
}

/// One that opens files.
#[derive(Debug, Clone)]
pub struct OpenOwner {
    /// His name, which no other owner of the client has.
    pub name: Vec<u8>,
    /// The number of his next request; only version 4.0 looks at it.
    pub seqid: u32,
}

impl OpenOwner {
    /// An owner that has opened nothing.
    pub fn new(name: &[u8]) -> Self {
        Self { name: name.to_vec(), seqid: 1 }
    }

    fn next_seqid(&mut self) -> u32 {
        let seqid = self.seqid;
        self.seqid = seqid.wrapping_add(1);
        seqid
    }
}

impl ClientRecord {
    /// Opens a name of a directory for an access of [`share`], with the owner's confirmation if the server asks for it;
    /// with a mode it is made if it is not there. The handle of the file, and the stateid.
    ///
    /// # Errors
    /// Any.
    pub fn open(
        &mut self,
        client: &mut Client,
        owner: &mut OpenOwner,
        (dir, name): (&Fh, &[u8]),
        access: u32,
        mode: Option<u32>,
    ) -> Result<(Fh, Stateid4)> {
        let share_access = if self.minor == 0 { access } else { access | WITHOUT_DELEGATION };
        let seqid = owner.next_seqid();
        let value = mode.unwrap_or(0).to_be_bytes();
        let how = match mode {
            None => OpenHow4::NoCreate,
            Some(_) => {
                let (mask, values) = (Bitmap4::of(&[attr::MODE]), Bytes(&value[..]));
                OpenHow4::Create(Createhow4::Unchecked(Fattr4 { mask, values }))
            }
        };
        let (clientid, claim) = (self.client_id, OpenClaim4::Null(Bytes(name)));
        let owner4 = OpenOwner4 { clientid, owner: Bytes(&owner.name) };
        let args = OpenArgs { seqid, share_access, share_deny: 0, owner: owner4, how, claim };
        let operations = Operations::new().at(dir.bytes()).with(op::OPEN, &args).bare(op::GETFH);
        let reply = self.compound(client, &operations)?;
        let mut r = self.results(&reply)?;
        succeeded(&mut r, op::PUTFH)?;
        succeeded(&mut r, op::OPEN)?;
        let OpenDone { mut stateid, must_confirm } = r.get().map_err(garbled)?;
        succeeded(&mut r, op::GETFH)?;
        let handle = Fh::new(r.opaque(FHSIZE).map_err(garbled)?)
            .ok_or(Error::Unsendable("a handle over 128 bytes"))?;
        if must_confirm {
            stateid = self.confirm(client, owner, &handle, stateid)?;
        }
        Ok((handle, stateid))
    }

    fn confirm(
        &mut self,
        client: &mut Client,
        owner: &mut OpenOwner,
        file: &Fh,
        stateid: Stateid4,
    ) -> Result<Stateid4> {
        let args = OpenConfirmArgs { stateid, seqid: owner.next_seqid() };
        let operations = Operations::new().at(file.bytes()).with(op::OPEN_CONFIRM, &args);
        let reply = self.compound(client, &operations)?;
        let mut r = self.results(&reply)?;
        succeeded(&mut r, op::PUTFH)?;
        succeeded(&mut r, op::OPEN_CONFIRM)?;
        r.get().map_err(garbled)
    }

    /// Closes a file.
    ///
    /// # Errors
    /// Any.
    pub fn close(
        &mut self,
        client: &mut Client,
        owner: &mut OpenOwner,
        file: &Fh,
        stateid: Stateid4,
    ) -> Result<()> {
        let args = CloseArgs { seqid: owner.next_seqid(), stateid };
        let operations = Operations::new().at(file.bytes()).with(op::CLOSE, &args);
        let reply = self.compound(client, &operations)?;
        self.results(&reply).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::OpenDone;
    use proto::nfs4::Stateid4;
    use xdr::{Reader, Writer};

    /// OPEN's result with this delegation behind it.
    fn result(delegation: &[u32]) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(&Stateid4 { seqid: 1, other: [7; 12] });
        // change_info4, the flags, no attributes
        w.words([1, 0, 5, 0, 6, 2, 0]);
        delegation.iter().for_each(|word| w.u32(*word));
        w.u32(0xface);
        w.bytes().to_vec()
    }

    #[test]
    fn every_delegation_is_passed_over() {
        let read = [1, 1, 1, 1, 1, 0, 0, 0, 0, 3, u32::from_be_bytes(*b"abc\0")];
        let write = [2, 1, 1, 1, 1, 0, 1, 0, 4096, 0, 0, 0, 0];
        for delegation in [&[0][..], &[3, 0], &[3, 1, 1], &[3, 2, 0], &read, &write] {
            let bytes = result(delegation);
            let mut r = Reader::new(&bytes);
            let done: OpenDone = r.get().unwrap();
            assert!(done.must_confirm && done.stateid.other == [7; 12]);
            assert_eq!(r.u32(), Ok(0xface), "{delegation:?}");
        }
        assert!(Reader::new(&result(&[9])).get::<OpenDone>().is_err());
    }
}
