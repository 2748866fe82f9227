//! A line with a rate, a round trip, a queue and losses between two private networks.
//!
//! The kernel's netem implements it if available, else [`super::simulator`]. Rates count IP packets
//! without the framing below them: 1 Gbit/s carries 120.7 MB/s of TCP payload at an MTU of 1500.
//!
//! ```no_run
//! # fn main() -> Result<(), bench::lab::LabError> {
//! let link = bench::lab::Link::start(&bench::lab::LinkOptions::default())?;
//! let listener = link.server.run(|| std::net::TcpListener::bind((link.server_addr, 2049)))?;
//! let stream = link.client.run(|| std::net::TcpStream::connect((link.server_addr, 2049)))?;
//! # Ok(()) }
//! ```

use super::netem::{self, Sent};
use super::simulator::{Counters, Forwarder, Wire};
use super::veth::{Interface, Subnet};
use super::{LabError, Namespace};
use crate::result::Fact;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use sys::tun::Tun;

/// The name of the interface on both sides.
const INTERFACE: &str = "wan0";
/// Packets that the devices hold for the forwarder: a burst of 100 ms at 1 Gbit/s, so that packets
/// are dropped by the line and not by the device.
const DEVICE_QUEUE: &str = "10000";
/// As in the original experiment; another one (bbr) would hide the effect of a small window.
const CONGESTION: &str = "cubic";
/// Private addresses: the server's end, the client's end.
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)];
const V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2)];

/// The implementation of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkBackend {
    /// netem where the kernel has it, else the simulator.
    #[default]
    Auto,
    /// The kernel's netem.
    Netem,
    /// The simulator in this process.
    Simulator,
}

/// Parameters of the line.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkOptions {
    /// Bits per second in each direction; `None`: as fast as the machine can.
    pub rate_bits_per_s: Option<u64>,
    /// Round-trip time.
    pub rtt: Duration,
    /// How long a packet may wait for the line before it is dropped.
    pub queue: Duration,
    /// Share of packets lost at random, 0 to 1. Above 0 there is no offload: a loss is one packet.
    pub loss: f64,
    /// Largest packet.
    pub mtu: u32,
    /// Let TCP pass up to 64 KiB at once, which the line counts as the packets they stand for: a
    /// fifth of the forwarder's work. Queue drops then come in such bursts.
    pub offload: bool,
    /// The implementation.
    pub via: LinkBackend,
}

impl Default for LinkOptions {
    /// The original experiment's kind of line: 1 Gbit/s, 30 ms.
    fn default() -> Self {
        Self {
            rate_bits_per_s: Some(1_000_000_000),
            rtt: Duration::from_millis(30),
            queue: Duration::from_millis(30),
            loss: 0.0,
            mtu: 1500,
            offload: true,
            via: LinkBackend::Auto,
        }
    }
}

/// What happened in one direction since the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectionReport {
    /// Packets delivered, as they would be on the wire.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Packets lost at random (netem counts them as dropped).
    pub lost: u64,
}

/// What the line did since the last report.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinkReport {
    /// Seconds since then.
    pub elapsed_s: f64,
    /// From the client to the server.
    pub to_server: DirectionReport,
    /// From the server to the client.
    pub to_client: DirectionReport,
    /// Processors that the forwarder used (0 to 1); 0 with netem. Near 1 the line is not as
    /// configured.
    pub forwarder_cpu_share: f64,
    /// How much too late packets arrived, in microseconds: mean,
    pub late_mean_us: f64,
    /// and the latest.
    pub late_max_us: f64,
}

/// A line with a private network at each end; all removed when dropped.
#[derive(Debug)]
pub struct Link {
    /// The server's side.
    pub server: Namespace,
    /// The client's side.
    pub client: Namespace,
    /// The server's address.
    pub server_addr: IpAddr,
    /// The client's address.
    pub client_addr: IpAddr,
    /// The server's IPv6 address, if the kernel has IPv6.
    pub server_addr_v6: Option<IpAddr>,
    /// The client's.
    pub client_addr_v6: Option<IpAddr>,
    maker: Maker,
    options: LinkOptions,
    before: Mutex<Before>,
}

