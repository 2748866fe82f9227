//! Waiting until a server serves.

use super::{Placement, Process, ServerError};
use client::Client;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a server may take to start; Ganesha takes a second or two on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of one probe.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Pause between probes.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns when `nfs` answers NULL of NFSv3 and `mount` NULL of MOUNT v3, over TCP.
pub fn wait(
    name: &str,
    process: &mut Process,
    place: &Placement,
    nfs: SocketAddr,
    mount: SocketAddr,
) -> Result<(), ServerError> {
    let begun = Instant::now();
    loop {
        let asked = place.run(|| -> client::Result<()> {
            Client::tcp(nfs, ANSWER_WITHIN)?.null()?;
            Client::tcp(mount, ANSWER_WITHIN)?.mount_null(3)
        })?;
        if !process.is_alive() {
            return Err(process.did_not_start(name));
        }
        let Err(error) = asked else { return Ok(()) };
        if begun.elapsed() > PATIENCE {
            let words = process.last_words();
            let why = format!("no answer within {} s: {error}; {words}", PATIENCE.as_secs());
            return Err(ServerError::DidNotStart { name: name.into(), why });
        }
        std::thread::sleep(PAUSE);
    }
}
