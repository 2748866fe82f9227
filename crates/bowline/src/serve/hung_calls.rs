//! Calls that sleep in a file system: who sent them, and which system call on which file does not return.
//!
//! A call names itself in the log when it has slept for [`HUNG_AFTER`], and again when it has ended. A thread looks
//! each second and asks no file system anything, so that it does not hang with the calls.

use super::parts::ServerParts;
use super::periodic_task::PeriodicTask;
use super::statistics::call_name;
use admin::api::SleepingCallRow;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Weak;
use std::time::Duration;
use svc::{BlockedCallInfo, SleepingCall};
use sys::system_call;
use telemetry::OpName;

/// A call that has slept for so long is named in the log.
const HUNG_AFTER: Duration = Duration::from_secs(10);
/// A shorter sleep is an ordinary wait for a disk, and not listed.
const LISTED_AFTER: Duration = Duration::from_millis(100);
/// A shorter one is not listed where calls are watched.
const WATCHED_AFTER: Duration = Duration::from_millis(10);
/// A shorter one does not count as waiting for a disk.
const WAITS_AFTER: Duration = Duration::from_millis(2);
/// Most calls that are listed, the oldest first.
const LISTED_MAX: usize = 50;
/// Most calls of one export that are named in the log at a time: those behind them wait for the same.
const NAMED_MAX: usize = 3;

/// The server whose calls are looked at.
pub trait Source: Send + Sync {
    /// Its parts.
    fn parts(&self) -> &ServerParts;
    /// The names of its procedures.
    fn ops(&self) -> &[OpName];
}

/// The calls that sleep now, the oldest first.
pub fn rows(source: &dyn Source) -> Vec<SleepingCallRow> {
    let calls = sleeping(source, LISTED_AFTER);
    calls.iter().take(LISTED_MAX).map(|call| row(source, call)).collect()
}

/// What was seen of sleeping calls in several looks, while somebody watches connections.
#[derive(Default)]
pub struct Sleeps {
    looks: u32,
    /// By client's end: how many looks found one of its calls, and the oldest of these.
    clients: HashMap<SocketAddr, (u32, BlockedCallInfo)>,
    /// By export and number.
    calls: HashMap<(u16, u64), SleepingCallRow>,
}

impl Sleeps {
    /// Looks once.
    pub fn look(&mut self, source: &dyn Source) {
        self.looks += 1;
        self.calls.values_mut().for_each(|call| call.ended = true);
        let mut counted = HashSet::new();
        for call in sleeping(source, WAITS_AFTER) {
            if let Some(client) = call.client {
                // the oldest call comes first
                let (looks, oldest) = self.clients.entry(client).or_insert((0, call.info));
                if counted.insert(client) {
                    *looks += 1;
                }
                if call.info.age_ms > oldest.age_ms {
                    *oldest = call.info;
                }
            }
            self.list(source, &call);
        }
    }

    fn list(&mut self, source: &dyn Source, call: &SleepingCall) {
        let key = (call.info.export, call.id);
        if let Some(known) = self.calls.get_mut(&key) {
            (known.age_ms, known.ended) = (call.info.age_ms, false);
        } else if u128::from(call.info.age_ms) >= WATCHED_AFTER.as_millis()
            && self.calls.len() < LISTED_MAX
        {
            self.calls.insert(key, row(source, call));
        }
    }

    /// The oldest call of a client's end that waited for a file system at most of the looks.
    pub fn of(&self, client: SocketAddr) -> Option<BlockedCallInfo> {
        let (looks, oldest) = self.clients.get(&client)?;
        (looks * 2 >= self.looks).then_some(*oldest)
    }

    /// The calls, the longest first.
    pub fn rows(self) -> Vec<SleepingCallRow> {
        let mut rows: Vec<SleepingCallRow> = self.calls.into_values().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.age_ms));
        rows
    }
}

fn sleeping(source: &dyn Source, age_min: Duration) -> Vec<SleepingCall> {
    source.parts().with_server(|server| server.sleeping_calls(age_min)).unwrap_or_default()
}

