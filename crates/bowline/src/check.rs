//! `bowline check FILE`: what would be exported to whom, notes, and errors with their place.

use crate::cli::ServeOptions;
use crate::config::{self, Place, Settings};
use crate::exporting;
use anyhow::Context;
use export::ExportSpec;
use export::exports_file::parse;
use std::path::Path;
use std::process::ExitCode;

/// Checks a file. Status 0: it is in order; 1: it is not.
pub fn check(path: &Path) -> anyhow::Result<ExitCode> {
    let bytes = exporting::read(path)
        .map_err(|e| e.root_cause().to_string())
        .map_err(|why| anyhow::anyhow!("cannot read {}: {why}", path.display()))?;
    if is_configuration(path, &bytes) {
        configuration(path)
    } else {
        Ok(exports(path, &bytes, false))
    }
}

/// By its name; a file with another name, by what its first line looks like: an export begins with
/// a path, a configuration with a key or a table.
fn is_configuration(path: &Path, bytes: &[u8]) -> bool {
    if path.extension().is_some_and(|ending| ending == "toml") {
        return true;
    }
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| {
        let key = line.split('=').next().unwrap_or_default().trim_end();
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        line.starts_with('[') || (line.contains('=') && !key.is_empty() && key.chars().all(bare))
    })
}

fn exports(path: &Path, bytes: &[u8], read_only: bool) -> ExitCode {
    let mut parsed = parse(bytes);
    exporting::impose(&mut parsed.entries, read_only, None);
    let name = path.display().to_string();
    print_specs(&parsed.entries);
    for note in &parsed.notes {
        println!("note: {}", note.shown(&name, bytes));
    }
    for error in &parsed.errors {
        eprintln!("bowline: {}", error.shown(&name, bytes));
    }
    let mut wrong = parsed.errors.len();
    for spec in &parsed.entries {
        if let Err(error) = exporting::reachable(spec) {
            // the file may be meant for another machine or another day
            println!("note: {}: {error}", exporting::shown(&spec.path));
        }
        wrong += usize::from(twice(spec, &parsed.entries));
    }
    verdict(&name, wrong)
}

/// Whether another export before this one has its fsid.
fn twice(spec: &ExportSpec, all: &[ExportSpec]) -> bool {
    let before = all.iter().take_while(|other| other.path != spec.path);
    let same = spec.fsid.is_some() && before.into_iter().any(|other| other.fsid == spec.fsid);
    if same {
        eprintln!("bowline: {}: another export has its fsid", exporting::shown(&spec.path));
    }
    same
}

fn configuration(path: &Path) -> anyhow::Result<ExitCode> {
    let options = ServeOptions { config: Some(path.to_path_buf()), ..ServeOptions::default() };
    let name = path.display().to_string();
    let settings = match config::settle(options) {
        Ok(settings) => settings,
        Err(error) => {
            match error.downcast_ref::<Place>() {
                Some(place) => eprintln!("bowline: {place}\n{}", place.caret()),
                None => eprintln!("bowline: {name}: {error:#}"),
            }
            return Ok(verdict(&name, 1));
        }
    };
    print_settings(&settings);
    let mut wrong = 0;
    match exporting::of_dirs(&settings, None) {
        Ok(mut specs) => {
            exporting::impose(&mut specs, settings.read_only, None);
            print_specs(&specs);
            for spec in &specs {
                if let Err(error) = exporting::reachable(spec) {
                    println!("note: {error}");
                }
            }
        }
        Err(error) => {
            eprintln!("bowline: {name}: {error:#}");
            wrong += 1;
        }
    }
    if let Some(file) = &settings.exports {
        let bytes = exporting::read(file).context("the key exports")?;
        if exports(file, &bytes, settings.read_only) != ExitCode::SUCCESS {
            wrong += 1;
        }
    }
    Ok(verdict(&name, wrong))
}

fn print_settings(settings: &Settings) {
    let at: Vec<String> = settings.listen.iter().map(ToString::to_string).collect();
    println!("listens on {} port {}", at.join(", "), settings.port);
    println!(
        "state in {}, control socket {}",
        settings.state_dir.display(),
        settings.control.display()
    );
}

fn print_specs(specs: &[ExportSpec]) {
    for spec in specs {
        let (path, directory) = (exporting::shown(&spec.path), spec.source.to_string());
        if path == directory {
            println!("{path}");
        } else {
            println!("{path} ({directory})");
        }
        for (clients, options) in exporting::rules_text(&spec.rules) {
            println!("  to {clients} ({options})");
        }
    }
}

fn verdict(name: &str, wrong: usize) -> ExitCode {
    if wrong == 0 {
        println!("{name}: in order");
        ExitCode::SUCCESS
    } else {
        println!("{name}: {wrong} wrong");
        ExitCode::from(1)
    }
}

#[cfg(test)]
mod tests {
    use super::is_configuration;
    use std::path::Path;

    #[test]
    fn files_are_told_apart() {
        let seen = |name: &str, text: &str| is_configuration(Path::new(name), text.as_bytes());
        assert!(seen("a.toml", "/tmp *(rw)"));
        assert!(seen("config", "# hello\n\nport = 3\n"));
        assert!(seen("config", "[set]\nthreads = 3\n"));
        assert!(!seen("exports", "# hello\n/tmp *(rw,fsid=3)\n"));
        assert!(!seen("exports", "\"/a b\" *(rw,fsid=3)\n"));
        assert!(!seen("exports", ""));
    }
}
