//! Measures what the line simulator can carry here: goodput, forwarder, lateness for a few lines.
//!
//! `cargo run --release -p bowline-bench --example link` as root.

use bench::lab::{LabError, Link, LinkOptions, sockstat};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// One flow from the client to the server, 3 s after it has reached its rate.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("   Mbit/s  RTT ms  offload      MB/s  forwarder CPU  late us mean/max  dropped");
    let rows = [
        (Some(1000), 30, true),
        (Some(1000), 30, false),
        (Some(1000), 120, true),
        (Some(2500), 30, true),
        (Some(5000), 30, true),
        (None, 1, true),
        (None, 1, false),
    ];
    for (rate, rtt_ms, offload) in rows {
        let options = LinkOptions {
            rate_bits_per_s: rate.map(|mbit: u64| mbit * 1_000_000),
            rtt: Duration::from_millis(rtt_ms),
            offload,
            ..LinkOptions::default()
        };
        let link = Link::start(&options)?;
        let rate = rate.map_or("none".into(), |rate| rate.to_string());
        match measure(&link) {
            Ok((goodput, report)) => println!(
                "{rate:>9}  {rtt_ms:>6}  {offload:>7}  {:>8.1}  {:>13.2}  {:>8.0}/{:<7.0}  {}",
                goodput / 1e6,
                report.forwarder_cpu_share,
                report.late_mean_us,
                report.late_max_us,
                report.to_server.dropped
            ),
            Err(error) => println!("{rate:>9}  {rtt_ms:>6}  {offload:>7}  {error}"),
        }
    }
    Ok(())
}

fn measure(
    link: &Link,
) -> Result<(f64, bench::lab::LinkReport), Box<dyn std::error::Error + Send + Sync>> {
    sockstat::wait_until_quiet(Duration::from_secs(60))?;
    let listener = link.server.run(|| TcpListener::bind((link.server_addr, 0)))??;
    let addr = listener.local_addr()?;
    let mut client = link.client.run(|| TcpStream::connect(addr))??;
    let mut server = listener.accept()?.0;
    sys::outgoing::reset_on_close(&client)?;
    sys::outgoing::reset_on_close(&server)?;
    let sender = std::thread::spawn(move || {
        let block = vec![1; 1 << 18];
        while client.write_all(&block).is_ok() {}
    });
    let mut block = vec![0; 1 << 20];
    let mut drain = |time: Duration| -> std::io::Result<f64> {
        let begun = Instant::now();
        let mut bytes = 0_u64;
        while begun.elapsed() < time {
            bytes += server.read(&mut block)? as u64;
        }
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    };
    drain(WARM_UP)?;
    link.report()?;
    let goodput = drain(MEASURED)?;
    let report = link.report().map_err(|error: LabError| error.to_string())?;
    drop(server);
    let _ = sender.join();
    Ok((goodput, report))
}
