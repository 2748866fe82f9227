//! `bowline bench`: a load generator for any NFS server, named experiments, and their report.
//!
//! The way of a measurement, each step one folder:
//! `load/` makes calls and counts answers → `experiments/` starts servers, runs variants in turn
//! and compares them → [`result`] is what they found, as data → `report/` draws it as one page.
//! `lab/` has the networks that an experiment needs, `subject/` the servers under test.

pub mod auth_table;
pub mod canned;
pub mod compare;
pub mod experiments;
pub mod lab;
pub mod load;
pub mod machine;
pub mod mktree;
pub mod report;
pub mod result;
pub mod servers;
mod steal;
