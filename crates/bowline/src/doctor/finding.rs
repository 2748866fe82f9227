//! One finding of `bowline doctor`, and running a check with a time limit.

use serde::Serialize;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and something is worth knowing.
    Note,
    /// Something will not work.
    Problem,
}

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub about: &'static str,
    pub level: Level,
    /// How it is.
    pub text: String,
    /// What to do about it; empty where it is right.
    pub remedy: String,
}

impl Finding {
    /// It is right.
    pub fn ok(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, level: Level::Ok, text: text.into(), remedy: String::new() }
    }

    /// It works, and this is worth knowing.
    pub fn note(about: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { about, level: Level::Note, text: text.into(), remedy: remedy.into() }
    }

    /// It will not work.
    pub fn problem(
        about: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { about, level: Level::Problem, text: text.into(), remedy: remedy.into() }
    }

    /// One line, and one for the remedy.
    pub fn shown(&self) -> String {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Problem => "PROBLEM",
        };
        let head = format!("{level:8}{:17}{}\n", self.about, self.text);
        match self.remedy.as_str() {
            "" => head,
            remedy => format!("{head}{:25}-> {remedy}\n", ""),
        }
    }
}

/// What a question gives in bounded time; `None` if it takes longer or there is no thread for it.
pub fn within<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    within_time(PATIENCE, ask)
}

/// The same in a time of the caller's.
pub fn within_time<T: Send + 'static>(
    patience: Duration,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = channel();
    let asked = std::thread::Builder::new().name("doctor".into()).spawn(move || {
        // nobody is left if it took too long
        let _ = sender.send(ask());
    });
    asked.ok().and_then(|_| receiver.recv_timeout(patience).ok())
}

#[cfg(test)]
mod tests {
    use super::{Finding, Level, within};

    #[test]
    fn a_finding_and_its_remedy_are_one_line_each() {
        assert_eq!(Finding::ok("clock", "is set").shown(), "ok      clock            is set\n");
        let bad = Finding::problem("firewall", "drops port 2049", "open it");
        assert_eq!(
            bad.shown(),
            "PROBLEM firewall         drops port 2049\n                         -> open it\n"
        );
        assert!(Level::Problem > Level::Note);
    }

    #[test]
    fn a_check_that_hangs_times_out() {
        assert_eq!(within(|| 7), Some(7));
        let (_never, waits) = std::sync::mpsc::channel::<()>();
        assert_eq!(within(move || waits.recv().is_ok()), None);
    }
}
