//! VERIFY and NVERIFY (RFC 8881 §18.31, §18.15): the rest of the COMPOUND runs only if attributes are, or are not, what the
//! client believes.

use super::absent;
use super::attr::{self, SUPPORTED};
use super::attr_sets;
use super::delegation;
use super::frame::Frame;
use super::status::Failed;
use crate::verbs;
use proto::nfs4::{Fattr4, Nfsstat4};
use xdr::{Reader, Writer};

/// Whether the attributes of the current object have these values.
fn is_same<'f>(frame: &mut Frame<'f>, args: &mut Reader<'f>) -> Result<bool, Failed> {
    let wanted: Fattr4<'_> = args.get()?;
    let held = match frame.nfs.v4.state.any_write_delegations() {
        true => delegation::attrs_by_holder(frame, &wanted.mask)?,
        false => None,
    };
    let object = frame.object()?;
    let (mut own, mut theirs) = (Writer::new(), Writer::new());
    if object.is_absent() {
        absent::check_comparable(&wanted.mask)?;
        absent::put(frame, object, &wanted.mask, &mut own)?;
    } else {
        attr::check_comparable(&attr_sets::given(frame, object, &SUPPORTED), &wanted.mask)?;
        let found = match held {
            Some(held) => held,
            None => verbs::getattr_with(object, attr::want(&wanted.mask))?,
        };
        attr::put(frame, object, &found, &wanted.mask, &mut own)?;
    }
    theirs.put(&wanted);
    Ok(own.bytes() == theirs.bytes())
}

pub(super) fn verify<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    if is_same(frame, args)? { Ok(()) } else { Err(Nfsstat4::NotSame.into()) }
}

pub(super) fn nverify<'f>(
    frame: &mut Frame<'f>,
    args: &mut Reader<'f>,
    _: &mut Writer,
) -> Result<(), Failed> {
    if is_same(frame, args)? { Err(Nfsstat4::Same.into()) } else { Ok(()) }
}
