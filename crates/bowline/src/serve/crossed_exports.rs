//! Opens what is mounted below exports that cross ([`super::crossed_mounts`]), and finds out where exports are inside of
//! others before a table is put into force.

use super::crossed_mounts;
use super::export_opener::{ExportOpener, OpenJob, PATIENCE};
use crate::export_specs;
use export::{ExportSpec, Identity, Opened, Table, WaitReason};
use std::sync::mpsc::{RecvTimeoutError, channel};

/// File systems below exports that cross.
pub struct Crossed {
    /// What is served of them.
    pub opened: Vec<(ExportSpec, Opened)>,
    /// The hash of the list of mounts that they were found in.
    pub mounts_hash: u64,
}

/// Opens what is mounted below exports that cross; what cannot be opened is left out until the mounts change.
pub fn open_crossed(
    opener: &ExportOpener,
    specs: &[ExportSpec],
    identity: &Identity,
    old: Option<&Table>,
) -> Crossed {
    if !crossed_mounts::is_wanted(specs) {
        return Crossed { opened: Vec::new(), mounts_hash: 0 };
    }
    let mounts = crossed_mounts::read();
    let mounts_hash = crossed_mounts::hash_of(&mounts);
    let (found, left_out) = crossed_mounts::find(specs, identity, &mounts);
    if left_out > 0 {
        let most = crossed_mounts::CROSSED_MAX;
        tracing::warn!(
            "{left_out} mounts below exports with crossmnt are not served: {most} are the limit"
        );
    }
    let job = |spec: &ExportSpec| {
        let known = match old {
            Some(old) => old.backend_of(spec, identity)?,
            None => None,
        };
        let uuid = spec.uuid(identity)?;
        Ok(OpenJob { spec: spec.clone(), uuid, known, check_only: false })
    };
    let Ok(jobs) = found.iter().map(job).collect::<Result<Vec<_>, export::IdentityError>>() else {
        return Crossed { opened: Vec::new(), mounts_hash };
    };
    let results = opener.open_all(&jobs);
    let mut opened = Vec::new();
    for ((spec, job), result) in found.into_iter().zip(jobs).zip(results) {
        match (result, job.known) {
            (Opened::Backend(backend), _) => opened.push((spec, Opened::Backend(backend))),
            (Opened::Waiting(WaitReason::NoAnswer), Some(known)) => {
                opened.push((spec, Opened::Backend(known)));
            }
            (Opened::Waiting(reason), _) => {
                let path = export_specs::path_text(&spec.path);
                tracing::warn!(
                    "{path}, which is mounted below an export with crossmnt, is not served: {reason}"
                );
            }
        }
    }
    Crossed { opened, mounts_hash }
}

/// Finds out where exports are inside of others; what takes longer than an export may take to be opened is done later,
/// and is crossed into from then on.
pub fn find_junctions(table: &Table) {
    let Some(search) = table.junction_search() else { return };
    let (done, wait) = channel();
    let run = move || {
        search.run();
        // nobody waits any more
        let _ = done.send(());
    };
    match std::thread::Builder::new().name("junctions".into()).spawn(run) {
        Ok(_) => {
            if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!(
                    "nested exports become reachable through their parents when their file systems answer"
                );
            }
        }
        Err(error) => {
            tracing::error!("nested exports are not reachable through their parents: {error}")
        }
    }
}
