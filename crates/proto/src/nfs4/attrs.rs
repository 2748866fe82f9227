//! The attributes (RFC 8881 §5.6, §5.7, RFC 7862 §12, RFC 8275, RFC 8276): number, name, the minor version that defined them, and which of GETATTR and
//! SETATTR takes them; and which of them the Linux client asks for.

use super::Bitmap4;

/// Attribute numbers (`FATTR4_*`, RFC 7863).
pub mod attr {
    /// `supported_attrs`.
    pub const SUPPORTED_ATTRS: u32 = 0;
    /// `type`.
    pub const TYPE: u32 = 1;
    /// `fh_expire_type`.
    pub const FH_EXPIRE_TYPE: u32 = 2;
    /// `change`.
    pub const CHANGE: u32 = 3;
    /// `size`.
    pub const SIZE: u32 = 4;
    /// `link_support`.
    pub const LINK_SUPPORT: u32 = 5;
    /// `symlink_support`.
    pub const SYMLINK_SUPPORT: u32 = 6;
    /// `named_attr`.
    pub const NAMED_ATTR: u32 = 7;
    /// `fsid`.
    pub const FSID: u32 = 8;
    /// `unique_handles`.
    pub const UNIQUE_HANDLES: u32 = 9;
    /// `lease_time`.
    pub const LEASE_TIME: u32 = 10;
    /// `rdattr_error`.
    pub const RDATTR_ERROR: u32 = 11;
    /// `acl`.
    pub const ACL: u32 = 12;
    /// `aclsupport`.
    pub const ACLSUPPORT: u32 = 13;
    /// `archive`.
    pub const ARCHIVE: u32 = 14;
    /// `cansettime`.
    pub const CANSETTIME: u32 = 15;
    /// `case_insensitive`.
    pub const CASE_INSENSITIVE: u32 = 16;
    /// `case_preserving`.
    pub const CASE_PRESERVING: u32 = 17;
    /// `chown_restricted`.
    pub const CHOWN_RESTRICTED: u32 = 18;
    /// `filehandle`.
    pub const FILEHANDLE: u32 = 19;
    /// `fileid`.
    pub const FILEID: u32 = 20;
    /// `files_avail`.
    pub const FILES_AVAIL: u32 = 21;
    /// `files_free`.
    pub const FILES_FREE: u32 = 22;
    /// `files_total`.
    pub const FILES_TOTAL: u32 = 23;
    /// `fs_locations`.
    pub const FS_LOCATIONS: u32 = 24;
    /// `hidden`.
    pub const HIDDEN: u32 = 25;
    /// `homogeneous`.
    pub const HOMOGENEOUS: u32 = 26;
    /// `maxfilesize`.
    pub const MAXFILESIZE: u32 = 27;
    /// `maxlink`.
    pub const MAXLINK: u32 = 28;
    /// `maxname`.
    pub const MAXNAME: u32 = 29;
    /// `maxread`.
    pub const MAXREAD: u32 = 30;
    /// `maxwrite`.
    pub const MAXWRITE: u32 = 31;
    /// `mimetype`.
    pub const MIMETYPE: u32 = 32;
    /// `mode`.
    pub const MODE: u32 = 33;
    /// `no_trunc`.
    pub const NO_TRUNC: u32 = 34;
    /// `numlinks`.
    pub const NUMLINKS: u32 = 35;
    /// `owner`.
    pub const OWNER: u32 = 36;
    /// `owner_group`.
    pub const OWNER_GROUP: u32 = 37;
    /// `quota_avail_hard`.
    pub const QUOTA_AVAIL_HARD: u32 = 38;
    /// `quota_avail_soft`.
    pub const QUOTA_AVAIL_SOFT: u32 = 39;
    /// `quota_used`.
    pub const QUOTA_USED: u32 = 40;
    /// `rawdev`.
    pub const RAWDEV: u32 = 41;
    /// `space_avail`.
    pub const SPACE_AVAIL: u32 = 42;
    /// `space_free`.
    pub const SPACE_FREE: u32 = 43;
    /// `space_total`.
    pub const SPACE_TOTAL: u32 = 44;
    /// `space_used`.
    pub const SPACE_USED: u32 = 45;
    /// `system`.
    pub const SYSTEM: u32 = 46;
    /// `time_access`.
    pub const TIME_ACCESS: u32 = 47;
    /// `time_access_set`.
    pub const TIME_ACCESS_SET: u32 = 48;
    /// `time_backup`.
    pub const TIME_BACKUP: u32 = 49;
    /// `time_create`.
    pub const TIME_CREATE: u32 = 50;
    /// `time_delta`.
    pub const TIME_DELTA: u32 = 51;
    /// `time_metadata`.
    pub const TIME_METADATA: u32 = 52;
    /// `time_modify`.
    pub const TIME_MODIFY: u32 = 53;
    /// `time_modify_set`.
    pub const TIME_MODIFY_SET: u32 = 54;
    /// `mounted_on_fileid`.
    pub const MOUNTED_ON_FILEID: u32 = 55;
    /// `dir_notif_delay`.
    pub const DIR_NOTIF_DELAY: u32 = 56;
    /// `dirent_notif_delay`.
    pub const DIRENT_NOTIF_DELAY: u32 = 57;
    /// `dacl`.
    pub const DACL: u32 = 58;
    /// `sacl`.
    pub const SACL: u32 = 59;
    /// `change_policy`.
    pub const CHANGE_POLICY: u32 = 60;
    /// `fs_status`.
    pub const FS_STATUS: u32 = 61;
    /// `fs_layout_types`.
    pub const FS_LAYOUT_TYPES: u32 = 62;
    /// `layout_hint`.
    pub const LAYOUT_HINT: u32 = 63;
    /// `layout_types`.
    pub const LAYOUT_TYPES: u32 = 64;
    /// `layout_blksize`.
    pub const LAYOUT_BLKSIZE: u32 = 65;
    /// `layout_alignment`.
    pub const LAYOUT_ALIGNMENT: u32 = 66;
    /// `fs_locations_info`.
    pub const FS_LOCATIONS_INFO: u32 = 67;
    /// `mdsthreshold`.
    pub const MDSTHRESHOLD: u32 = 68;
    /// `retention_get`.
    pub const RETENTION_GET: u32 = 69;
    /// `retention_set`.
    pub const RETENTION_SET: u32 = 70;
    /// `retentevt_get`.
    pub const RETENTEVT_GET: u32 = 71;
    /// `retentevt_set`.
    pub const RETENTEVT_SET: u32 = 72;
    /// `retention_hold`.
    pub const RETENTION_HOLD: u32 = 73;
    /// `mode_set_masked`.
    pub const MODE_SET_MASKED: u32 = 74;
    /// `suppattr_exclcreat`.
    pub const SUPPATTR_EXCLCREAT: u32 = 75;
    /// `fs_charset_cap`.
    pub const FS_CHARSET_CAP: u32 = 76;
    /// `clone_blksize`.
    pub const CLONE_BLKSIZE: u32 = 77;
    /// `space_freed`.
    pub const SPACE_FREED: u32 = 78;
    /// `change_attr_type`.
    pub const CHANGE_ATTR_TYPE: u32 = 79;
    /// `sec_label`.
    pub const SEC_LABEL: u32 = 80;
    /// `mode_umask`.
    pub const MODE_UMASK: u32 = 81;
    /// `xattr_support`.
    pub const XATTR_SUPPORT: u32 = 82;
    /// `offline`.
    pub const OFFLINE: u32 = 83;
    /// `time_deleg_access`.
    pub const TIME_DELEG_ACCESS: u32 = 84;
    /// `time_deleg_modify`.
    pub const TIME_DELEG_MODIFY: u32 = 85;
    /// `open_arguments`.
    pub const OPEN_ARGUMENTS: u32 = 86;
}

