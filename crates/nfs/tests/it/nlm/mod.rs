//! NLM over two back ends, called as the dispatcher calls it.

mod bounds;
mod local;
mod locks;
mod minor0;
pub(crate) mod rig;
mod rights;
mod room_for_others;
mod shares;
mod shares_v4;
mod version4;
mod version4_recovery;
mod waiting;
mod watched;
