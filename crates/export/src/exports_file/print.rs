//! An export as a line of exports(5).

use crate::export::ExportSpec;
use std::os::unix::ffi::OsStrExt;

/// The line, including its newline, that [`super::parse`] reads as the same export (if its files
/// are at its path, and it has clients). A client with parentheses cannot exist.
pub fn print(spec: &ExportSpec) -> Vec<u8> {
    let mut line = Vec::new();
    push_escaped(&mut line, &spec.path);
    for rule in &spec.rules {
        let text = format!(" {}({}", rule.client, rule.options_text());
        line.extend_from_slice(text.as_bytes());
        push_escaped(&mut line, spec.shared_options().as_bytes());
        if let Some(mount_point) = &spec.mount_point {
            line.extend_from_slice(b",mountpoint=");
            push_escaped(&mut line, mount_point.as_os_str().as_bytes());
        }
        line.push(b')');
    }
    line.push(b'\n');
    line
}

/// A line that exports the directory `path` to one client. Only [`super::parse`] finds out whether the words are right.
pub fn line(client: &str, path: &str, options: &str) -> Vec<u8> {
    let mut line = Vec::new();
    push_escaped(&mut line, path.as_bytes());
    line.push(b' ');
    push_escaped(&mut line, client.as_bytes());
    line.push(b'(');
    push_escaped(&mut line, options.as_bytes());
    line.extend_from_slice(b")\n");
    line
}

/// Appends a path with octal escapes for characters that would end a word.
fn push_escaped(line: &mut Vec<u8>, path: &[u8]) {
    for byte in path {
        match byte {
            b'"' | b'\\' | b'#' | ..=b' ' | 0x7f => {
                line.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
            other => line.push(*other),
        }
    }
}
