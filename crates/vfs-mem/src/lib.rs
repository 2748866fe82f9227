//! A file system in memory: the reference for tests of other backends, and a demo export.
//!
//! Simplicity and correctness come before speed: one lock for everything ([`MemFs`]), held for the length of an
//! operation in memory and never while the caller's sink runs. Owner and permission rules are
//! POSIX's, with root's privileges as in Linux. Memory is bounded by [`MemOptions::bytes_max`].

mod backend;
mod data;
mod delay;
mod factory;
mod faulty;
mod inode;
mod leases;
mod mem;
mod namespace;
mod space;
mod xattrs;

pub use factory::MemFactory;
pub use faulty::{Fault, FaultyFs, Gate, Operation};
pub use mem::{MemFs, MemOptions};
