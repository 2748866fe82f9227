//! What the operator is told of the grace period and of the store behind it, and how he ends the one.

use super::parts::ServerParts;
use admin::Refused;
use admin::api::{GraceHostRow, GraceStatus};
use state::{GraceClient, GraceHost, Phase};
use std::time::{Duration, Instant};

/// How long the operator waits for the end to be stored.
const PATIENCE: Duration = Duration::from_secs(5);

/// The grace period, ended first if that is asked for.
///
/// # Errors
/// There is none to end, or its end cannot be stored.
pub fn answer(parts: &ServerParts, end: bool) -> Result<GraceStatus, Refused> {
    if end {
        end_now(parts)?;
    }
    Ok(status(parts))
}

fn end_now(parts: &ServerParts) -> Result<(), Refused> {
    let phase = || parts.nfs.state.grace_period(parts.nlm.now()).0;
    if phase() == Phase::Over {
        return Err(Refused("there is no grace period".to_owned()));
    }
    // it is stored, and then over, by the thread that would do so in time
    let _stored_there = parts.nfs.state.end_grace();
    parts.lock_timer.wake();
    let begun = Instant::now();
    while phase() != Phase::Over {
        if begun.elapsed() > PATIENCE {
            let why = parts.recovery.failure().map_or_else(String::new, |why| format!(": {why}"));
            return Err(Refused(format!("its end cannot be stored yet{why}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    tracing::info!("grace period: ended by the operator");
    Ok(())
}

fn status(parts: &ServerParts) -> GraceStatus {
    let now = parts.nlm.now();
    let (phase, ends_ms, hosts) = parts.nfs.state.grace_period(now);
    let told = parts.lock_timer.notified();
    let nsm = parts.nsm.counters();
    let watched = parts.nlm.machine_monitor.progress();
    let running = phase != Phase::Over;
    let host_row = |host: GraceHost| GraceHostRow {
        address: host.name.addr.to_string(),
        name: String::from_utf8_lossy(&host.name.name).into_owned(),
        version: "NLM".to_owned(),
        reclaimed: host.reclaimed,
        answered: host.answered,
    };
    let client_row = |known: GraceClient| GraceHostRow {
        address: known.client.address.to_canonical().to_string(),
        name: String::from_utf8_lossy(&known.client.name.owner).into_owned(),
        version: if known.client.name.minor == 0 { "4.0" } else { "4.1" }.to_owned(),
        reclaimed: known.reclaimed,
        answered: known.done,
    };
    let clients = parts.nfs.state.grace_clients().into_iter().map(client_row);
    GraceStatus {
        running,
        ends_in_ms: if running { ends_ms.saturating_sub(now.0) } else { 0 },
        hosts: hosts.into_iter().map(host_row).chain(clients).collect(),
        machines: told.machines as u64,
        machines_answered: told.answered as u64,
        machines_given_up: told.given_up as u64,
        state_number: parts.lock_timer.state_number().into(),
        client_reboots: nsm.reboots.saturating_add(watched.reboots),
        locks_dropped: nsm.locks_dropped.saturating_add(watched.locks_dropped),
        notifications_ignored: nsm.ignored.saturating_add(watched.ignored),
        monitor: parts.monitor.who().to_string(),
        watched_by_statd: watched.watched as u64,
    }
}

/// What is wrong with locks now.
pub fn warnings(parts: &ServerParts) -> Vec<String> {
    let store = parts
        .recovery
        .failure()
        .map(|why| format!("{why}: clients without locks cannot get any (No locks available), and NFSv4 clients wait when they \
                 open a file"));
    let monitor = (parts.nsm.counters().monitor_refused > 0).then(|| {
        "this machine's kernel, as a client of other servers, asked this server to monitor them, which is \
         rpc.statd's task: locks on those mounts fail; set nsm=statd and start rpc.statd, or mount them with nolock"
            .to_owned()
    });
    store.into_iter().chain(monitor).chain(parts.monitor.warning()).collect()
}
