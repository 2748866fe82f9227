//! From "ready" to the end: signals, reload, reports, the graceful stop.

use super::control::ServerControl;
use super::start::RunningServer;
use super::systemd;
use crate::control_commands;
use admin::Control;
use anyhow::Context;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use sys::signal::{Signal, Signals};

/// How long calls that run may take to finish after SIGTERM.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Exit status after a second Ctrl-C (128 and the signal's number).
const INTERRUPTED: i32 = 130;

/// Serves until SIGTERM or Ctrl-C.
pub fn run(running: RunningServer) -> anyhow::Result<ExitCode> {
    let RunningServer { desk, signals, control, files } = running;
    let signal = wait(&signals, &desk);
    systemd::stopping();
    let hurry = match signal {
        Some(Signal::Interrupt) => "; Ctrl-C again ends it at once",
        Some(Signal::Terminate | Signal::HangUp | Signal::Report) | None => "",
    };
    tracing::info!("stopping: no new calls; what runs may finish{hurry}");
    desk.found.unregister();
    drop(control);
    desk.stop(TIMEOUT);
    drop(files);
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts the thread that waits for signals.
///
/// # Errors
/// No thread is to be had.
pub fn spawn_signal_thread(signals: Signals) -> anyhow::Result<Receiver<Signal>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || listen(&signals, &sender))
        .context("cannot start a thread: check the limits on processes")?;
    Ok(receiver)
}

/// Passes signals on. Only a second Ctrl-C is somebody who does not want to wait: a service manager
/// and a script beside it may each send SIGTERM, and mean an orderly end.
fn listen(signals: &Signals, sender: &Sender<Signal>) {
    let mut interrupted = false;
    while let Ok(signal) = signals.wait() {
        if signal == Signal::Interrupt && std::mem::replace(&mut interrupted, true) {
            std::process::exit(INTERRUPTED);
        }
        // nobody listens any more: the server is at its end, and only Ctrl-C still counts
        let _ = sender.send(signal);
    }
}

/// Waits for the signal that ends the server; reloads and reports in between.
fn wait(receiver: &Receiver<Signal>, desk: &ServerControl) -> Option<Signal> {
    while let Ok(signal) = receiver.recv() {
        match signal {
            Signal::Terminate | Signal::Interrupt => return Some(signal),
            Signal::HangUp => match desk.reload() {
                Ok(done) => {
                    for line in control_commands::reloaded(&done).lines() {
                        tracing::info!("reload: {line}");
                    }
                }
                Err(refused) => tracing::error!("reload refused, nothing changed: {refused}"),
            },
            Signal::Report => tracing::info!("{}", control_commands::status_line(&desk.status())),
        }
    }
    None
}
