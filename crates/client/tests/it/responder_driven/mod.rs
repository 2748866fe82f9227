//! The client against small scripted servers inside the test.

mod procedures;
mod prove;
mod responder;
mod rpcbind;
mod transport;
