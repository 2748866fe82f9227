//! `--watch N`: prints a command's output again every N seconds, on a terminal over the last one.

use anyhow::Context;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// The shortest time between two outputs.
const SECONDS_MIN: f64 = 0.1;
/// The longest.
const SECONDS_MAX: f64 = 86_400.0;

/// Parses the argument of `--watch`.
///
/// # Errors
/// It is no number of seconds in the range.
pub fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!("write a number of seconds from {SECONDS_MIN} to {SECONDS_MAX}")),
    }
}

/// Prints what `output` returns, every `interval`, until that fails or nobody reads any more.
///
/// # Errors
/// Those of `output`, and that standard output cannot be written.
pub fn repeat(
    interval: Duration,
    title: &str,
    mut output: impl FnMut() -> anyhow::Result<String>,
) -> anyhow::Result<ExitCode> {
    let terminal = io::stdout().is_terminal();
    loop {
        let text = output()?;
        let screen = match terminal {
            true => screen(
                &text,
                title,
                interval,
                ratatui::crossterm::terminal::size().unwrap_or((80, 24)),
            ),
            false => text,
        };
        let mut out = io::stdout().lock();
        match out.write_all(screen.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(error).context("cannot write to standard output"),
        }
        drop(out);
        std::thread::sleep(interval);
    }
}

/// The text as a screen of this size: each line is cut at its width, and what is below its height is left out.
fn screen(text: &str, title: &str, interval: Duration, (width, height): (u16, u16)) -> String {
    // to the top; each line erases what was behind it, the last one all below
    let mut screen = String::from("\x1b[H");
    let head = format!("{title}, every {} s; Ctrl-C ends", interval.as_secs_f64());
    let rows = usize::from(height).saturating_sub(2);
    let count = text.lines().count();
    let shown = if count > rows { rows.saturating_sub(1) } else { rows };
    let more = (count > rows).then(|| format!("and {} more lines", count - shown));
    for line in
        std::iter::once(head.as_str()).chain(text.lines().take(shown)).chain(more.as_deref())
    {
        screen.extend(line.chars().take(width.into()));
        screen.push_str("\x1b[K\r\n");
    }
    screen.push_str("\x1b[J");
    screen
}

#[cfg(test)]
mod tests {
    use super::{interval, screen};
    use std::time::Duration;

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "fast", "nan", "1e9", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn output_is_truncated_to_the_screen_size() {
        let text = "one one one\ntwo\nthree\nfour\n";
        let shown = screen(text, "bowline", Duration::from_secs(2), (7, 5));
        assert_eq!(
            shown,
            "\x1b[Hbowline\x1b[K\r\none one\x1b[K\r\ntwo\x1b[K\r\nand 2 m\x1b[K\r\n\x1b[J"
        );
        let all = screen(text, "t", Duration::from_secs(2), (80, 6));
        assert!(all.contains("four") && !all.contains("more"), "{all}");
    }
}
