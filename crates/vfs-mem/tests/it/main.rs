//! The file system in memory.

mod conformance;
