//! Attributes on the wire (RFC 8881 §5): which are supported, and their values.

use super::frame::Frame;
use super::owner::Owners;
use super::quota_attrs::{self, QuotaSpace};
use super::status::Failed;
use super::{acl, attr_sets, fs_locations, open_arguments, usual_attrs};
use crate::object::Object;
use export::{Export, OwnerKind};
use proto::nfs4::{ATTRS, Bitmap4, ChangeInfo4, FileType4, Nfsstat4, attr as a};
use vfs::acl4::Ace;
use vfs::{Attr, Change, ChangeKind, Fid, FileType, Limits, StatFs, Time, Want};
use xdr::{Writer, hyper};

/// The attributes that this server has.
pub(super) const SUPPORTED: Bitmap4 = Bitmap4::of(&[
    a::SUPPORTED_ATTRS,
    a::TYPE,
    a::FH_EXPIRE_TYPE,
    a::CHANGE,
    a::SIZE,
    a::LINK_SUPPORT,
    a::SYMLINK_SUPPORT,
    a::NAMED_ATTR,
    a::FSID,
    a::UNIQUE_HANDLES,
    a::LEASE_TIME,
    a::RDATTR_ERROR,
    a::ACL,
    a::ACLSUPPORT,
    a::CANSETTIME,
    a::CASE_INSENSITIVE,
    a::CASE_PRESERVING,
    a::CHOWN_RESTRICTED,
    a::FILEHANDLE,
    a::FILEID,
    a::FILES_AVAIL,
    a::FILES_FREE,
    a::FILES_TOTAL,
    a::FS_LOCATIONS,
    a::HOMOGENEOUS,
    a::MAXFILESIZE,
    a::MAXLINK,
    a::MAXNAME,
    a::MAXREAD,
    a::MAXWRITE,
    a::MODE,
    a::NO_TRUNC,
    a::NUMLINKS,
    a::OWNER,
    a::OWNER_GROUP,
    a::QUOTA_AVAIL_HARD,
    a::QUOTA_AVAIL_SOFT,
    a::QUOTA_USED,
    a::RAWDEV,
    a::SPACE_AVAIL,
    a::SPACE_FREE,
    a::SPACE_TOTAL,
    a::SPACE_USED,
    a::TIME_ACCESS,
    a::TIME_ACCESS_SET,
    a::TIME_CREATE,
    a::TIME_DELTA,
    a::TIME_METADATA,
    a::TIME_MODIFY,
    a::TIME_MODIFY_SET,
    a::MOUNTED_ON_FILEID,
    a::SUPPATTR_EXCLCREAT,
    a::CLONE_BLKSIZE,
    a::CHANGE_ATTR_TYPE,
    a::MODE_UMASK,
    a::XATTR_SUPPORT,
    a::TIME_DELEG_ACCESS,
    a::TIME_DELEG_MODIFY,
    a::OPEN_ARGUMENTS,
]);

/// What EXCLUSIVE4_1 sets at once: not the times, which hold its verifier.
pub(super) const EXCLUSIVE: Bitmap4 =
    Bitmap4::of(&[a::SIZE, a::MODE, a::OWNER, a::OWNER_GROUP, a::MODE_UMASK]);

/// Attributes of the file system's space.
static SPACE: Bitmap4 = Bitmap4::of(&[
    a::FILES_AVAIL,
    a::FILES_FREE,
    a::FILES_TOTAL,
    a::SPACE_AVAIL,
    a::SPACE_FREE,
    a::SPACE_TOTAL,
]);

/// Attributes that say what the file system can do.
static LIMITS: Bitmap4 = Bitmap4::of(&[
    a::LINK_SUPPORT,
    a::SYMLINK_SUPPORT,
    a::CASE_INSENSITIVE,
    a::CHOWN_RESTRICTED,
    a::MAXFILESIZE,
    a::MAXLINK,
    a::MAXNAME,
    a::TIME_DELTA,
    a::CHANGE_ATTR_TYPE,
    a::CLONE_BLKSIZE,
]);

