//! The state core against models, cases, and every order of events.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    missing_docs,
    reason = "test code"
)]

mod allocation;
mod bounds;
mod cases;
mod explore;
mod model;
mod records;
mod room_for_others;
mod shares_and_limits;
mod v4;
mod v4_bounds;
mod v4_delegations;
mod v4_explore;
mod v4_minor0;
mod v4_recovery;
mod v4_revoked;
mod v4_shares;
mod v4_simulation;
mod v4_world;
mod world;
