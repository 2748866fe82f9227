//! `bowline bench`: a load generator for any NFS server, named experiments, and their report.
//!
//! The path of a measurement, each step one folder:
//! `load/` makes calls and counts replies → `experiments/` starts servers, runs variants alternately
//! and compares them → [`result`] holds the results as data → `report/` renders them as one page.
//! `lab/` has the networks that an experiment needs, `servers/` the servers under test.

pub mod auth_table;
pub mod canned;
pub mod compare;
pub mod experiments;
pub mod lab;
pub mod load;
pub mod machine;
mod machine_load;
pub mod mktree;
pub mod report;
pub mod result;
pub mod servers;
mod steal;