#[derive(Debug)]
enum Maker {
    Simulator(Forwarder),
    Netem([Interface; 2]),
}

/// The counters at the last report.
#[derive(Debug)]
struct Before {
    at: Instant,
    seen: Seen,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    to_client: DirectionReport,
    to_server: DirectionReport,
    cpu_ns: u64,
    late_ns: u64,
    deliveries: u64,
}

impl Link {
    /// Creates the line and its two networks, ready for use.
    ///
    /// # Errors
    /// [`LabError::Unable`] without root, `ip`, `/dev/net/tun`; with [`LinkBackend::Netem`] without netem.
    pub fn start(options: &LinkOptions) -> Result<Self, LabError> {
        let mut options = options.clone();
        options.offload &= options.loss == 0.0;
        options.via = match options.via {
            LinkBackend::Auto if netem::is_there().is_ok() => LinkBackend::Netem,
            LinkBackend::Auto => LinkBackend::Simulator,
            asked => asked,
        };
        let (server, client) = (Namespace::new("server")?, Namespace::new("client")?);
        let wire = Wire {
            rate_bits_per_s: options.rate_bits_per_s,
            delay: options.rtt / 2,
            queue: options.queue,
            loss: options.loss,
        };
        let ends = [&server, &client];
        for end in ends {
            end.tune_tcp()?;
        }
        let maker = if options.via == LinkBackend::Netem {
            netem::is_there()?;
            Maker::Netem(netem::connect(ends, INTERFACE, &wire, options.mtu, options.offload)?)
        } else {
            Maker::Simulator(simulate(ends, wire, &options)?)
        };
        let has_v6 = server.sysctl("net.ipv6.conf.all.disable_ipv6").is_ok_and(|off| off == "0");
        for (end, (v4, v6)) in ends.into_iter().zip(V4.into_iter().zip(V6)) {
            let interface = Interface::of(end, INTERFACE);
            interface.up()?;
            let subnets = [Subnet::new(v4, 24), Subnet::new(v6, 64)];
            for subnet in subnets.into_iter().filter(|subnet| subnet.addr.is_ipv4() || has_v6) {
                interface.add_address(subnet)?;
                interface.pin_congestion(subnet, CONGESTION)?;
            }
        }
        let before = Mutex::new(Before { at: Instant::now(), seen: Seen::default() });
        let ([server_addr, client_addr], [server_v6, client_v6]) = (V4, V6);
        Ok(Self {
            server,
            client,
            server_addr: server_addr.into(),
            client_addr: client_addr.into(),
            server_addr_v6: has_v6.then_some(server_v6.into()),
            client_addr_v6: has_v6.then_some(client_v6.into()),
            maker,
            options,
            before,
        })
    }

    /// The implementation: never [`LinkBackend::Auto`].
    pub fn via(&self) -> LinkBackend {
        self.options.via
    }

    /// The interface on the server's side.
    pub fn server_interface(&self) -> Interface {
        Interface::of(&self.server, INTERFACE)
    }

    /// Description of the line for display.
    pub fn facts(&self) -> Vec<Fact> {
        let fact = |name: &str, value: String| Fact { name: name.into(), value };
        let options = &self.options;
        let rate = options.rate_bits_per_s;
        let rate = rate.map_or("unlimited".into(), |r| format!("{} Mbit/s", r as f64 / 1e6));
        let made = match self.via() {
            LinkBackend::Netem => "netem on a veth pair",
            _ if options.offload => "simulator over TUN, 64 KiB segments (TSO)",
            _ => "simulator over TUN, packet by packet",
        };
        vec![
            fact("line", made.into()),
            fact("rate each way", rate),
            fact("round trip", format!("{} ms", options.rtt.as_secs_f64() * 1e3)),
            fact("queue each way", format!("{} ms", options.queue.as_secs_f64() * 1e3)),
            fact("random loss", format!("{} %", options.loss * 100.0)),
            fact("MTU", format!("{} bytes", options.mtu)),
            fact("congestion control", CONGESTION.into()),
        ]
    }

