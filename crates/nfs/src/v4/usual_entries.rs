//! Entries of READDIR with the attributes that clients usually ask for, each in one piece: what the entries of a listing have
//! in common is found out once.
//!
//! Invariant: the bytes behind the name are those that [`super::attr::put_facts`] appends.

use super::attr::{file_type, fsid_of};
use super::owner::{ID_MAX, Owners, text_of_id};
use super::usual_attrs;
use export::{Export, Handle};
use proto::nfs4::{Bitmap4, attr as a};
use vfs::{Attr, DirEntry, Fid, Node, Time};
use xdr::{Fields, Writer};

/// Bytes before the name: that there is an entry, its cookie, the name's length.
const HEAD: usize = 4 + 8 + 4;
/// Up to the file system's id: the bitmap, the length of the values, type, change attribute, size.
const FIRST: usize = 12 + 4 + 4 + 8 + 8 + 16;
/// File id, mode, number of links.
const MIDDLE: usize = 8 + 4 + 4;
/// Behind the owners: device, space, the time of the last access.
const ACCESSED: usize = 8 + 8 + TIME;
/// The two times of changes, the file id of what is covered.
const LAST: usize = 2 * TIME + 8;
const TIME: usize = 12;
/// Bytes of the bitmap and of the values' length, which the values do not include.
const BEFORE_VALUES: usize = 12 + 4;
/// The longest owner and group, with their lengths.
const OWNERS_MAX: usize = 2 * (4 + ID_MAX);

/// Bytes behind an entry that are written with it: handles and owners are copied in pieces of constant length, which need no
/// call.
const SLACK: usize = Handle::MAX;

/// Whether an entry was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    NoRoom,
    /// It cannot be written so: it lacks something that is asked for.
    Unusual,
}

/// What the entries of a listing have in common.
pub(super) struct UsualEntries<'a> {
    export: &'a Export,
    mask: [u32; 2],
    has_error: bool,
    has_handle: bool,
    has_birth: bool,
    /// Of the file system with this number, on which all or nearly all are.
    fsid: (u64, [u8; 16]),
    /// Of the last entry, which the next one often has as well.
    owners: OwnerText,
}

/// The owner and the group of an object, as they stand in its attributes.
struct OwnerText {
    ids: (u32, u32),
    /// Zeros behind it.
    bytes: [u8; OWNERS_MAX],
    len: usize,
}

impl OwnerText {
    fn of(uid: u32, gid: u32) -> Self {
        let (mut bytes, mut len) = ([0; OWNERS_MAX], 0);
        for id in [uid, gid] {
            let (text, text_len) = text_of_id(id);
            if let Some(place) = bytes.get_mut(len..).and_then(|rest| rest.first_chunk_mut()) {
                let mut fields = Fields::of::<{ 4 + ID_MAX }>(place);
                fields.u32(u32::try_from(text_len).unwrap_or(0));
                fields.bytes(text);
            }
            len += 4 + xdr::padded(text_len);
        }
        Self { ids: (uid, gid), bytes, len }
    }
}

impl<'a> UsualEntries<'a> {
    /// If these attributes are usual ones, and owners are numbers.
    pub fn of(export: &'a Export, owners: Owners<'_>, asked: &Bitmap4) -> Option<Self> {
        let [first, second, _] = asked.words();
        let is_usual = owners.are_numbers() && usual_attrs::are_usual(asked);
        is_usual.then(|| Self {
            export,
            mask: [first, second],
            has_error: asked.has(a::RDATTR_ERROR),
            has_handle: asked.has(a::FILEHANDLE),
            has_birth: asked.has(a::TIME_CREATE),
            fsid: (export.root_fsid, fsid_of(export, export.root_fsid)),
            owners: OwnerText::of(0, 0),
        })
    }

    /// Appends an entry, if it has no more bytes than there is room for.
    pub fn put(
        &mut self,
        entry: &DirEntry<'_>,
        node: &Node,
        room: usize,
        reply: &mut Writer,
    ) -> Put {
        let attr = &node.attr;
        let birth = if self.has_birth { attr.birth.known() } else { None };
        if self.has_birth && birth.is_none() {
            return Put::Unusual;
        }
        if self.fsid.0 != attr.fsid {
            self.fsid = (attr.fsid, fsid_of(self.export, attr.fsid));
        }
        if self.owners.ids != (attr.uid, attr.gid) {
            self.owners = OwnerText::of(attr.uid, attr.gid);
        }
        let values = self.values_len(&node.fid);
        let len = HEAD + xdr::padded(entry.name.len()) + BEFORE_VALUES + values;
        if len > room {
            return Put::NoRoom;
        }
        let place = reply.space(len + SLACK);
        if self.fill(place, entry, node, birth, values).is_none() {
            return Put::Unusual;
        }
        reply.advance(len);
        Put::Done
    }

