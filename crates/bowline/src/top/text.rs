//! The figures as text: the cells that the screen shows as well, and the page of `--once`.

use super::view::View;
use crate::host_names;
use admin::Align::{Left, Right};
use admin::Table;
use admin::rates::{Rates, Row, Waits};

/// The headings of the columns, the first aligned to the left, as the last.
pub const HEADINGS: [&str; 8] = ["NAME", "CALLS/s", "ERR/s", "IN/s", "OUT/s", "P50", "P99", "NOTE"];

/// The cells of a row.
pub fn cells(row: &Row) -> [String; 8] {
    let rate = |rate: f64| if rate < 0.05 { "-".to_owned() } else { per_second(rate) };
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), admin::duration_ns);
    [
        row.name.clone(),
        rate(row.calls_per_s),
        row.errors_per_s.map_or_else(|| "-".to_owned(), rate),
        bytes(row.in_bytes_per_s),
        bytes(row.out_bytes_per_s),
        time(row.p50_ns),
        time(row.p99_ns),
        row.note.clone(),
    ]
}

/// The first lines: the server, all calls together, and what calls wait for.
pub fn summary(rates: &Rates) -> [String; 3] {
    let (server, total) = (&rates.server, &rates.total);
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), admin::duration_ns);
    [
        format!(
            "bowline {}  up {}  {} connection{}  {} workers  {}",
            server.version,
            admin::duration_s(server.uptime_s),
            admin::count(server.connections),
            if server.connections == 1 { "" } else { "s" },
            server.worker_threads,
            admin::bytes(server.memory_bytes),
        ),
        format!(
            "calls {}/s  errors {}/s  in {}/s  out {}/s",
            per_second(total.calls_per_s),
            per_second(total.errors_per_s.unwrap_or(0.0)),
            whole_bytes(total.in_bytes_per_s),
            whole_bytes(total.out_bytes_per_s),
        ),
        format!(
            "latency p50 {}  p99 {}   waiting: {}",
            time(total.p50_ns),
            time(total.p99_ns),
            waits(&server.waits)
        ),
    ]
}

/// Who waits for what.
fn waits(waits: &Waits) -> String {
    let oldest = admin::duration_ns(waits.disk_oldest_ms.saturating_mul(1_000_000));
    let parts = [
        (waits.disk_calls, format!("for disk (oldest {oldest})")),
        (waits.share_calls, "for their export".to_owned()),
        (waits.threads, "for a thread".to_owned()),
        (waits.network_connections, "for the network".to_owned()),
        (waits.lock_requests, "for a lock".to_owned()),
    ];
    let some = parts.into_iter().filter(|(count, _)| *count > 0);
    let text: Vec<_> =
        some.map(|(count, what)| format!("{} {what}", admin::count(count))).collect();
    if text.is_empty() { "none".to_owned() } else { text.join(", ") }
}

/// The text, or the front of it with `…` where it has more than `width` characters.
pub fn fitting(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let front = text.chars().take(width.saturating_sub(1));
    front.chain(['…']).collect()
}

/// A view with the summary.
pub fn page(rates: &Rates, view: View) -> String {
    let mut text = summary(rates).join("\n");
    text.push('\n');
    for problem in &rates.server.problems {
        text.push_str(&format!("warning: {problem}\n"));
    }
    text.push_str(&format!("\n{}, over {:.1} s:\n", view.name(), rates.interval_s));
    let heading = |column: &usize| match HEADINGS[*column] {
        name @ ("NAME" | "NOTE") => (name, Left),
        name => (name, Right),
    };
    let columns: Vec<_> = view.columns().iter().map(heading).collect();
    let mut table = Table::new(&columns);
    for row in view.rows(rates) {
        let mut all = cells(row);
        all[0] = host_names::beside(&all[0]);
        table.row(view.columns().iter().map(|column| std::mem::take(&mut all[*column])));
    }
    text + &table.to_string()
}

fn per_second(rate: f64) -> String {
    admin::per_second(rate).trim_end_matches("/s").to_owned()
}

/// The cell of a table: a dash where nothing came or went.
fn bytes(per_s: f64) -> String {
    if per_s < 0.5 { "-".to_owned() } else { whole_bytes(per_s) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shown to people")]
fn whole_bytes(per_s: f64) -> String {
    admin::bytes(per_s.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::top::samples::sample;
    use crate::top::view::View;
    use admin::rates::Rates;

    #[test]
    fn a_page_has_the_total_and_a_view() {
        let rates = Rates::between(&sample(10_000, 1000), &sample(12_000, 3000));
        let text = page(&rates, View::Clients);
        for part in [
            "bowline 1.2.3  up 12 s  1 connection ",
            "calls 1 000/s  errors 0/s  in 97.7 KiB/s  out 976.6 KiB/s\n",
            "latency p50 102.4 µs  p99 8.9 ms   waiting: none\n",
            "warning: look here\n",
            "clients, over 2.0 s:\n",
            "192.0.2.7    1 000",
            "1 connection; /srv/data\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(page(&rates, View::Operations).contains("nfs v3 READ"));
        let idle = Rates::between(&sample(10_000, 1000), &sample(12_000, 1000));
        assert!(
            page(&idle, View::Clients).contains("calls 0/s  errors 0/s  in 0 B/s  out 0 B/s\n")
        );
    }
}
