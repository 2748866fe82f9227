//! Opens the backends of exports, and keeps the descriptors that all of them share.

use super::desk::Opener;
use crate::config::Settings;
use anyhow::Context;
use export::Source;
use std::sync::Arc;
use vfs::Backend;
use vfs_local::{Local, LocalOptions, OpenFiles, Sweeper};
use vfs_mem::Memory;

/// The open files of all exports; dropping it ends the thread that closes idle ones.
pub struct Files {
    open: Arc<OpenFiles>,
    _sweeper: Sweeper,
}

impl Files {
    /// An empty cache, as large as the limit of descriptors allows.
    ///
    /// # Errors
    /// No thread is to be had.
    pub fn start() -> anyhow::Result<Self> {
        let open = OpenFiles::new();
        let sweeper = Sweeper::start(&open).context("cannot start a thread")?;
        Ok(Self { open, _sweeper: sweeper })
    }

    /// Opens the files of an export.
    pub fn opener(&self, settings: &Settings) -> Opener {
        let open = Arc::clone(&self.open);
        let options =
            LocalOptions { state_dir: Some(settings.state_dir.clone()), ..LocalOptions::default() };
        Box::new(move |spec| -> anyhow::Result<Arc<dyn Backend>> {
            Ok(match &spec.source {
                Source::Directory(path) => {
                    Arc::new(Local::open(path, &options, Arc::clone(&open))?)
                }
                Source::Memory => Arc::new(Memory::new()),
            })
        })
    }
}