/// What the Linux client's GETATTR asks of a file (its `nfs4_fattr_bitmap`). With a filehandle and `rdattr_error` its READDIR asks the
/// same of each entry.
pub const LINUX_GETATTR: Bitmap4 = Bitmap4::of(&[
    attr::TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::FSID,
    attr::FILEID,
    attr::MODE,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::RAWDEV,
    attr::SPACE_USED,
    attr::TIME_ACCESS,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::MOUNTED_ON_FILEID,
]);

/// What tells the Linux client whether a file has changed (its `cache_consistency_bitmask`): it asks for it behind ACCESS and WRITE.
pub const LINUX_CACHE_CONSISTENCY: Bitmap4 =
    Bitmap4::of(&[attr::CHANGE, attr::SIZE, attr::TIME_METADATA, attr::TIME_MODIFY]);

/// An attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttrInfo {
    /// The number, which is its bit in a bitmap.
    pub number: u32,
    /// The name in the RFC.
    pub name: &'static str,
    /// The first minor version that has it.
    pub since: u32,
    /// Whether GETATTR, READDIR, VERIFY and NVERIFY take it.
    pub readable: bool,
    /// Whether SETATTR, CREATE and OPEN take it.
    pub settable: bool,
}

const fn read_only(number: u32, name: &'static str, since: u32) -> AttrInfo {
    AttrInfo { number, name, since, readable: true, settable: false }
}

