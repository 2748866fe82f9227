//! The report: a directory of results becomes one self-contained page.
//!
//! `read` parses what [`crate::result`] defines → `page`, `section` and `sentence` write HTML → `figure` draws a
//! plot (`curves`, `bars`; `scale` maps values to positions and chooses ticks, `text_width` measures
//! text, `series_style` distinguishes series, `svg` writes elements).
//!
//! Invariants: the page has no external references and no script; all text from a result is
//! escaped; the same results give the same bytes. It computes no figures: every number is one of
//! the files', and the raw trials are on the page.

mod bars;
mod compact;
mod curves;
mod error;
mod figure;
mod html;
mod numbers;
mod page;
#[cfg(test)]
mod palette;
mod read;
mod scale;
mod section;
mod sentence;
mod series_style;
mod svg;
mod text_width;

pub use error::ReportError;
pub use figure::figure;
pub use page::Style;
pub use sentence::sentence;

use std::path::{Path, PathBuf};

/// The style of pages with [`Style::Linked`].
pub fn stylesheet() -> String {
    page::stylesheet()
}

/// Reads results as [`write()`] does and returns their page.
///
/// # Errors
/// As [`write()`].
pub fn html(from: &Path, style: Style<'_>) -> Result<String, ReportError> {
    Ok(page::page(&read::results(from)?, style))
}

/// Reads `DIR/machine.json` and every other `DIR/*.json` and writes `DIR/report.html`; or reads a compact file
/// `FILE.json` and writes `FILE.html` beside it. Returns the path of the page. An older page is replaced atomically.
///
/// # Errors
/// The file that could not be read or written, and for invalid JSON its line.
pub fn write(from: &Path) -> Result<PathBuf, ReportError> {
    let results = read::results(from)?;
    let path = if from.is_dir() { from.join("report.html") } else { from.with_extension("html") };
    replace(&path, &page::page(&results, Style::Inside))?;
    Ok(path)
}

/// Reads results as [`write()`] does and writes them as one compact file, for a repository.
///
/// # Errors
/// As [`write()`].
pub fn write_compact(from: &Path, to: &Path) -> Result<(), ReportError> {
    let results = read::results(from)?;
    let text = compact::text(&results)
        .map_err(|error| ReportError::Write { path: to.to_path_buf(), source: error.into() })?;
    replace(to, &text)
}

/// Writes a file beside `path` and renames it, so that `path` is never half written.
fn replace(path: &Path, text: &str) -> Result<(), ReportError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).map_err(|source| {
        // the first error is the one to report
        let _ = std::fs::remove_file(&new);
        ReportError::Write { path: path.to_path_buf(), source }
    })
}