    /// What happened since the last report, or since the start.
    ///
    /// # Errors
    /// [`LabError::Failed`]: the line is down.
    pub fn report(&self) -> Result<LinkReport, LabError> {
        let (seen, latest_ns) = match &self.maker {
            Maker::Simulator(forwarder) if !forwarder.is_alive() => {
                return Err(LabError::Failed("the simulated line broke down".into()));
            }
            Maker::Simulator(forwarder) => {
                let counters = &forwarder.counters;
                (Seen::of(counters), counters.latest_ns.swap(0, Relaxed))
            }
            Maker::Netem([server, client]) => {
                (Seen::of_netem(netem::sent(server)?, netem::sent(client)?), 0)
            }
        };
        let now = Instant::now();
        let mut before = self.before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let report = seen.since(&before.seen, now - before.at, latest_ns);
        *before = Before { at: now, seen };
        Ok(report)
    }
}

/// Creates the two devices and starts the thread between them.
fn simulate(
    ends: [&Namespace; 2],
    wire: Wire,
    options: &LinkOptions,
) -> Result<Forwarder, LabError> {
    let device = |end: &Namespace| {
        let tun = end.run(|| Tun::new(INTERFACE, options.offload))?;
        let tun = tun.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LabError::Unable(
                "there is no /dev/net/tun: `modprobe tun`, or a container without it".into(),
            ),
            _ => LabError::of("making a TUN device", &error),
        })?;
        let interface = Interface::of(end, INTERFACE);
        interface.set_mtu(options.mtu)?;
        // no neighbour discovery by the kernel: only measured traffic is on the line
        interface.link_set(&["txqueuelen", DEVICE_QUEUE, "addrgenmode", "none"])?;
        Ok(tun)
    };
    let [server, client] = ends;
    let tuns = [device(server)?, device(client)?];
    Forwarder::start(tuns, wire).map_err(|error| LabError::of("starting the line", &error))
}

impl Seen {
    fn of(counters: &Counters) -> Self {
        let [to_client, to_server] = counters.directions.each_ref().map(|d| DirectionReport {
            packets: d.packets.load(Relaxed),
            bytes: d.bytes.load(Relaxed),
            dropped: d.dropped.load(Relaxed),
            lost: d.lost.load(Relaxed),
        });
        Self {
            to_client,
            to_server,
            cpu_ns: counters.cpu_ns.load(Relaxed),
            late_ns: counters.late_ns.load(Relaxed),
            deliveries: counters.deliveries.load(Relaxed),
        }
    }

    fn of_netem(server: Sent, client: Sent) -> Self {
        let direction = |s: Sent| DirectionReport {
            packets: s.packets,
            bytes: s.bytes,
            dropped: s.dropped,
            lost: 0,
        };
        Self { to_client: direction(server), to_server: direction(client), ..Self::default() }
    }

    #[allow(clippy::cast_precision_loss)] // for people
    fn since(&self, before: &Self, elapsed: Duration, latest_ns: u64) -> LinkReport {
        let less = |a: DirectionReport, b: DirectionReport| DirectionReport {
            packets: a.packets.saturating_sub(b.packets),
            bytes: a.bytes.saturating_sub(b.bytes),
            dropped: a.dropped.saturating_sub(b.dropped),
            lost: a.lost.saturating_sub(b.lost),
        };
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let deliveries = self.deliveries.saturating_sub(before.deliveries).max(1) as f64;
        LinkReport {
            elapsed_s: seconds,
            to_server: less(self.to_server, before.to_server),
            to_client: less(self.to_client, before.to_client),
            forwarder_cpu_share: self.cpu_ns.saturating_sub(before.cpu_ns) as f64 / 1e9 / seconds,
            late_mean_us: self.late_ns.saturating_sub(before.late_ns) as f64 / deliveries / 1e3,
            late_max_us: latest_ns as f64 / 1e3,
        }
    }
}
