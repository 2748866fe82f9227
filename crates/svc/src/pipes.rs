//! The pipes through which workers move the data of large WRITEs from sockets to files.
//!
//! There are [`PIPES_MAX`] at most, each of one worker; a worker that finds none left receives the
//! data into its memory instead, and asks again later.

use crate::limits::{PIPE_BYTES, PIPES_MAX};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sys::pipe::Pipe;

/// The pipes that all workers have together.
#[derive(Debug, Default)]
pub(crate) struct Pipes(Arc<AtomicUsize>);

/// The permission to have one of them; released when dropped.
#[derive(Debug)]
struct PipePermit(Arc<AtomicUsize>);

/// One of them.
#[derive(Debug)]
pub(crate) struct OwnPipe {
    pub pipe: Pipe,
    _permit: PipePermit,
}

impl Pipes {
    /// Another one; `None` if there are [`PIPES_MAX`].
    pub fn open(&self) -> Option<io::Result<OwnPipe>> {
        let place = PipePermit::acquire(&self.0)?;
        Some(Pipe::new(PIPE_BYTES).map(|pipe| OwnPipe { pipe, _permit: place }))
    }
}

impl PipePermit {
    /// `None` if all are taken.
    fn acquire(taken: &Arc<AtomicUsize>) -> Option<Self> {
        // from here on it is released, even if it is one too many
        let place = Self(Arc::clone(taken));
        (taken.fetch_add(1, Relaxed) < PIPES_MAX).then_some(place)
    }
}

impl Drop for PipePermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A worker's pipe.
#[derive(Debug, Default)]
pub(crate) enum PipeState {
    /// Not made yet, or in use.
    #[default]
    None,
    /// Empty.
    Ready(OwnPipe),
    /// It cannot be had, or moves nothing.
    Refused,
}
