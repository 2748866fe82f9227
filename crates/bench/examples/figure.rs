//! Prints a plot of results as an SVG file: `figure RUN.json EXPERIMENT NUMBER` takes a plot of a compact file of
//! results (`bowline bench report --compact`), `figure PLOT.json` a plot by itself.
//!
//! `cargo run -p bowline-bench --example figure -- docs/bench/2026-11-21.json rsync-walk 1`

use bench::result::Plot;
use serde_json::Value;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let plot = match args.as_slice() {
        [plot] => serde_json::from_str(&std::fs::read_to_string(plot)?)?,
        [run, experiment, number] => {
            let run: Value = serde_json::from_str(&std::fs::read_to_string(run)?)?;
            let number: usize = number.parse()?;
            let all = run.get("experiments").and_then(Value::as_array);
            let found = all.and_then(|all| {
                let one =
                    all.iter().find(|one| one.get("name") == Some(&experiment.as_str().into()))?;
                one.get("plots")?.get(number.checked_sub(1)?).cloned()
            });
            serde_json::from_value(found.ok_or("no such plot")?)?
        }
        _ => return Err("figure RUN.json EXPERIMENT NUMBER | figure PLOT.json".into()),
    };
    let plot: Plot = plot;
    print!("{}", bench::report::figure(&plot));
    Ok(())
}
