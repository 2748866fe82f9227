//! NSM, the network status monitor, version 1: arguments and results of all procedures, in both directions.
//!
//! Described in X/Open C702 (XNFS), chapter 11. SM_NOTIFY is sent between machines; the others are for the lock manager
//! of the machine itself.

use xdr::{Decode, Encode, Error, Reader, Writer};

/// The program's number.
pub const PROGRAM: u32 = 100_024;
/// The version.
pub const VERSION: u32 = 1;
/// The longest host name in bytes (`SM_MAXSTRLEN`).
pub const NAME_MAX: usize = 1024;
/// Bytes of private data that are returned with a notification (`SM_PRIV_SIZE`).
pub const PRIVATE_LEN: usize = 16;

/// Procedure numbers.
pub mod procedure {
    /// Does nothing.
    pub const NULL: u32 = 0;
    /// Queries whether a host can be monitored, and the state number.
    pub const STAT: u32 = 1;
    /// Starts monitoring a host.
    pub const MON: u32 = 2;
    /// Stops monitoring a host.
    pub const UNMON: u32 = 3;
    /// Stops monitoring all hosts of a lock manager.
    pub const UNMON_ALL: u32 = 4;
    /// Simulates a restart of the machine.
    pub const SIMU_CRASH: u32 = 5;
    /// Notification that a host has restarted.
    pub const NOTIFY: u32 = 6;
}

crate::layout::numbers! {
    /// `res`: whether a host is, or could be, monitored.
    Outcome as "res" {
        /// STAT_SUCC.
        Success = 0,
        /// STAT_FAIL.
        Fail = 1,
    }
}

/// `sm_name`: the argument of STAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name<'a>(pub &'a [u8]);

impl<'a> Decode<'a> for Name<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.opaque(NAME_MAX).map(Self)
    }
}

impl Encode for Name<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.0);
    }
}

crate::layout::fields! {
    /// `my_id`: the procedure to be called; the argument of UNMON_ALL.
    MyId<'a> {
        /// The lock manager's host.
        name: Name<'a>,
        /// Its program.
        program: u32,
        /// Its version.
        version: u32,
        /// The procedure.
        procedure: u32,
    }
}

crate::layout::fields! {
    /// `mon_id`: the argument of UNMON.
    MonId<'a> {
        /// The host that is monitored.
        name: Name<'a>,
        /// The procedure to be called.
        my_id: MyId<'a>,
    }
}

/// `mon`: the argument of MON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mon<'a> {
    /// The host to monitor, and the procedure to be called.
    pub mon_id: MonId<'a>,
    /// Private data that is returned with the notification.
    pub private: [u8; PRIVATE_LEN],
}

impl<'a> Decode<'a> for Mon<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { mon_id: r.get()?, private: r.array()? })
    }
}

impl Encode for Mon<'_> {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.mon_id);
        w.opaque_fixed(&self.private);
    }
}

/// `stat_chge`: the argument of NOTIFY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notify<'a> {
    /// The host that has restarted.
    pub name: &'a [u8],
    /// Its new state number: odd while it is up.
    pub state: i32,
}

impl<'a> Decode<'a> for Notify<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { name: r.opaque(NAME_MAX)?, state: r.i32()? })
    }
}

impl Encode for Notify<'_> {
    fn encode(&self, w: &mut Writer) {
        w.opaque(self.name);
        w.i32(self.state);
    }
}

/// `sm_stat`: the result of UNMON and UNMON_ALL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The state number of this machine.
    pub state: i32,
}

impl<'a> Decode<'a> for Stat {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Error> {
        r.i32().map(|state| Self { state })
    }
}

impl Encode for Stat {
    fn encode(&self, w: &mut Writer) {
        w.i32(self.state);
    }
}

crate::layout::fields! {
    /// `sm_stat_res`: the result of STAT and MON.
    StatResult {
        /// Whether the host is, or could be, monitored.
        outcome: Outcome,
        /// The state number of this machine.
        stat: Stat,
    }
}

/// Decodes the arguments of one procedure and checks that nothing follows them; for tests with arbitrary bytes.
///
/// # Errors
/// [`Error`]: what the server would answer with GARBAGE_ARGS; [`Error::NotMember`] for a procedure that does not exist.
pub fn decode_all_args(number: u32, bytes: &[u8]) -> Result<(), Error> {
    let r = &mut Reader::new(bytes);
    match number {
        procedure::NULL | procedure::SIMU_CRASH => return Ok(()),
        procedure::STAT => drop(r.get::<Name<'_>>()?),
        procedure::MON => drop(r.get::<Mon<'_>>()?),
        procedure::UNMON => drop(r.get::<MonId<'_>>()?),
        procedure::UNMON_ALL => drop(r.get::<MyId<'_>>()?),
        procedure::NOTIFY => drop(r.get::<Notify<'_>>()?),
        value => return Err(Error::NotMember { what: "a procedure of NSM", value }),
    }
    r.end()
}

#[cfg(test)]
mod tests;
