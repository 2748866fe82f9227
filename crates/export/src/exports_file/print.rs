//! An export as a line of exports(5).

use crate::export::ExportSpec;

/// The line, with its end, that [`super::parse`] reads as the same export (if its files are where
/// its path says, and it has clients). A client with parentheses cannot exist.
pub fn print(spec: &ExportSpec) -> Vec<u8> {
    let mut line = Vec::new();
    for byte in &spec.path {
        match byte {
            b'"' | b'\\' | b'#' | ..=b' ' | 0x7f => {
                line.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
            other => line.push(*other),
        }
    }
    for rule in &spec.rules {
        let fsid = spec.fsid.map(|fsid| format!(",fsid={fsid}")).unwrap_or_default();
        let text = format!(" {}({}{fsid})", rule.client, rule.options.text());
        line.extend_from_slice(text.as_bytes());
    }
    line.push(b'\n');
    line
}