/// What not every file system knows of its objects.
pub(super) static BIRTH: Bitmap4 = Bitmap4::of(&[a::TIME_CREATE]);

/// Attributes that can only be set.
static WRITE_ONLY: Bitmap4 = Bitmap4::of(&[
    a::TIME_ACCESS_SET,
    a::TIME_MODIFY_SET,
    a::MODE_UMASK,
    a::TIME_DELEG_ACCESS,
    a::TIME_DELEG_MODIFY,
]);

/// What is asked of the back end for these attributes.
pub(super) fn want(asked: &Bitmap4) -> Want {
    if asked.has(a::TIME_CREATE) { Want::BIRTH } else { Want::STAT }
}

/// Refuses attributes that can only be set; those that are not supported are left out of the answer.
///
/// # Errors
/// NFS4ERR_INVAL.
pub(super) fn check_readable(asked: &Bitmap4) -> Result<(), Failed> {
    if asked.intersects(&WRITE_ONLY) { Err(Nfsstat4::Inval.into()) } else { Ok(()) }
}

/// What the values of one object are made of.
pub(super) struct Facts<'a> {
    pub fid: &'a Fid,
    pub attr: &'a Attr,
    pub export: &'a Export,
    /// The ACL, if asked for.
    pub acl: Option<&'a [Ace]>,
    /// What quotas leave, if asked for.
    pub quota: QuotaSpace,
    /// How owners are written.
    pub owners: Owners<'a>,
    /// The file id of the directory that the object covers, or its own.
    pub mounted_on: u64,
    /// Of the file system, if asked for.
    pub shared: &'a Shared,
}

/// What the objects of one file system have in common.
pub(super) struct Shared {
    /// The attributes of its objects, if asked for.
    pub supported: Bitmap4,
    pub is_pseudo: bool,
    /// Whether ACLs are shown and set, if asked for.
    pub has_acls: bool,
    /// What EXCLUSIVE4_1 sets, if asked for.
    pub exclusive: Bitmap4,
    pub limits: Option<Limits>,
    pub space: Option<StatFs>,
    /// The value of `fs_locations`, if asked for.
    pub locations: Vec<u8>,
    pub lease_s: u32,
    pub max_read: u32,
    pub max_write: u32,
}

/// Where nothing is asked for that the objects have in common.
static UNASKED: Shared = Shared::unasked(false);
static UNASKED_PSEUDO: Shared = Shared::unasked(true);

impl Shared {
    const fn unasked(is_pseudo: bool) -> Self {
        Self {
            supported: Bitmap4::NONE,
            is_pseudo,
            has_acls: false,
            exclusive: Bitmap4::NONE,
            limits: None,
            space: None,
            locations: Vec::new(),
            lease_s: 0,
            max_read: 0,
            max_write: 0,
        }
    }

    /// What these attributes need of the file system of an object.
    ///
    /// # Errors
    /// Those of asking for its space.
    pub fn of(frame: &Frame<'_>, object: &Object<'_>, asked: &Bitmap4) -> Result<Self, Failed> {
        let backend = object.backend();
        let space = if asked.intersects(&SPACE) {
            Some(backend.statfs(&object.cx(), &object.fid)?)
        } else {
            None
        };
        let transport = frame.caller.peer().transport;
        let lease_s = frame.v4().state.lease_ms() / 1000;
        Ok(Self {
            supported: match asked.has(a::SUPPORTED_ATTRS) {
                true => attr_sets::supported(frame, object)?,
                false => Bitmap4::NONE,
            },
            is_pseudo: frame.caller.table().pseudo().is(object.export()),
            has_acls: asked.has(a::ACLSUPPORT) && acl::has_acls(object),
            exclusive: match asked.has(a::SUPPATTR_EXCLCREAT) {
                true => attr_sets::of_minor(frame.minor).and(&EXCLUSIVE),
                false => Bitmap4::NONE,
            },
            limits: asked.intersects(&LIMITS).then(|| backend.limits()),
            space,
            locations: match asked.has(a::FS_LOCATIONS) {
                true => fs_locations::value(frame, object.export()),
                false => Vec::new(),
            },
            lease_s: u32::try_from(lease_s).unwrap_or(u32::MAX),
            max_read: frame.nfs.settings.read_max(transport),
            max_write: frame.nfs.settings.write_max(transport),
        })
    }
}

