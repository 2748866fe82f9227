//! The configuration file: TOML with the options of `bowline serve` as keys.

use super::file_error::FileError;
use crate::serve_options::ServeOptions;
use crate::settings;
use anyhow::Context;
use clap::Args as _;
use export::exports_file::nearest_name;
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
        let message =
            explained(error.message()).unwrap_or_else(|| error.message().replace('\n', " "));
        FileError::at(path.to_path_buf(), text, offset, message)
    })
}

/// What to write instead, for errors about which the deserializer speaks of its own types.
fn explained(message: &str) -> Option<String> {
    if let Some(rest) = message.strip_prefix("unknown field `") {
        return Some(unknown_key(rest.split('`').next()?));
    }
    let (found, expected) = message.strip_prefix("invalid ")?.split_once(", expected ")?;
    let found = found.strip_prefix("type: ").or_else(|| found.strip_prefix("value: "))?;
    let written = found.split_once(' ').map_or(found, |(_, value)| value).trim_matches(['`', '"']);
    match expected {
        "u16"
            if found.starts_with("string") && written.parse::<u16>().is_ok_and(|port| port > 0) =>
        {
            Some(format!("a number is written without quotes: {written}"))
        }
        "u16" => {
            Some(format!("{written} is not a number from 1 to 65535: write one, without quotes"))
        }
        "a boolean" => {
            Some(format!("{written} is neither true nor false: write one of them, without quotes"))
        }
        "a string" => Some(format!("text is written in quotes: \"{written}\"")),
        _ => None,
    }
}

/// A key that does not exist.
fn unknown_key(key: &str) -> String {
    let serve = ServeOptions::augment_args(clap::Command::new("serve"));
    let options = serve.get_arguments().filter_map(|option| option.get_long());
    // of the command line only
    let keys: Vec<&str> = options.filter(|name| *name != "config").chain(["dirs"]).collect();
    if settings::row(key).is_ok() {
        return format!(
            "{key} is a run-time setting: write it below [set], at the end of the file"
        );
    }
    let hint = match nearest_name(key.as_bytes(), keys.iter().copied()) {
        Some(near) => format!("did you mean {near}? "),
        None => String::new(),
    };
    format!("no key is called {key}: {hint}there are {}", keys.join(", "))
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
        assert!(error.contains("did you mean port?"), "{error}");
        assert!(
            error.contains("portmap") && error.contains("dirs"),
            "lists the known keys: {error}"
        );
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
    fn errors_show_the_correct_form() {
        for (text, part) in [
            ("port = \"2049\"\n", "a number is written without quotes: 2049"),
            ("port = \"nfs\"\n", "nfs is not a number from 1 to 65535"),
            ("port = 70000\n", "70000 is not a number from 1 to 65535"),
            ("port = 0\n", "1 to 65535"),
            ("read-only = 'yes'\n", "yes is neither true nor false"),
            ("dirs = [1]\n", "text is written in quotes: \"1\""),
            ("threads = 4\n", "write it below [set]"),
            ("[set]\nport = 4\n", "port is an option of `bowline serve`"),
            ("read_only = true\n", "did you mean read-only?"),
        ] {
            let error = error(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_option_config_is_for_the_command_line_only() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        for option in serve.get_arguments().filter_map(|a| a.get_long()).filter(|o| *o != "help") {
            let unknown = from_text(Path::new("b.toml"), &format!("{option} = {{}}\n"))
                .is_err_and(|error| error.message.contains("no key is called"));
            assert_eq!(unknown, option == "config", "{option}");
        }
    }
}
