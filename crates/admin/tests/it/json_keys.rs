//! The keys of the control socket's answers are those that docs/json.md lists.

use bowline_admin::{api, rates};
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::forward_to_deserialize_any;
use std::collections::BTreeMap;

/// Learns the keys of a struct: what its `Deserialize` asks for.
struct Keys<'k>(&'k mut Vec<String>);

impl<'de> serde::Deserializer<'de> for Keys<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Error::custom("no struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.extend(fields.iter().map(|field| (*field).to_owned()));
        Err(Error::custom("known"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn keys<T: DeserializeOwned>() -> Vec<String> {
    let mut found = Vec::new();
    let _ = T::deserialize(Keys(&mut found));
    assert!(!found.is_empty(), "{}", std::any::type_name::<T>());
    found
}

macro_rules! documented {
    ($($name:literal: $type:ty,)+) => { vec![$(($name, keys::<$type>()),)+] };
}

#[test]
fn every_key_of_an_answer_is_documented() {
    let of_types = documented! {
        "answer": api::Answer<u32>,
        "status": api::Status,
        "status: blocked_exports": api::BlockedExport,
        "status: waiting_exports": api::WaitingExport,
        "status: outbound": api::OutboundStatus,
        "status: tcp_memory": api::TcpMemory,
        "status: counters": api::Counter,
        "status: outbound: unanswering_hosts": api::UnansweringHost,
        "exports": api::ExportRow,
        "exports: rules": api::RuleRow,
        "clients": api::ClientRow,
        "conns": api::ConnRow,
        "conns: link": api::LinkRow,
        "conns: oldest_blocked": api::BlockedCallRow,
        "conns: tls": api::TlsRow,
        "sockets": api::SocketRow,
        "pools": api::PoolRow,
        "pools: queue_delay, wake_delay": api::DelayRow,
        "ops": api::OpRow,
        "ops: copies": api::CopyRow,
        "get": api::SettingRow,
        "set": api::Changed,
        "reload, export": api::Reloaded,
        "grace": api::GraceStatus,
        "grace: hosts": api::GraceHostRow,
        "locks": api::LockRow,
        "sessions": api::SessionRow,
        "opens": api::OpenRow,
        "delegations": api::DelegationRow,
        "release": api::Released,
        "explain": api::Explanation,
        "explain: steps": api::ExplainStep,
        "why": api::RefusalRow,
        "rates": rates::Watched,
        "rates: rates": rates::Rates,
        "rates: total, clients, exports, operations, connections, pools, calls": rates::Row,
        "rates: server": rates::Server,
        "rates: server: waits": rates::Waits,
        "rates: hidden": rates::HiddenRows,
        "sample": api::Sample,
        "sample: exports": api::ExportSample,
        "sample: ops": api::OpSample,
        "sample: sleeping": api::SleepingCallRow,
        "sample: latency": api::Histogram,
    };
    let text = include_str!("../../../../docs/json.md");
    let version = format!("The version is {}.", api::VERSION);
    assert!(text.contains(&version), "docs/json.md must say: {version}");
    let mut listed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let name = cells[0].trim_matches('`');
        assert!(listed.insert(name, words(cells[1])).is_none(), "{name} is there twice");
    }
    for (name, mut keys) in of_types {
        let mut known = listed.remove(name).unwrap_or_default();
        let row: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        keys.sort();
        known.sort();
        assert_eq!(known, keys, "docs/json.md must have: | `{name}` | {} |", row.join(", "));
    }
    assert!(listed.is_empty(), "nothing has these: {listed:?}");
}
