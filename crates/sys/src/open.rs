//! System calls.
