//! The kinds of back ends that can be exported besides a directory, by their scheme (`mem:`). A new kind is a
//! row here.

use vfs::BackendFactory;
use vfs_mem::MemFactory;

const FACTORIES: [&dyn BackendFactory; 1] = [&MemFactory];

/// What makes the back ends of a scheme, if there is such a scheme.
pub fn find(scheme: &str) -> Option<&'static dyn BackendFactory> {
    FACTORIES.into_iter().find(|factory| factory.scheme() == scheme)
}
