//! Other load of a machine during measurements: other processes before an experiment, and the host of a virtual
//! machine during it. Figures of a loaded machine are worse and spread more, so the report mentions it.

use crate::result::Fact;
use std::time::Duration;
use sys::thread::{CpuTimes, cpu_times};

/// How long other processes are measured before an experiment, while it does nothing.
const WATCH: Duration = Duration::from_millis(300);
/// From this share of the CPUs on, other processes count as load.
const BUSY_MIN: f64 = 0.1;
/// The same for steal time.
const STOLEN_MIN: f64 = 0.02;

/// The load before an experiment.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundLoad {
    /// The share of the CPUs that others used, 0 to 1.
    busy: f64,
    /// The load average of one minute.
    average: Option<f64>,
    /// When the experiment began.
    times: CpuTimes,
}

impl BackgroundLoad {
    /// Measures the load of the machine for a moment.
    pub(crate) fn watch() -> Self {
        let first = cpu_times().unwrap_or_default();
        std::thread::sleep(WATCH);
        let times = cpu_times().unwrap_or_default();
        let average = std::fs::read_to_string("/proc/loadavg").ok();
        let average = average.and_then(|text| text.split(' ').next()?.parse().ok());
        Self { busy: busy_share(&first, &times), average, times }
    }

    /// The text of the report after the experiment: the figures, and a remark if the machine was
    /// loaded.
    pub(crate) fn report(&self) -> (Fact, Option<String>) {
        let stolen = cpu_times().unwrap_or_default().stolen_since(&self.times);
        self.report_with(stolen)
    }

    fn report_with(&self, stolen: f64) -> (Fact, Option<String>) {
        let average =
            self.average.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.1}"));
        let figures = format!(
            "load average {average}, other processes used {:.0} % of the CPUs; the host took {:.1} % during the experiment",
            self.busy * 100.0,
            stolen * 100.0
        );
        let loaded = self.busy >= BUSY_MIN || stolen >= STOLEN_MIN;
        let remark = loaded.then(|| {
            format!(
                "The machine was loaded ({figures}): the figures are worse and spread more than those of an idle machine."
            )
        });
        (Fact { name: "load before the experiment".to_owned(), value: figures }, remark)
    }
}

/// The share of the CPUs that was neither idle nor stolen by the host.
fn busy_share(before: &CpuTimes, after: &CpuTimes) -> f64 {
    let passed = |of: fn(&CpuTimes) -> Duration| of(after).saturating_sub(of(before)).as_secs_f64();
    let (all, idle, stolen) = (passed(|t| t.all), passed(|t| t.idle), passed(|t| t.stolen));
    if all > 0.0 { ((all - idle - stolen) / all).max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{BackgroundLoad, busy_share};
    use std::time::Duration;
    use sys::thread::CpuTimes;

    #[test]
    fn a_loaded_machine_gives_a_remark() {
        let seen = |busy, stolen| {
            let times = CpuTimes::default();
            BackgroundLoad { busy, average: Some(7.25), times }.report_with(stolen)
        };
        let (fact, remark) = seen(0.03, 0.001);
        assert!(
            fact.value.starts_with("load average 7.2, other processes used 3 % of the CPUs"),
            "{fact:?}"
        );
        assert_eq!(remark, None);
        assert!(seen(0.5, 0.0).1.unwrap().contains("other processes used 50 %"));
        assert!(seen(0.0, 0.05).1.unwrap().contains("the host took 5.0 %"));
    }

    #[test]
    fn the_share_of_others_excludes_idle_and_stolen_time() {
        let times = |all, idle, stolen| {
            let [all, idle, stolen] = [all, idle, stolen].map(Duration::from_millis);
            CpuTimes { all, idle, stolen }
        };
        let share = busy_share(&times(1000, 500, 0), &times(2000, 1000, 250));
        assert!((share - 0.25).abs() < 1e-9, "{share}");
        assert!(busy_share(&times(5, 5, 0), &times(5, 5, 0)).abs() < 1e-9);
    }

    #[test]
    fn the_load_of_this_machine_can_be_measured() {
        let seen = BackgroundLoad::watch();
        assert!((0.0..=1.0).contains(&seen.busy) && seen.average.is_some(), "{seen:?}");
    }
}
