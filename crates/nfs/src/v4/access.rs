//! ACCESS (RFC 8881 §18.1).

use super::frame::Frame;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::{AccessArgs, Nfsstat4};
use vfs::{AccessMask, FileType};
use xdr::{Reader, Writer};

/// All permissions of version 4.1, which are those of version 3.
const ALL: u32 = 0x3f;

pub(super) fn access<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    reply: &mut Writer,
) -> Result<(), Failed> {
    let AccessArgs { access } = args.get()?;
    if access & !ALL != 0 {
        return Err(Nfsstat4::Inval.into());
    }
    let (granted, attr) = verbs::access(frame.object()?, AccessMask(access))?;
    let common = AccessMask::READ | AccessMask::MODIFY | AccessMask::EXTEND;
    let known = match attr.ftype {
        FileType::Directory => common | AccessMask::LOOKUP | AccessMask::DELETE,
        _ => common | AccessMask::EXECUTE,
    };
    reply.words([access & known.0, (granted & known).0]);
    Ok(())
}
