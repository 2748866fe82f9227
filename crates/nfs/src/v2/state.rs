//! The state of version 2.

use super::{cookies, handle};

/// What version 2 stores between calls.
#[derive(Debug, Default)]
pub struct State {
    /// Full handles by their aliases; MNT adds some as well.
    pub aliases: handle::Aliases,
    /// 64-bit cookies by their short forms.
    pub cookies: cookies::Cookies,
}