const fn write_only(number: u32, name: &'static str, since: u32) -> AttrInfo {
    AttrInfo { number, name, since, readable: false, settable: true }
}

const fn both(number: u32, name: &'static str, since: u32) -> AttrInfo {
    AttrInfo { number, name, since, readable: true, settable: true }
}

/// The attributes of versions 4.0 to 4.2, RFC 8275, RFC 8276 and RFC 9754 included, by number.
pub static ATTRS: [AttrInfo; 87] = [
    read_only(attr::SUPPORTED_ATTRS, "supported_attrs", 0),
    read_only(attr::TYPE, "type", 0),
    read_only(attr::FH_EXPIRE_TYPE, "fh_expire_type", 0),
    read_only(attr::CHANGE, "change", 0),
    both(attr::SIZE, "size", 0),
    read_only(attr::LINK_SUPPORT, "link_support", 0),
    read_only(attr::SYMLINK_SUPPORT, "symlink_support", 0),
    read_only(attr::NAMED_ATTR, "named_attr", 0),
    read_only(attr::FSID, "fsid", 0),
    read_only(attr::UNIQUE_HANDLES, "unique_handles", 0),
    read_only(attr::LEASE_TIME, "lease_time", 0),
    read_only(attr::RDATTR_ERROR, "rdattr_error", 0),
    both(attr::ACL, "acl", 0),
    read_only(attr::ACLSUPPORT, "aclsupport", 0),
    both(attr::ARCHIVE, "archive", 0),
    read_only(attr::CANSETTIME, "cansettime", 0),
    read_only(attr::CASE_INSENSITIVE, "case_insensitive", 0),
    read_only(attr::CASE_PRESERVING, "case_preserving", 0),
    read_only(attr::CHOWN_RESTRICTED, "chown_restricted", 0),
    read_only(attr::FILEHANDLE, "filehandle", 0),
    read_only(attr::FILEID, "fileid", 0),
    read_only(attr::FILES_AVAIL, "files_avail", 0),
    read_only(attr::FILES_FREE, "files_free", 0),
    read_only(attr::FILES_TOTAL, "files_total", 0),
    read_only(attr::FS_LOCATIONS, "fs_locations", 0),
    both(attr::HIDDEN, "hidden", 0),
    read_only(attr::HOMOGENEOUS, "homogeneous", 0),
    read_only(attr::MAXFILESIZE, "maxfilesize", 0),
    read_only(attr::MAXLINK, "maxlink", 0),
    read_only(attr::MAXNAME, "maxname", 0),
    read_only(attr::MAXREAD, "maxread", 0),
    read_only(attr::MAXWRITE, "maxwrite", 0),
    both(attr::MIMETYPE, "mimetype", 0),
    both(attr::MODE, "mode", 0),
    read_only(attr::NO_TRUNC, "no_trunc", 0),
    read_only(attr::NUMLINKS, "numlinks", 0),
    both(attr::OWNER, "owner", 0),
    both(attr::OWNER_GROUP, "owner_group", 0),
    read_only(attr::QUOTA_AVAIL_HARD, "quota_avail_hard", 0),
    read_only(attr::QUOTA_AVAIL_SOFT, "quota_avail_soft", 0),
    read_only(attr::QUOTA_USED, "quota_used", 0),
    read_only(attr::RAWDEV, "rawdev", 0),
    read_only(attr::SPACE_AVAIL, "space_avail", 0),
    read_only(attr::SPACE_FREE, "space_free", 0),
    read_only(attr::SPACE_TOTAL, "space_total", 0),
    read_only(attr::SPACE_USED, "space_used", 0),
    both(attr::SYSTEM, "system", 0),
    read_only(attr::TIME_ACCESS, "time_access", 0),
    write_only(attr::TIME_ACCESS_SET, "time_access_set", 0),
    both(attr::TIME_BACKUP, "time_backup", 0),
    both(attr::TIME_CREATE, "time_create", 0),
    read_only(attr::TIME_DELTA, "time_delta", 0),
    read_only(attr::TIME_METADATA, "time_metadata", 0),
    read_only(attr::TIME_MODIFY, "time_modify", 0),
    write_only(attr::TIME_MODIFY_SET, "time_modify_set", 0),
    read_only(attr::MOUNTED_ON_FILEID, "mounted_on_fileid", 0),
    read_only(attr::DIR_NOTIF_DELAY, "dir_notif_delay", 1),
    read_only(attr::DIRENT_NOTIF_DELAY, "dirent_notif_delay", 1),
    both(attr::DACL, "dacl", 1),
    both(attr::SACL, "sacl", 1),
    read_only(attr::CHANGE_POLICY, "change_policy", 1),
    read_only(attr::FS_STATUS, "fs_status", 1),
    read_only(attr::FS_LAYOUT_TYPES, "fs_layout_types", 1),
    write_only(attr::LAYOUT_HINT, "layout_hint", 1),
    read_only(attr::LAYOUT_TYPES, "layout_types", 1),
    read_only(attr::LAYOUT_BLKSIZE, "layout_blksize", 1),
    read_only(attr::LAYOUT_ALIGNMENT, "layout_alignment", 1),
    read_only(attr::FS_LOCATIONS_INFO, "fs_locations_info", 1),
    read_only(attr::MDSTHRESHOLD, "mdsthreshold", 1),
    read_only(attr::RETENTION_GET, "retention_get", 1),
    write_only(attr::RETENTION_SET, "retention_set", 1),
    read_only(attr::RETENTEVT_GET, "retentevt_get", 1),
    write_only(attr::RETENTEVT_SET, "retentevt_set", 1),
    both(attr::RETENTION_HOLD, "retention_hold", 1),
    write_only(attr::MODE_SET_MASKED, "mode_set_masked", 1),
    read_only(attr::SUPPATTR_EXCLCREAT, "suppattr_exclcreat", 1),
    read_only(attr::FS_CHARSET_CAP, "fs_charset_cap", 1),
    read_only(attr::CLONE_BLKSIZE, "clone_blksize", 2),
    read_only(attr::SPACE_FREED, "space_freed", 2),
    read_only(attr::CHANGE_ATTR_TYPE, "change_attr_type", 2),
    both(attr::SEC_LABEL, "sec_label", 2),
    write_only(attr::MODE_UMASK, "mode_umask", 2),
    read_only(attr::XATTR_SUPPORT, "xattr_support", 2),
    read_only(attr::OFFLINE, "offline", 2),
    write_only(attr::TIME_DELEG_ACCESS, "time_deleg_access", 2),
    write_only(attr::TIME_DELEG_MODIFY, "time_deleg_modify", 2),
    read_only(attr::OPEN_ARGUMENTS, "open_arguments", 2),
];
