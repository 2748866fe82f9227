//! The waiting requests of all files, by owner: the index for deadlock detection.
//!
//! One mutex of [`State`](crate::State) guards it; it is taken with a file's mutex held and nothing is taken under it.
//! Invariant: it names exactly the requests that stand in the files' queues.

use crate::holder::Holder;
use crate::key::{FileKey, Tag};
use crate::sync::Arc;
use std::collections::{BTreeSet, HashMap};

/// The index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits(HashMap<Arc<Holder>, Vec<(FileKey, Tag)>>);

impl Waits {
    pub fn add(&mut self, holder: &Arc<Holder>, file: FileKey, tag: Tag) {
        self.0.entry(Arc::clone(holder)).or_default().push((file, tag));
    }

    pub fn remove(&mut self, holder: &Arc<Holder>, file: FileKey, tag: Tag) {
        let Some(requests) = self.0.get_mut(holder) else { return };
        if let Some(at) = requests.iter().position(|request| *request == (file, tag)) {
            requests.swap_remove(at);
        }
        if requests.is_empty() {
            self.0.remove(holder);
        }
    }

    /// The files in which somebody waits.
    pub fn files(&self) -> BTreeSet<FileKey> {
        self.0.values().flatten().map(|(file, _)| *file).collect()
    }

    /// The waiting requests of an owner.
    pub fn of(&self, holder: &Arc<Holder>) -> Vec<(FileKey, Tag)> {
        self.0.get(holder).cloned().unwrap_or_default()
    }
}
