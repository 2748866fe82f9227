//! Results as JSON, in a file or on standard output.

use crate::output::print;

/// Writes data as JSON into a file; `-` is standard output.
pub(super) fn write_json(
    file: &std::path::Path,
    data: &impl serde::Serialize,
) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(data)? + "\n";
    if file.as_os_str() == "-" {
        return print(text);
    }
    std::fs::write(file, text).map_err(|e| anyhow::anyhow!("{}: {e}", file.display()))
}
