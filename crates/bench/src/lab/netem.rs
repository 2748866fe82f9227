//! The kernel's own line simulator, if available: a veth pair with `tc … netem` on both ends.

use super::simulator::Wire;
use super::veth::{Interface, pair};
use super::{LabError, Namespace};
use std::time::Duration;

/// Whether `tc` and the kernel support it; tried in a namespace of its own.
pub fn is_there() -> Result<(), LabError> {
    let probe = Namespace::new("probe for netem")?;
    let tried = probe.tool(
        "tc",
        "iproute2",
        &["qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"],
    );
    match tried {
        Ok(_) => Ok(()),
        Err(LabError::Failed(_)) => {
            Err(LabError::Unable("this kernel has no netem (CONFIG_NET_SCH_NETEM)".into()))
        }
        Err(unable) => Err(unable),
    }
}

/// Creates the veth pair `name` between two namespaces and the line on it.
pub fn connect(
    ends: [&Namespace; 2],
    name: &str,
    wire: &Wire,
    mtu: u32,
    offload: bool,
) -> Result<[Interface; 2], LabError> {
    let [left, right] = ends;
    let (near, far) = pair((left, name), (right, name))?;
    for end in [&near, &far] {
        end.set_mtu(mtu)?;
        if !offload {
            end.link_set(&["gso_max_segs", "1"])?;
        }
        let words = command(name, wire, mtu);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        end.namespace().tool("tc", "iproute2", &words)?;
    }
    Ok([near, far])
}

/// The arguments of `tc`. netem holds packets in transit and packets that wait in one queue whose
/// limit is a number of packets, so the limit is what fits into both times at the line's rate.
fn command(name: &str, wire: &Wire, mtu: u32) -> Vec<String> {
    let mut words: Vec<String> =
        ["qdisc", "add", "dev", name, "root", "netem", "limit"].map(str::to_owned).to_vec();
    words.push(limit(wire, mtu).to_string());
    words.extend(["delay".into(), format!("{}us", wire.delay.as_micros())]);
    if let Some(rate) = wire.rate_bits_per_s {
        words.extend(["rate".into(), format!("{rate}bit")]);
    }
    if wire.loss > 0.0 {
        words.extend(["loss".into(), format!("{}%", wire.loss * 100.0)]);
    }
    words
}

/// Packets if the rate is unlimited.
const LIMIT_UNLIMITED: u128 = 1_000_000;

fn limit(wire: &Wire, mtu: u32) -> u128 {
    let Some(rate) = wire.rate_bits_per_s else { return LIMIT_UNLIMITED };
    let time: Duration = wire.delay + wire.queue;
    let bytes = u128::from(rate / 8) * time.as_micros() / 1_000_000;
    (bytes / u128::from(mtu.max(1))).clamp(10, LIMIT_UNLIMITED)
}

/// What one end sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    pub bytes: u64,
    pub packets: u64,
    pub dropped: u64,
}

/// What `end` sent over the line so far.
pub fn sent(end: &Interface) -> Result<Sent, LabError> {
    let args = ["-s", "qdisc", "show", "dev", end.name()];
    let text = end.namespace().tool("tc", "iproute2", &args)?;
    parse(&text).ok_or_else(|| LabError::Failed(format!("`tc -s qdisc` says: {text}")))
}

/// ` Sent 1234 bytes 12 pkt (dropped 3, overlimits 0 requeues 0)`
fn parse(text: &str) -> Option<Sent> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Sent "))?;
    let mut numbers = line.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let mut next = || numbers.next()?.parse().ok();
    Some(Sent { bytes: next()?, packets: next()?, dropped: next()? })
}

#[cfg(test)]
mod tests {
    use super::{Sent, command, parse};
    use crate::lab::simulator::Wire;
    use std::time::Duration;

    #[test]
    fn the_tc_command_contains_the_link_parameters() {
        let wire = Wire {
            rate_bits_per_s: Some(1_000_000_000),
            delay: Duration::from_millis(15),
            queue: Duration::from_millis(30),
            loss: 0.001,
        };
        assert_eq!(
            command("wan0", &wire, 1500).join(" "),
            "qdisc add dev wan0 root netem limit 3750 delay 15000us rate 1000000000bit loss 0.1%"
        );
        let free = Wire { rate_bits_per_s: None, loss: 0.0, ..wire };
        assert_eq!(
            command("wan0", &free, 1500).join(" "),
            "qdisc add dev wan0 root netem limit 1000000 delay 15000us"
        );
    }

    #[test]
    fn tc_statistics_are_parsed() {
        let text = "qdisc netem 8001: root refcnt 2 limit 1000 delay 1ms\n Sent 4200 bytes 42 pkt (dropped 3, overlimits 0 requeues 0)\n backlog 0b 0p requeues 0\n";
        assert_eq!(parse(text), Some(Sent { bytes: 4200, packets: 42, dropped: 3 }));
        assert_eq!(parse("qdisc noqueue"), None);
    }
}
