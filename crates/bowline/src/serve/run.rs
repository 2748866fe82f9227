//! A running server until its end: reload, status report, graceful stop.

use super::control::ServerControl;
use super::start::RunningServer;
use super::systemd;
use crate::control_commands;
use admin::Control;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use sys::signal::Signal;

/// How long calls in progress may take to finish after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or Ctrl-C.
pub fn run(server: RunningServer) -> ExitCode {
    let RunningServer { control, signals, control_socket, backends } = server;
    let signal = wait_for_stop(&signals, &control);
    systemd::stopping();
    let hint = match signal {
        Some(Signal::Interrupt) => "; press Ctrl-C again to end at once",
        Some(Signal::Terminate | Signal::HangUp | Signal::Report) | None => "",
    };
    tracing::info!("stopping: no new calls; calls in progress may finish{hint}");
    control.parts.portmap.unregister();
    drop(control_socket);
    control.parts.stop(STOP_TIMEOUT);
    drop(backends);
    tracing::info!("stopped");
    ExitCode::SUCCESS
}

/// Waits for a signal that stops the server; handles the others.
fn wait_for_stop(signals: &Receiver<Signal>, control: &ServerControl) -> Option<Signal> {
    while let Ok(signal) = signals.recv() {
        match signal {
            Signal::Terminate | Signal::Interrupt => return Some(signal),
            Signal::HangUp => match control.reload() {
                Ok(done) => {
                    for line in control_commands::reload_text(&done).lines() {
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
