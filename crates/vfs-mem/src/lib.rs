//! A file system in memory: the oracle that other backends are held against, and a demo export.
//!
//! Simple and right before fast: one lock over everything ([`MemFs`]), held for the length of an
//! operation in memory and never over the caller's sink. Owner and permission rules are POSIX's,
//! with root's privileges as Linux has them. Memory is bounded by [`MemOptions::bytes_max`].

mod backend;
mod data;
mod delay;
mod factory;
mod faulty;
mod inode;
mod mem;
mod namespace;

pub use factory::MemFactory;
pub use faulty::{Fault, FaultyFs, Operation};
pub use mem::{MemFs, MemOptions};
