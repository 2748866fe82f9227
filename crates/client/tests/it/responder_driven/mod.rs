//! The client against small servers inside the test, which do as the test says.

mod procedures;
mod prove;
mod responder;
mod rpcbind;
mod transport;