fn row(source: &dyn Source, call: &SleepingCall) -> SleepingCallRow {
    let info = &call.info;
    SleepingCallRow {
        call: call_name(source.ops(), info.program, info.version, info.procedure),
        export: source.parts().export_path(info.export),
        client: call.client.map(|client| client.to_string()),
        age_ms: info.age_ms,
        ended: false,
        system_call: system_call::of_thread(call.thread).map(|call| call.to_string()),
    }
}

/// Names hung calls in the log until it is dropped.
///
/// # Errors
/// The kernel refuses another thread.
pub fn watch(source: Weak<dyn Source>) -> std::io::Result<PeriodicTask> {
    let named = std::sync::Mutex::new(Named::default());
    PeriodicTask::start("hung-calls", move |_| {
        let Some(source) = source.upgrade() else { return };
        let calls = sleeping(source.as_ref(), HUNG_AFTER);
        let mut named = named.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for line in named.update(&calls, |call| text(&row(source.as_ref(), call))) {
            tracing::warn!("{line}");
        }
    })
}

/// A call as the log has it.
fn text(row: &SleepingCallRow) -> String {
    let SleepingCallRow { call, export, client, system_call, .. } = row;
    let client = client.as_ref().map_or_else(String::new, |client| format!(" of {client}"));
    let what = system_call.as_ref().map_or_else(String::new, |what| format!(", in {what}"));
    format!("{call}{client} in {export}{what}")
}

/// The calls that were named and have not ended, by export and number; without a text if others were named instead.
#[derive(Default)]
struct Named(HashMap<(u16, u64), Option<String>>);

impl Named {
    /// The lines about calls that are hung now and were not, and about those that have ended.
    fn update(
        &mut self,
        calls: &[SleepingCall],
        describe: impl Fn(&SleepingCall) -> String,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let key = |call: &SleepingCall| (call.info.export, call.id);
        let hung: HashMap<(u16, u64), &SleepingCall> =
            calls.iter().map(|call| (key(call), call)).collect();
        self.0.retain(|key, text| {
            let hangs = hung.contains_key(key);
            if let (false, Some(text)) = (hangs, text) {
                lines.push(format!("no longer hung: {text}"));
            }
            hangs
        });
        for call in calls {
            if self.0.contains_key(&key(call)) {
                continue;
            }
            let of_export = |(export, _): &&(u16, u64)| *export == call.info.export;
            let others =
                self.0.iter().filter(|(key, text)| of_export(key) && text.is_some()).count();
            let text = (others < NAMED_MAX).then(|| describe(call));
            if let Some(text) = &text {
                let age_s = call.info.age_ms / 1000;
                lines.push(format!(
                    "hung for {age_s} s: {text}; the file system does not answer, and clients of this export wait"
                ));
            }
            self.0.insert(key(call), text);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMED_MAX, Named};
    use svc::{BlockedCallInfo, SleepingCall};
    use sys::thread::ThreadNumber;

    fn call(export: u16, id: u64) -> SleepingCall {
        let info =
            BlockedCallInfo { export, age_ms: 10_500, program: 100_003, version: 3, procedure: 6 };
        SleepingCall { id, client: None, thread: ThreadNumber::default(), info }
    }

    #[test]
    fn each_hung_call_is_logged_once_and_few_of_an_export() {
        let describe = |call: &SleepingCall| format!("call {}", call.id);
        let mut named = Named::default();
        let calls: Vec<_> = (0..10).map(|id| call(1, id)).collect();
        let lines = named.update(&calls, describe);
        assert_eq!(lines.len(), NAMED_MAX, "{lines:?}");
        assert!(lines[0].starts_with("hung for 10 s: call 0; "), "{lines:?}");
        assert!(named.update(&calls, describe).is_empty());
        assert_eq!(named.update(&[&calls[..], &[call(2, 0)]].concat(), describe).len(), 1);
        let ended = named.update(&calls[1..], describe);
        assert_eq!(ended.len(), 2, "one of each export: {ended:?}");
        assert!(ended.contains(&"no longer hung: call 0".to_owned()), "{ended:?}");
        assert!(named.update(&[], describe).len() == NAMED_MAX - 1 && named.0.is_empty());
    }
}
