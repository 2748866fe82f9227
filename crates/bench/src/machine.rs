//! The machine of the results, as far as it can be determined: processor, memory, kernel, and what
//! else changes a figure.
//!
//! Everything is read from `/proc`, `/sys` and `/etc/os-release`; missing values are omitted.

use crate::result::{Fact, Machine, now};
use std::path::Path;

/// Settings that change what a network measurement finds.
const SYSCTLS: [&str; 10] = [
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "net.core.default_qdisc",
    "vm.dirty_ratio",
    "kernel.sched_autogroup_enabled",
];

impl Machine {
    /// This machine, now. `bowline` is the version under test; `scratch` is where the exports will
    /// be.
    pub fn here(bowline: &str, scratch: &Path) -> Self {
        let cpus = sys::thread::allowed_cpus().map_or(1, |cpus| cpus.len());
        Self {
            started: now(),
            bowline: bowline.to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            cpu_model: read("/proc/cpuinfo").and_then(|text| cpu_model(&text)).unwrap_or_default(),
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            memory_bytes: read("/proc/meminfo").and_then(|text| memory(&text)).unwrap_or(0),
            system: read("/etc/os-release").and_then(|text| system(&text)).unwrap_or_default(),
            privileged: sys::identity::own().is_ok_and(|own| own.uid == 0),
            facts: facts(scratch),
        }
    }
}

fn facts(scratch: &Path) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push(Fact { name: name.to_owned(), value });
        }
    };
    for name in SYSCTLS {
        let value = read(&format!("/proc/sys/{}", name.replace('.', "/")));
        add(name, value.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    let frequency = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    add("frequency governor", read(frequency));
    add("virtual machine", read("/proc/cpuinfo").map(|text| yes_no(is_virtual(&text))));
    add("memory nodes", Some(sys::thread::nodes().len().to_string()));
    add("clock", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    add("file system of the exports", read("/proc/self/mounts").and_then(|m| kind(&m, scratch)));
    let load = read("/proc/loadavg");
    let load = load.and_then(|text| text.rsplitn(3, ' ').nth(2).map(str::to_owned));
    add("load before the run (1, 5, 15 minutes)", load);
    facts
}

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

/// The value of `name : value`, as `/proc/cpuinfo` has it.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == wanted).then(|| value.trim().to_owned())
        })
    };
    // ARM's cpuinfo has no names, only numbers
    value("model name").or_else(|| value("Model")).or_else(|| {
        Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?))
    })
}

fn is_virtual(cpuinfo: &str) -> bool {
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// `MemTotal:  16384 kB`
fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn system(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

/// The type of the file system that holds `path`: that of the longest mount point above it, the latest
/// of equals.
fn kind(mounts: &str, path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let rows = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        path.starts_with(point).then_some((point.len(), kind))
    });
    rows.max_by_key(|(length, _)| *length).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{cpu_model, is_virtual, kind, memory, system};
    use crate::result::Machine;
    use std::path::Path;

    #[test]
    fn kernel_files_are_parsed() {
        let x86 = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz\nflags\t\t: fpu hypervisor\n";
        assert_eq!(cpu_model(x86).unwrap(), "A CPU @ 3 GHz");
        assert!(is_virtual(x86) && !is_virtual("flags : fpu\n"));
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).unwrap(), "implementer 0x41 part 0xd0c");
        assert_eq!(memory("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16 << 10));
        assert_eq!(system("ID=x\nPRETTY_NAME=\"A System 13\"\n").unwrap(), "A System 13");
        let mounts = "a / ext4 rw 0 0\nb /proc proc rw 0 0\nc / xfs rw 0 0\n";
        assert_eq!(kind(mounts, Path::new("/proc/self")).unwrap(), "proc");
        assert_eq!(kind(mounts, Path::new("/")).unwrap(), "xfs");
    }

    #[test]
    fn this_machine_is_described() {
        let here = Machine::here("1.2.3", Path::new("/"));
        assert_eq!(here.bowline, "1.2.3");
        assert!(here.cpus >= 1 && here.memory_bytes > 1 << 20 && !here.kernel.is_empty());
        assert!(here.facts.iter().any(|fact| fact.name == "net.ipv4.tcp_rmem"));
        assert!(here.facts.iter().all(|fact| !fact.value.contains('\n')), "{:?}", here.facts);
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), here);
    }
}