/// Appends `fattr4` of an object with the attributes that are asked for and supported.
///
/// # Errors
/// Those of asking for the file system's space.
pub(super) fn put(
    frame: &Frame<'_>,
    object: &Object<'_>,
    attr: &Attr,
    asked: &Bitmap4,
    reply: &mut Writer,
) -> Result<(), Failed> {
    if *asked == usual_attrs::CONSISTENCY {
        usual_attrs::put_consistency(attr, reply);
        return Ok(());
    }
    let owners = Owners::of(frame.caller);
    if owners.are_numbers() && usual_attrs::are_asked(asked) {
        let is_pseudo = frame.caller.table().pseudo().is(object.export());
        let mounted_on = mounted_on(frame, object, attr);
        usual_attrs::put_asked(attr, (object.export(), is_pseudo), mounted_on, reply);
        return Ok(());
    }
    let mut given = attr_sets::given(frame, object, asked);
    let quota = quota_attrs::of(object, attr, &mut given)?;
    if attr.birth.known().is_none() {
        given = given.without(&BIRTH);
    }
    let own;
    let shared = if usual_attrs::are_usual(&given) {
        let is_pseudo = frame.caller.table().pseudo().is(object.export());
        if is_pseudo { &UNASKED_PSEUDO } else { &UNASKED }
    } else {
        own = Shared::of(frame, object, &given)?;
        &own
    };
    let mounted_on = match given.has(a::MOUNTED_ON_FILEID) {
        true => mounted_on(frame, object, attr),
        false => attr.fileid,
    };
    let aces = if given.has(a::ACL) { Some(acl::of(object)?) } else { None };
    owners.prepare(attr);
    let facts = Facts {
        fid: &object.fid,
        attr,
        export: object.export(),
        owners,
        acl: aces.as_deref(),
        quota,
        mounted_on,
        shared,
    };
    put_facts(&facts, &given, reply);
    Ok(())
}

/// The file id of the directory that an object covers: for the root of an export that of its node, else its own.
#[inline]
fn mounted_on(frame: &Frame<'_>, object: &Object<'_>, attr: &Attr) -> u64 {
    match attr.ftype {
        FileType::Directory => mounted_on_by_directory(frame, object, attr.fileid),
        _ => attr.fileid,
    }
}

/// The same of a directory with this file id.
pub(super) fn mounted_on_by_directory(frame: &Frame<'_>, object: &Object<'_>, own: u64) -> u64 {
    let export = object.export();
    if object.fid != export.backend.root() {
        return own;
    }
    let table = frame.caller.table();
    if let Some(covered) = table.covered_dir(export).and_then(|(_, dir)| dir.covered_fileid) {
        return covered;
    }
    table.pseudo().covered_fileid(export, table.exports()).unwrap_or(own)
}

/// Appends `fattr4` with these attributes, all of which are supported.
pub(super) fn put_facts(facts: &Facts<'_>, given: &Bitmap4, reply: &mut Writer) {
    reply.put(given);
    let len = reply.mark();
    reply.u32(0);
    let values = reply.mark();
    if facts.owners.are_numbers() && usual_attrs::are_usual(given) {
        usual_attrs::put(facts, given, reply);
    } else {
        for number in given.iter() {
            put_value(facts, number, reply);
        }
    }
    let bytes = reply.written_since(values);
    reply.patch_u32(len, u32::try_from(bytes).unwrap_or(u32::MAX));
}

