//! The kernel's error numbers, by name.

pub use rustix::io::Errno;

/// The number that an error carries; `None` for one that did not come from the kernel.
pub fn of(error: &std::io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}
