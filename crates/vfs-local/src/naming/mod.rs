//! How an object's file id is determined, and how an object is found by it.

pub mod fid;
pub mod inode_table;
pub mod resolver;
mod table_error;
mod table_walk;
pub mod unlinked_dir;
