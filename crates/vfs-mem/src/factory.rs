//! The scheme `mem:`: an empty file system in memory, with an optional delay (`mem:delay=…`, see
//! [`crate::delay`]).

use crate::delay::{Delay, SHARE_OF};
use crate::faulty::{Fault, FaultyFs};
use crate::mem::{MemFs, MemOptions};
use std::sync::{Arc, PoisonError};
use vfs::{Backend, BackendFactory};

/// Mode of the root directory: writable for all, like `/tmp`.
const ROOT_MODE: u32 = 0o1777;

/// Creates file systems in memory.
#[derive(Debug, Clone, Copy)]
pub struct MemFactory;

impl BackendFactory for MemFactory {
    fn scheme(&self) -> &'static str {
        "mem"
    }

    fn check(&self, text: &str) -> Result<(), String> {
        if text.is_empty() { Ok(()) } else { text.parse::<Delay>().map(drop) }
    }

    fn open(&self, text: &str, owner: (u32, u32)) -> Result<Arc<dyn Backend>, String> {
        let memory = MemFs::new(MemOptions { owner, mode: ROOT_MODE, ..MemOptions::default() });
        if text.is_empty() {
            return Ok(Arc::new(memory));
        }
        let slow: Delay = text.parse()?;
        let (delay, delay_max) = slow.range();
        let share = f64::from(slow.share()) / f64::from(SHARE_OF);
        let fault = Fault { delay, delay_max, share, calls_will_block: true, ..Fault::default() };
        let disk = FaultyFs::new(memory);
        *disk.fault().lock().unwrap_or_else(PoisonError::into_inner) = fault;
        Ok(Arc::new(disk))
    }
}
