//! What tests need of the kernel and the server does not: compiled for tests only (feature `testing`).

pub mod access;
pub mod counting_allocator;
pub mod kill_at;
pub mod lease;
pub mod single_step;
pub mod syscall_filter;
pub mod system_calls;
pub mod tcp;
