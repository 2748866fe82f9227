//! The configuration file: TOML with the options of `bowline serve` as keys.

use super::file_error::FileError;
use crate::serve_options::ServeOptions;
use anyhow::Context;
use std::path::Path;

/// Longest configuration file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Reads and checks a configuration file.
///
/// # Errors
/// It cannot be read, or a [`FileError`].
pub fn read(path: &Path) -> anyhow::Result<ServeOptions> {
    let context = || format!("cannot read the configuration {}", path.display());
    let length = std::fs::metadata(path).with_context(context)?.len();
    if length > BYTES_MAX {
        anyhow::bail!("{}: a configuration has at most {BYTES_MAX} bytes", path.display());
    }
    let text = std::fs::read_to_string(path).with_context(context)?;
    Ok(from_text(path, &text)?)
}

/// Checks the text of a configuration file.
///
/// # Errors
/// What is wrong, and where.
pub fn from_text(path: &Path, text: &str) -> Result<ServeOptions, FileError> {
    toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        FileError::at(path.to_path_buf(), text, offset, error.message().replace('\n', " "))
    })
}

#[cfg(test)]
mod tests {
    use super::from_text;
    use crate::cli::Cli;
    use clap::CommandFactory;
    use std::path::Path;

    fn error(text: &str) -> String {
        from_text(Path::new("b.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_reported_with_its_position() {
        let error = error("port = 2049\nprot = 1\n");
        assert!(error.starts_with("b.toml:2:1: ") && error.contains("prot"), "{error}");
        assert!(error.contains("portmap"), "lists the known keys: {error}");
    }

    #[test]
    fn a_wrong_value_is_reported_with_its_position() {
        for (text, position) in [
            ("port = 0\n", "b.toml:1:8: "),
            ("listen = ['127.0.0.1', 'nowhere']\n", "b.toml:1:10: "),
            ("\nread-only = 'yes'\n", "b.toml:2:13: "),
            ("[set]\nmax-read = '3K'\n", "b.toml:2:12: "),
            ("[set]\nmax-reed = '4K'\n", "b.toml:2:1: "),
            ("portmap = 'maybe'\n", "b.toml:1:11: "),
            ("dirs = [1]\n", "b.toml:1:9: "),
            ("port = \n", "b.toml:1:8: "),
        ] {
            let error = error(text);
            assert!(error.starts_with(position), "{text:?}: {error}");
            assert!(!error.contains('\n'), "one line: {error}");
        }
    }

    #[test]
    fn the_option_config_is_for_the_command_line_only() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        for option in serve.get_arguments().filter_map(|a| a.get_long()).filter(|o| *o != "help") {
            let unknown = from_text(Path::new("b.toml"), &format!("{option} = {{}}\n"))
                .is_err_and(|error| error.message.contains("unknown field"));
            assert_eq!(unknown, option == "config", "{option}");
        }
    }
}
