//! Failures of version 3: the status with the attributes that its results carry in failures
//! (RFC 1813 §2.6), which the other versions do not have and which are fetched only then.

use super::{attr, nfsstat3};
use crate::Nfs;
use crate::object::{Caller, Object};
use proto::nfs3::{Fattr3, Nfsstat3, Res, WccData};
use rpc::Call;
use vfs::{Attr, Status};

/// A procedure on one object that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed {
    pub status: Status,
    /// The object's attributes after the failure, if the caller got so far and it is still there.
    pub attr: Option<Attr>,
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self { status, attr: None }
    }
}

impl Failed {
    /// `status`, with the attributes that the object has now, if another client does not know better.
    pub fn on(nfs: &Nfs, object: &Object<'_>, status: Status) -> Self {
        Self { status, attr: known_attributes(nfs, object) }
    }

    /// A result that carries `post_op_attr` in failures.
    pub fn post_op<T>(&self) -> Res<T, Option<Fattr3>> {
        Res::Fail(nfsstat3(self.status), self.fattr3())
    }

    /// A result that carries `wcc_data` in failures.
    pub fn wcc<T>(&self) -> Res<T, WccData> {
        self.wcc_as(nfsstat3(self.status))
    }

    /// The same with another code for the status.
    pub fn wcc_as<T>(&self, status: Nfsstat3) -> Res<T, WccData> {
        Res::Fail(status, attr::after(self.attr.as_ref()))
    }

    /// `post_op_attr`.
    pub fn fattr3(&self) -> Option<Fattr3> {
        self.attr.as_ref().map(attr::fattr3)
    }
}

/// An object's attributes, but of a file that a client of version 4 writes under a delegation: an older size than was told
/// before would be taken for news.
fn known_attributes(nfs: &Nfs, object: &Object<'_>) -> Option<Attr> {
    let is_old = nfs.is_written_by_other(object, &object.fid, None);
    if is_old { None } else { object.attributes() }
}

/// RENAME or LINK that failed: twice the attributes, and boxed, as these failures are rare.
pub(super) struct FailedOnTwo {
    pub first: Failed,
    /// The attributes of the second object.
    pub second: Option<Attr>,
}

impl FailedOnTwo {
    /// The second object could not be opened.
    fn before_second(first: Failed) -> Box<Self> {
        Box::new(Self { first, second: None })
    }
}

impl Nfs {
    /// Does `work` on the object of a filehandle; a failure gets the object's attributes.
    ///
    /// # Errors
    /// [`Failed`], without attributes if the object could not be opened.
    pub(crate) fn on_object_v3<T>(
        &self,
        call: &mut Call<'_>,
        filehandle: &[u8],
        work: impl FnOnce(&Object<'_>) -> vfs::Result<T>,
    ) -> Result<T, Failed> {
        self.on_walk_v3(call, filehandle, |_, object| work(object))
    }

    /// The same for `work` that may lead into another export.
    ///
    /// # Errors
    /// As [`Nfs::on_object_v3`].
    #[inline]
    pub(super) fn on_walk_v3<T>(
        &self,
        call: &mut Call<'_>,
        filehandle: &[u8],
        work: impl FnOnce(&Caller<'_>, &Object<'_>) -> vfs::Result<T>,
    ) -> Result<T, Failed> {
        let caller = Caller::new(&self.exports, call);
        // borrowed where it was made: an object is large enough that moving it is a call of memcpy
        match &caller.open(filehandle) {
            Ok(object) => work(&caller, object).map_err(|status| Failed::on(self, object, status)),
            Err(status) => Err(Failed::from(*status)),
        }
    }

    /// Does `work` on the objects of two filehandles; a failure gets the attributes of both.
    ///
    /// # Errors
    /// [`FailedOnTwo`], without the attributes of what could not be opened.
    pub(super) fn on_two_objects_v3<T>(
        &self,
        call: &mut Call<'_>,
        (first, second): (&[u8], &[u8]),
        work: impl FnOnce(&Object<'_>, &Object<'_>) -> vfs::Result<T>,
    ) -> Result<T, Box<FailedOnTwo>> {
        let caller = Caller::new(&self.exports, call);
        let first = caller
            .open(first)
            .map_err(|status| FailedOnTwo::before_second(Failed::from(status)))?;
        let second = caller
            .open(second)
            .map_err(|status| FailedOnTwo::before_second(Failed::on(self, &first, status)))?;
        work(&first, &second).map_err(|status| {
            let failed = Failed::on(self, &first, status);
            Box::new(FailedOnTwo { first: failed, second: known_attributes(self, &second) })
        })
    }
}