    /// Bytes of an entry's values.
    #[inline]
    fn values_len(&self, fid: &Fid) -> usize {
        let handle = if self.has_handle { 4 + xdr::padded(Handle::len_of(fid)) } else { 0 };
        let error = if self.has_error { 4 } else { 0 };
        let birth = if self.has_birth { TIME } else { 0 };
        FIRST - BEFORE_VALUES + error + handle + MIDDLE + self.owners.len + ACCESSED + birth + LAST
    }

    /// Fills the place of an entry, behind which there is [`SLACK`].
    #[inline(always)]
    fn fill(
        &self,
        place: &mut [u8],
        entry: &DirEntry<'_>,
        Node { fid, attr }: &Node,
        birth: Option<Time>,
        values: usize,
    ) -> Option<()> {
        let (head, rest) = place.split_first_chunk_mut::<HEAD>()?;
        let mut fields = Fields::of(head);
        fields.u32(1);
        fields.u64(entry.cookie);
        fields.u32(u32::try_from(entry.name.len()).ok()?);
        let (name, rest) = rest.split_at_mut_checked(xdr::padded(entry.name.len()))?;
        // the padding is in the last word; the name's end is written after that
        if let Some(last) = name.last_chunk_mut::<4>() {
            *last = [0; 4];
        }
        name.get_mut(..entry.name.len())?.copy_from_slice(entry.name);
        let (first, mut rest) = rest.split_first_chunk_mut::<FIRST>()?;
        let mut fields = Fields::of(first);
        let [first_mask, second_mask] = self.mask;
        fields.u32(2);
        fields.u32(first_mask);
        fields.u32(second_mask);
        fields.u32(u32::try_from(values).ok()?);
        fields.u32(file_type(attr.ftype).number());
        fields.u64(attr.change);
        fields.u64(attr.size);
        fields.bytes(self.fsid.1);
        if self.has_error {
            let (error, behind) = rest.split_first_chunk_mut::<4>()?;
            *error = [0; 4];
            rest = behind;
        }
        if self.has_handle {
            let (length, behind) = rest.split_first_chunk_mut::<4>()?;
            let len = Handle::len_of(fid);
            *length = u32::try_from(len).ok()?.to_be_bytes();
            self.export.seal_into(fid, behind.first_chunk_mut()?);
            *behind.get_mut(len..)?.first_chunk_mut::<4>()? = [0; 4];
            rest = behind.get_mut(xdr::padded(len)..)?;
        }
        let (middle, rest) = rest.split_first_chunk_mut::<MIDDLE>()?;
        let mut fields = Fields::of(middle);
        fields.u64(attr.fileid);
        fields.u32(u32::from(attr.mode) & 0o7777);
        fields.u32(attr.nlink);
        // with what is behind them: a constant length needs no call
        *rest.first_chunk_mut::<OWNERS_MAX>()? = self.owners.bytes;
        let rest = rest.get_mut(self.owners.len..)?;
        put_rest(attr, birth, entry.fileid, rest)
    }
}

/// Puts what comes behind the owners.
#[inline(always)]
fn put_rest(attr: &Attr, birth: Option<Time>, mounted_on: u64, place: &mut [u8]) -> Option<()> {
    let (accessed, mut rest) = place.split_first_chunk_mut::<ACCESSED>()?;
    let mut fields = Fields::of(accessed);
    let (major, minor) = attr.rdev;
    fields.u32(major);
    fields.u32(minor);
    fields.u64(attr.used);
    put_time(attr.atime, &mut fields);
    if let Some(birth) = birth {
        let (created, behind) = rest.split_first_chunk_mut::<TIME>()?;
        put_time(birth, &mut Fields::of(created));
        rest = behind;
    }
    let mut fields = Fields::of(rest.first_chunk_mut::<LAST>()?);
    put_time(attr.ctime, &mut fields);
    put_time(attr.mtime, &mut fields);
    fields.u64(mounted_on);
    Some(())
}

#[inline(always)]
fn put_time(time: Time, fields: &mut Fields<'_>) {
    fields.u64(time.sec.cast_unsigned());
    fields.u32(time.nsec);
}