/// Appends one value.
fn put_value(facts: &Facts<'_>, number: u32, w: &mut Writer) {
    let Facts { fid, attr, export, shared, .. } = facts;
    match number {
        a::SUPPORTED_ATTRS => w.put(&shared.supported),
        a::TYPE => w.put(&file_type(attr.ftype)),
        // filehandles are persistent
        a::FH_EXPIRE_TYPE => w.u32(0),
        a::CHANGE => w.u64(attr.change),
        a::SIZE => w.u64(attr.size),
        // there are no named attributes
        a::NAMED_ATTR => w.u32(0),
        a::ACL => acl::put(facts.acl.unwrap_or_default(), facts.owners, w),
        // ACL4_SUPPORT_ALLOW_ACL, ACL4_SUPPORT_DENY_ACL
        a::ACLSUPPORT => w.u32(if shared.has_acls { 3 } else { 0 }),
        a::FSID => put_fsid(export, attr.fsid, shared.is_pseudo, w),
        a::UNIQUE_HANDLES | a::CANSETTIME | a::CASE_PRESERVING | a::HOMOGENEOUS | a::NO_TRUNC => {
            w.bool(true);
        }
        a::XATTR_SUPPORT => w.bool(export.backend.xattrs().is_some()),
        a::LEASE_TIME => w.u32(shared.lease_s),
        a::RDATTR_ERROR => w.u32(0),
        a::FILEHANDLE => {
            let handle = export.seal(fid);
            let (bytes, len) = handle.padded();
            w.opaque_within(bytes, len);
        }
        a::FILEID => w.u64(attr.fileid),
        a::FS_LOCATIONS => w.raw(&shared.locations),
        a::MAXREAD => w.u64(shared.max_read.into()),
        a::MAXWRITE => w.u64(shared.max_write.into()),
        a::MODE => w.u32(u32::from(attr.mode) & 0o7777),
        a::NUMLINKS => w.u32(attr.nlink),
        a::OWNER => facts.owners.put(OwnerKind::User, attr.uid, w),
        a::OWNER_GROUP => facts.owners.put(OwnerKind::Group, attr.gid, w),
        a::QUOTA_AVAIL_HARD => w.u64(facts.quota.avail_hard.unwrap_or_default()),
        a::QUOTA_AVAIL_SOFT => w.u64(facts.quota.avail_soft.unwrap_or_default()),
        a::QUOTA_USED => w.u64(facts.quota.used.unwrap_or_default()),
        a::RAWDEV => w.words([attr.rdev.0, attr.rdev.1]),
        a::SPACE_USED => w.u64(attr.used),
        a::TIME_ACCESS => put_time(attr.atime, w),
        a::TIME_CREATE => put_time(attr.birth.known().unwrap_or_default(), w),
        a::TIME_METADATA => put_time(attr.ctime, w),
        a::TIME_MODIFY => put_time(attr.mtime, w),
        a::MOUNTED_ON_FILEID => w.u64(facts.mounted_on),
        a::SUPPATTR_EXCLCREAT => w.put(&shared.exclusive),
        a::OPEN_ARGUMENTS => open_arguments::put(w),
        _ => put_file_system_value(shared, number, w),
    }
}

/// Appends a value that the whole file system has.
fn put_file_system_value(shared: &Shared, number: u32, w: &mut Writer) {
    if let Some(limits) = &shared.limits {
        match number {
            a::LINK_SUPPORT => return w.bool(limits.hard_links),
            a::SYMLINK_SUPPORT => return w.bool(limits.symlinks),
            a::CASE_INSENSITIVE => return w.bool(limits.case_insensitive),
            a::CHOWN_RESTRICTED => return w.bool(limits.chown_restricted),
            a::MAXFILESIZE => return w.u64(limits.file_size_max),
            a::MAXLINK => return w.u32(limits.link_max),
            a::MAXNAME => return w.u32(limits.name_max),
            a::TIME_DELTA => return put_time(Time { sec: 0, nsec: limits.time_delta_ns }, w),
            a::CLONE_BLKSIZE => return w.u32(limits.clone_block.unwrap_or(0)),
            a::CHANGE_ATTR_TYPE => return w.u32(change_attr_type(limits.change_kind)),
            _ => {}
        }
    }
    if let Some(space) = &shared.space {
        match number {
            a::FILES_AVAIL => w.u64(space.avail_files),
            a::FILES_FREE => w.u64(space.free_files),
            a::FILES_TOTAL => w.u64(space.total_files),
            a::SPACE_AVAIL => w.u64(space.avail_bytes),
            a::SPACE_FREE => w.u64(space.free_bytes),
            a::SPACE_TOTAL => w.u64(space.total_bytes),
            _ => {}
        }
    }
}

