//! Sockets, pools and transports over the wire: a small program (`toy`) behind a real server, and clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a failure here is the test's"
)]

// the name that the flavour of the dispatcher's tests uses
extern crate rpc as bowline_rpc;

mod ahead;
mod allocation;
mod back_channel;
mod blocked;
mod buffers;
mod calls;
mod channels;
mod congestion;
mod connection_limits;
mod copies;
mod deferred;
mod descriptors;
mod fairness;
mod hostile;
mod idle;
mod kernel_tls;
mod net;
mod outbound;
mod policies;
mod ranges;
mod sealed;
mod sleep;
mod stop;
mod tls;
mod tls_storm;
mod toy;
mod udp_sockets;
mod urgent;

/// The allocator of this program: it counts (`allocation`).
#[global_allocator]
static HEAP: sys::testing::counting_allocator::CountingAllocator =
    sys::testing::counting_allocator::CountingAllocator::new();
