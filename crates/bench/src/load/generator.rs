//! Workloads: the next call of a simulated client, and how it handles a reply.
//!
//! A client has one **slot** for each call that may be outstanding; a slot is free or has one call. A
//! [`CallGenerator`] belongs to one client and one thread. It allocates nothing per call.

mod access;
mod call_generator;
mod create;
mod list;
mod lock;
mod lookup;
mod mixed;
mod open_close;
mod read;
mod replay;
mod rng;
mod untar;
mod walk;
mod write;

pub(crate) use call_generator::CallGenerator;
use call_generator::{own, piece};
pub(crate) use rng::Rng;

use super::call::Call;
use super::counters::DataCounters;
use super::file_set::FileSet;
use super::plan::{Plan, Workload};
use super::reply::Body;
use std::sync::Arc;

/// The generator for client number `client`.
pub(crate) fn of(plan: &Plan, file_set: &Arc<FileSet>, client: usize) -> Box<dyn CallGenerator> {
    let file_set = Arc::clone(file_set);
    let rng = Rng::new(plan.seed, client);
    match &plan.workload {
        Workload::Null => Box::new(Null),
        Workload::Getattr => Box::new(access::Touch::new(file_set, rng, false)),
        Workload::Access => Box::new(access::Touch::new(file_set, rng, true)),
        Workload::Lookup => Box::new(lookup::Names::new(file_set, rng)),
        Workload::Readdir => Box::new(list::Lists::new(file_set, rng, plan, false)),
        Workload::Readdirplus => Box::new(list::Lists::new(file_set, rng, plan, true)),
        Workload::Walk => Box::new(walk::Walk::new(file_set, plan, client)),
        Workload::Read => Box::new(read::Reads::new(file_set, rng, plan)),
        Workload::Write => Box::new(write::Writes::new(&file_set, plan, client)),
        Workload::Create => Box::new(create::Creates::new(&file_set, plan, client)),
        Workload::Untar => Box::new(untar::Untar::new(&file_set, plan, client)),
        Workload::Mixed => Box::new(mixed::Mixed::new(file_set, rng, plan, client)),
        Workload::Lock => Box::new(lock::Locks::new(&file_set, plan, client)),
        Workload::OpenClose => Box::new(open_close::Opens::new(file_set, rng, plan)),
        Workload::Replay(_) => Box::new(replay::Replay::new(file_set, plan, client)),
    }
}

/// The empty call only.
struct Null;

impl CallGenerator for Null {
    fn next(&mut self, _: usize) -> Option<Call<'_>> {
        Some(Call::Null)
    }

    fn on_reply(&mut self, _: usize, _: u32, _: &Body<'_>, _: &mut DataCounters) {}
}
