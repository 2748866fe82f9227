//! A running server until its end: reload, status report, graceful stop in bounded time.

use super::backends::Backends;
use super::control::ServerControl;
use super::start::RunningServer;
use super::systemd;
use crate::control_commands;
use admin::Control;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use sys::signal::Signal;

/// How long calls in progress may take to finish after SIGTERM. With what follows (a second for the workers that are cut
/// off, and [`CLOSE_TIMEOUT`]) the server ends within ten seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
/// How long closing the open files may take. What is left is closed by the kernel.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs until SIGTERM or Ctrl-C.
pub fn run(server: RunningServer) -> ! {
    let RunningServer {
        control,
        signals,
        control_socket,
        export_watch,
        metrics,
        hung_calls,
        backends,
    } = server;
    let signal = wait_for_stop(&signals, &control);
    systemd::stopping();
    let hint = match signal {
        Some(Signal::Interrupt) => "; press Ctrl-C again to end at once",
        Some(Signal::Terminate | Signal::HangUp | Signal::Report) | None => "",
    };
    tracing::info!("stopping: no new calls; calls in progress may finish{hint}");
    drop(export_watch);
    control.parts.portmap.unregister();
    drop(control_socket);
    drop(metrics);
    drop(hung_calls);
    let done = control.parts.stop(STOP_TIMEOUT);
    control.parts.audit.finish();
    if !done {
        let hung = control.blocked_paths().join(", ");
        tracing::warn!("calls were still in progress and are cut off, in: {hung}");
    }
    end(&control, backends, done)
}

/// Ends the process without waiting for a file system that hangs: neither for threads that wait in it nor for files that
/// it does not let be closed. The kernel may keep such a process as a zombie until the file system answers; what the
/// next server needs (addresses, state directory) is free before.
fn end(control: &ServerControl, backends: Backends, done: bool) -> ! {
    let (closed, wait) = channel();
    let close = move || {
        backends.close();
        // nobody waits any more if it took too long
        let _ = closed.send(());
    };
    let started = std::thread::Builder::new().name("closing".into()).spawn(close);
    let in_time = started.is_ok() && wait.recv_timeout(CLOSE_TIMEOUT).is_ok();
    if !in_time {
        let how = "a separate process waits for it";
        tracing::warn!("closing files hangs in a file system: {how}");
    }
    tracing::info!("stopped");
    control.export_loader.release_state_dir();
    sys::exit::close_all_sockets();
    if !(done && in_time) {
        // if there can be no other process, the kernel may hold up the end
        let _ = sys::exit::leave_files_to_child();
    }
    std::process::exit(0)
}

/// Waits for a signal that stops the server; handles the others.
fn wait_for_stop(signals: &Receiver<Signal>, control: &ServerControl) -> Option<Signal> {
    while let Ok(signal) = signals.recv() {
        match signal {
            Signal::Terminate | Signal::Interrupt => return Some(signal),
            Signal::HangUp => match control.reload(false) {
                Ok(done) => {
                    for line in control_commands::reload_text(&done, false).lines() {
                        tracing::info!("reload: {line}");
                    }
                }
                Err(refused) => tracing::error!("reload failed, nothing changed: {refused}"),
            },
            Signal::Report => {
                tracing::info!("{}", control_commands::status_line(&control.status()));
            }
        }
    }
    None
}