/// `change_attr_type4` (RFC 7862 §12.2.3).
const fn change_attr_type(kind: ChangeKind) -> u32 {
    match kind {
        ChangeKind::MonotonicIncrement => 0,
        ChangeKind::TimeMetadata => 3,
        ChangeKind::Undefined => 4,
    }
}

/// Appends [`fsid_of`]; zeros for the pseudo file system.
pub(super) fn put_fsid(export: &Export, fsid: u64, is_pseudo: bool, w: &mut Writer) {
    if is_pseudo {
        return w.words([0; 4]);
    }
    w.raw(&fsid_of(export, fsid));
}

/// The export's UUID, which a restart does not change, another one for each subvolume.
#[inline]
pub(super) fn fsid_of(export: &Export, fsid: u64) -> [u8; 16] {
    let subvolume = u128::from(fsid ^ export.root_fsid);
    (u128::from_be_bytes(export.uuid) ^ subvolume).to_be_bytes()
}

fn put_time(time: Time, w: &mut Writer) {
    let [high, low] = hyper(time.sec.cast_unsigned());
    w.words([high, low, time.nsec]);
}

pub(super) const fn file_type(ftype: FileType) -> FileType4 {
    match ftype {
        FileType::Regular => FileType4::Reg,
        FileType::Directory => FileType4::Dir,
        FileType::Symlink => FileType4::Lnk,
        FileType::Block => FileType4::Blk,
        FileType::Char => FileType4::Chr,
        FileType::Fifo => FileType4::Fifo,
        FileType::Socket => FileType4::Sock,
    }
}

/// What a change did to the change attribute of a directory. Without both sides it is not atomic, and a client reads the
/// attributes again.
pub(super) fn change_info(change: &Change) -> ChangeInfo4 {
    let (before, after) =
        (change.before.map(|attr| attr.change), change.after.map(|attr| attr.change));
    ChangeInfo4 {
        atomic: before.is_some() && after.is_some(),
        before: before.unwrap_or_default(),
        after: after.unwrap_or_default(),
    }
}

/// Refuses attributes of VERIFY and NVERIFY that cannot be compared.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP; NFS4ERR_INVAL for attributes that can only be set, and for `rdattr_error`.
pub(super) fn check_comparable(supported: &Bitmap4, asked: &Bitmap4) -> Result<(), Failed> {
    check_readable(asked)?;
    if asked.has(a::RDATTR_ERROR) {
        return Err(Nfsstat4::Inval.into());
    }
    if supported.covers(asked) { Ok(()) } else { Err(Nfsstat4::AttrNotSupp.into()) }
}

/// Whether some minor version that this server has defines an attribute.
pub(super) fn is_known(number: u32) -> bool {
    usize::try_from(number).is_ok_and(|number| number < ATTRS.len())
}

/// Whether an attribute of this number can be set at all.
pub(super) fn is_settable(number: u32) -> bool {
    let row = usize::try_from(number).ok().and_then(|number| ATTRS.get(number));
    row.is_some_and(|row| row.settable)
}

#[cfg(test)]
mod tests {
    use super::{ATTRS, SUPPORTED};

    #[test]
    fn required_attributes_are_supported() {
        // RFC 8881 §5.6
        let required = (0..=11).chain([19, 75]);
        assert!(required.clone().all(|number| SUPPORTED.has(number)));
        assert!(SUPPORTED.iter().all(|number| (number as usize) < ATTRS.len()));
    }
}
