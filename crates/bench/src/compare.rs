//! Bowline against another server: the same loads in turn, and the µs of server CPU per call of each.
//!
//! All speak one version of NFS. Each load runs round after round on Bowline, the peer, and the bound (`canned`), which only moves bytes. The bound
//! runs with one loop and with one on each CPU; the variant with the lower median is used. Ratios are taken inside a
//! round. All servers see the same client and the same machine, and export the same directory in memory (tmpfs), so
//! that no disk is measured; a trial from which the machine's host took CPU time is repeated. Absolute figures of
//! different days cannot be compared, ratios can.
//!
//! Server CPU per call is all that its processes used from the end of the warm-up to the last reply, divided by all
//! calls answered in that time. The warm-up (a further quarter of the counted time) covers connecting, the first open
//! of each file, and the choice of the number of pools.

use crate::experiments::{
    MeasuredLoad, RunContext, RunError, measure_load, median, spread, target_server,
};
use crate::lab::Namespace;
use crate::load::{FileSet, Plan, Proto, Version, Workload};
use crate::servers::{
    Placement, ScratchDir, ServerError, TestServer, bowline, command, ganesha, knfsd,
};
use crate::steal::TrialRetries;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The other server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Debian's nfs-ganesha.
    Ganesha,
    /// The kernel's server.
    Knfsd,
    /// A command line with {DIR} and {PORT}.
    Command(String),
}

impl From<&str> for Peer {
    fn from(text: &str) -> Self {
        match text {
            "ganesha" => Self::Ganesha,
            "knfsd" => Self::Knfsd,
            other => Self::Command(other.to_owned()),
        }
    }
}

/// Index of the bound among the servers; before it are Bowline and the peer.
const BOUNDS_AT: usize = 2;

/// One load of the comparison.
pub struct Load {
    name: &'static str,
    workload: Workload,
    proto: Proto,
    clients: usize,
    depth: usize,
    size: u32,
}

const fn tcp(
    name: &'static str,
    workload: Workload,
    clients: usize,
    depth: usize,
    size: u32,
) -> Load {
    Load { name, workload, proto: Proto::Tcp, clients, depth, size }
}

const fn udp(name: &'static str, workload: Workload, size: u32) -> Load {
    Load { name, workload, proto: Proto::Udp, clients: 16, depth: 1, size }
}

impl Load {
    /// Its name, as in the table of a version: what is NULL in version 3 is SEQUENCE alone since version 4.1.
    pub fn name_in(&self, version: Version) -> String {
        match (&self.workload, version) {
            (Workload::Null, Version::V41 | Version::V42) => {
                self.name.replacen("NULL", "SEQUENCE", 1)
            }
            (Workload::Create, version) if version.opens() => "CREATE, CLOSE and REMOVE".into(),
            (Workload::Readdirplus, version) if version.opens() => {
                self.name.replacen("READDIRPLUS", "READDIR with attributes", 1)
            }
            _ => self.name.to_owned(),
        }
    }

    /// Whether the version has it.
    const fn fits(&self, version: Version) -> bool {
        let is_over_udp = matches!(self.proto, Proto::Udp);
        self.workload.fits(version) && !(version.opens() && is_over_udp)
    }
}

static LOADS: [Load; 23] = [
    tcp("NULL", Workload::Null, 16, 1, 0),
    tcp("NULL, 64 clients", Workload::Null, 64, 1, 0),
    tcp("NULL, 4 x 16 in flight", Workload::Null, 4, 16, 0),
    tcp("GETATTR", Workload::Getattr, 16, 1, 0),
    tcp("GETATTR, 64 clients", Workload::Getattr, 64, 1, 0),
    tcp("GETATTR, 4 x 16 in flight", Workload::Getattr, 4, 16, 0),
    tcp("ACCESS", Workload::Access, 16, 1, 0),
    tcp("LOOKUP", Workload::Lookup, 16, 1, 0),
    tcp("READ 4 KiB", Workload::Read, 16, 1, 4 << 10),
    tcp("READ 32 KiB", Workload::Read, 16, 1, 32 << 10),
    tcp("READ 1 MiB", Workload::Read, 8, 1, 1 << 20),
    tcp("WRITE 32 KiB", Workload::Write, 16, 1, 32 << 10),
    tcp("WRITE 1 MiB", Workload::Write, 8, 1, 1 << 20),
    tcp("CREATE and REMOVE", Workload::Create, 16, 1, 0),
    tcp("untar, 4 KiB", Workload::Untar, 16, 1, 4 << 10),
    tcp("OPEN and CLOSE", Workload::OpenClose, 16, 1, 0),
    tcp("LOCK and UNLOCK", Workload::Lock, 16, 1, 0),
    tcp("LOCK and UNLOCK, 4 x 16 in flight", Workload::Lock, 4, 16, 0),
    tcp("READDIRPLUS 8 KiB", Workload::Readdirplus, 16, 1, 8 << 10),
    tcp("walk of a tree", Workload::Walk, 16, 1, 8 << 10),
    tcp("mixed, 8 KiB", Workload::Mixed, 16, 1, 8 << 10),
    udp("NULL, UDP", Workload::Null, 0),
    udp("READ 32 KiB, UDP", Workload::Read, 32 << 10),
];

/// The loads of a version whose names contain one of `parts`, in any case; all if there are none.
///
/// # Errors
/// The one of `parts` that no name contains.
pub fn loads(version: Version, parts: &[String]) -> Result<Vec<&'static Load>, &str> {
    let has = |load: &Load, part: &str| {
        load.name_in(version).to_lowercase().contains(&part.to_lowercase())
    };
    let all: Vec<&Load> = LOADS.iter().filter(|load| load.fits(version)).collect();
    if let Some(none) = parts.iter().find(|part| !all.iter().any(|load| has(load, part))) {
        return Err(none);
    }
    let wanted = |load: &&Load| parts.is_empty() || parts.iter().any(|part| has(load, part));
    Ok(all.into_iter().filter(wanted).collect())
}

/// One server's figures for one load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Its name.
    pub server: String,
    /// µs of server CPU per call, one for each round.
    pub us_per_call: Vec<f64>,
    /// Calls a second.
    pub calls_per_s: Vec<f64>,
    /// The 99th percentile of latency, in µs.
    pub p99_us: Vec<f64>,
    /// Why there are no figures, or fewer.
    pub remark: Option<String>,
}

impl Figures {
    /// Whether it was not measured and no reason is given.
    const fn is_blank(&self) -> bool {
        self.us_per_call.is_empty() && self.remark.is_none()
    }

    /// The one with the lower median; one with figures before one without. Not the lower one of each round:
    /// the smaller of two noisy figures is below the cost of either.
    fn cheaper(self, other: Self) -> Self {
        let is_dearer = median(&self.us_per_call) > median(&other.us_per_call);
        let only_other = self.us_per_call.is_empty() && !other.us_per_call.is_empty();
        if is_dearer || only_other { other } else { self }
    }
}

/// One load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its name.
    pub load: String,
    /// Bowline's, the peer's, the bound's.
    pub figures: Vec<Figures>,
}

/// A whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// When it began.
    pub started: String,
    /// The version of NFS: `3`, `4.1`.
    pub version: String,
    /// Seconds of each load.
    pub seconds: f64,
    /// The directory on disk that held the files; `None`: in memory.
    #[serde(default)]
    pub below: Option<String>,
    /// The export options of Bowline's directory, beside those that all have.
    #[serde(default)]
    pub export_options: Option<String>,
    /// The commands that started the servers.
    pub commands: Vec<String>,
    /// The loads.
    pub loads: Vec<Compared>,
    /// The user stopped it: the last load has fewer rounds, and some are missing.
    pub stopped: bool,
}

/// A ratio of two servers' costs inside the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Compared {
    /// How many times the cost of the server at `of` the server at `to` has; `None` where one has no
    /// figure.
    pub fn ratio(&self, of: usize, to: usize) -> Option<Spread> {
        let (of, to) = (self.figures.get(of)?, self.figures.get(to)?);
        let ratios: Vec<f64> =
            of.us_per_call.iter().zip(&to.us_per_call).map(|(of, to)| to / of).collect();
        let (low, high) = spread(&ratios);
        let middle = median(&ratios);
        middle.is_finite().then_some(Spread { median: middle, low, high })
    }
}

/// How a comparison is made.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonConfig<'a> {
    /// The version of NFS.
    pub version: Version,
    /// How often each load runs on each server.
    pub rounds: u32,
    /// The exported tree is made in this directory, or in memory.
    pub below: Option<&'a Path>,
    /// More export options of Bowline's directory.
    pub export_options: Option<&'a str>,
}

/// Runs `loads` of a version on Bowline, the peer and the bound in turn; in a private network if possible, so
/// that no port conflicts and the machine's own services are not involved.
///
/// # Errors
/// [`RunError`]: the peer is not installed, a server does not start, or the user stops it before anything
/// is measured.
pub fn compare(
    peer: &Peer,
    loads: &[&Load],
    ctx: &RunContext<'_>,
    config: ComparisonConfig<'_>,
) -> Result<Comparison, RunError> {
    match Namespace::new("compare") {
        Ok(network) => network.run(|| compare_here(peer, loads, ctx, config))?,
        Err(_) => compare_here(peer, loads, ctx, config),
    }
}

/// The same, in the calling thread's network.
fn compare_here(
    peer: &Peer,
    loads: &[&Load],
    ctx: &RunContext<'_>,
    ComparisonConfig { version, rounds, below, export_options }: ComparisonConfig<'_>,
) -> Result<Comparison, RunError> {
    // In memory, where syncing is free: servers differ in what they sync, and disks in how long it takes.
    let scratch = below.map_or_else(ScratchDir::in_memory, ScratchDir::below)?;
    let dir = scratch.dir("export")?;
    let seconds = ctx.quick_or_full(0.5, 1.0);
    let place = Placement::default();
    fill(&dir)?;
    let started = crate::result::now();
    // outside the exported tree: not to be found by a walk
    let aside = scratch.dir("bound")?;
    let bound = format!(
        "'{}' bench canned --port {{PORT}} --files '{}'",
        ctx.bowline.display(),
        aside.display()
    );
    let lone_bound = format!("{bound} --loops 1");
    let export_options = export_options.map(str::to_owned);
    let own = bowline::Options {
        export_options: export_options.clone().unwrap_or_default(),
        ..bowline::Options::of_dir(&dir)
    };
    let servers = vec![
        bowline::start(&own)?,
        start_peer(peer, &dir, &place, (version, loads))?,
        command::start(&bound, &dir, &place)?,
        command::start(&lone_bound, &dir, &place)?,
    ];
    let below = below.map(|dir| dir.display().to_string());
    let commands = servers.iter().map(|server| server.command().to_owned()).collect();
    let mut comparison = Comparison {
        started,
        version: version.name().to_owned(),
        seconds,
        below,
        export_options,
        commands,
        loads: Vec::new(),
        stopped: false,
    };
    let mut servers = Servers { all: servers, version, seconds };
    for load in loads {
        let mut figures = servers.blank();
        comparison.stopped = servers.rounds_of(load, rounds, &mut figures, ctx).is_err();
        if comparison.stopped && figures.iter().any(Figures::is_blank) {
            break;
        }
        let bounds = figures.split_off(BOUNDS_AT);
        figures.extend(bounds.into_iter().reduce(Figures::cheaper));
        comparison.loads.push(Compared { load: load.name_in(version), figures });
        if comparison.stopped {
            break;
        }
    }
    if comparison.loads.is_empty() { Err(RunError::Stopped) } else { Ok(comparison) }
}

/// Locks of version 3 only where a load uses them: they need other programs besides.
fn start_peer(
    peer: &Peer,
    dir: &Path,
    place: &Placement,
    (version, loads): (Version, &[&Load]),
) -> Result<TestServer, ServerError> {
    let locks = loads.iter().any(|load| load.workload == Workload::Lock);
    match peer {
        Peer::Ganesha if version.opens() => ganesha::start_with_version4(dir, place),
        Peer::Ganesha if locks => ganesha::start_with_locks(dir, place),
        Peer::Ganesha => ganesha::start(dir, place),
        Peer::Knfsd if version.opens() => knfsd::start_with_version4(dir, place),
        Peer::Knfsd => knfsd::start(dir, place),
        Peer::Command(template) => command::start(template, dir, place),
    }
}

/// The tree for walks and look-ups: 64 directories of 16 files.
fn fill(dir: &Path) -> Result<(), RunError> {
    for d in 0..64 {
        let sub = dir.join(format!("dir{d}"));
        std::fs::create_dir(&sub)?;
        for f in 0..16 {
            std::fs::write(sub.join(format!("file{f}")), b"what there is to look at\n")?;
        }
    }
    Ok(())
}

struct Servers {
    all: Vec<TestServer>,
    version: Version,
    seconds: f64,
}

impl Servers {
    /// An empty entry for the figures of each.
    fn blank(&self) -> Vec<Figures> {
        let name = |(index, server): (usize, &TestServer)| Figures {
            server: if index < BOUNDS_AT { server.name().into() } else { "bound".into() },
            ..Figures::default()
        };
        self.all.iter().enumerate().map(name).collect()
    }

    /// Runs one load on all servers in turn, round after round.
    ///
    /// # Errors
    /// [`RunError::Stopped`]; what was measured until then is in `figures`.
    fn rounds_of(
        &mut self,
        load: &Load,
        rounds: u32,
        figures: &mut [Figures],
        ctx: &RunContext<'_>,
    ) -> Result<(), RunError> {
        let mut retries = TrialRetries::of(rounds.saturating_mul(4), ctx);
        for round in 0..rounds {
            for (index, figures) in figures.iter_mut().enumerate() {
                ctx.go_on()?;
                let server = &figures.server;
                let name = load.name_in(self.version);
                (ctx.say)(&format!("{name}: {server}, round {} of {rounds}", round + 1));
                if figures.remark.is_none() {
                    self.measure(load, index, figures, ctx, &mut retries)?;
                }
            }
        }
        Ok(())
    }

    /// Runs one load on one server; an error becomes the remark.
    ///
    /// # Errors
    /// [`RunError::Stopped`].
    fn measure(
        &mut self,
        load: &Load,
        index: usize,
        figures: &mut Figures,
        ctx: &RunContext<'_>,
        retries: &mut TrialRetries,
    ) -> Result<(), RunError> {
        let is_bound = index >= BOUNDS_AT;
        let Some(server) = self.all.get_mut(index) else { return Ok(()) };
        if is_bound && (load.proto == Proto::Udp || !has_canned_reply(&load.workload)) {
            figures.remark = Some("no canned reply".into());
            return Ok(());
        }
        let (version, seconds) = (self.version, self.seconds);
        match retries.run(ctx, || one((load, version), server, seconds, is_bound, ctx)) {
            Ok((measured, _)) if measured.calls > 0 => {
                figures.us_per_call.push(measured.us_per_call());
                figures.calls_per_s.push(measured.report.calls_per_s);
                figures.p99_us.push(measured.report.latency.p99_us);
            }
            Ok(_) => figures.remark = Some("no call was answered".into()),
            Err(RunError::Stopped) => return Err(RunError::Stopped),
            Err(error) => figures.remark = Some(error.to_string()),
        }
        Ok(())
    }
}

const fn has_canned_reply(workload: &Workload) -> bool {
    matches!(
        workload,
        Workload::Null
            | Workload::Getattr
            | Workload::Access
            | Workload::Lookup
            | Workload::Read
            | Workload::Write
            | Workload::Create
            | Workload::OpenClose
    )
}

/// One load on one server.
fn one(
    (load, version): (&Load, Version),
    server: &mut TestServer,
    seconds: f64,
    is_bound: bool,
    ctx: &RunContext<'_>,
) -> Result<MeasuredLoad, RunError> {
    let mut plan = Plan::new(server.nfs(), server.export(), load.workload.clone());
    target_server(&mut plan, server);
    plan.version = version;
    (plan.proto, plan.clients, plan.depth) = (load.proto, load.clients, load.depth);
    if load.size > 0 {
        plan.size = load.size;
    }
    (plan.warmup, plan.time) =
        (Duration::from_secs_f64(seconds / 4.0), Duration::from_secs_f64(seconds));
    let file_set = if is_bound { FileSet::synthetic(&plan) } else { FileSet::prepare(&plan)? };
    let file_set = Arc::new(file_set);
    let measured = measure_load(&plan, &file_set, server, ctx);
    if !is_bound {
        file_set.clear(&plan)?;
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::{Compared, Figures, Peer, loads};
    use crate::load::Version;

    #[test]
    fn ratios_are_taken_inside_rounds() {
        let figures = |us: &[f64]| Figures { us_per_call: us.to_vec(), ..Figures::default() };
        let load = String::new();
        let compared =
            Compared { load, figures: vec![figures(&[10.0, 20.0]), figures(&[30.0, 60.0])] };
        let ratio = compared.ratio(0, 1).unwrap();
        assert!((ratio.median - 3.0).abs() < 1e-9 && (ratio.low - 3.0).abs() < 1e-9);
        assert_eq!(compared.ratio(0, 2), None);
    }

    #[test]
    fn the_bound_with_the_lower_median_is_used() {
        let figures = |us: &[f64]| Figures { us_per_call: us.to_vec(), ..Figures::default() };
        let (own, other) = (figures(&[1.0, 5.0, 5.0]), figures(&[2.0, 4.0, 6.0]));
        assert_eq!(own.clone().cheaper(other.clone()), other);
        assert_eq!(other.clone().cheaper(own), other);
        let remark = Figures { remark: Some("no canned reply".into()), ..Figures::default() };
        for both in [(remark.clone(), other.clone()), (other.clone(), remark.clone())] {
            assert_eq!(both.0.cheaper(both.1), other, "what failed is not cheap");
        }
        assert_eq!(remark.clone().cheaper(remark.clone()), remark);
    }

    #[test]
    fn loads_are_chosen_by_parts_of_their_names() {
        let names = |version, parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let found = loads(version, &parts).map_err(str::to_owned)?;
            let names = found.iter().map(|load| load.name_in(version));
            Ok::<_, String>(names.collect::<Vec<_>>())
        };
        assert_eq!(
            names(Version::V3, &["null, u", "getattr, 6"]).unwrap(),
            ["GETATTR, 64 clients", "NULL, UDP"]
        );
        assert_eq!(names(Version::V3, &[]).unwrap().len(), 22);
        assert_eq!(names(Version::V3, &["null", "fly"]), Err("fly".into()));
        assert_eq!(names(Version::V3, &["open"]), Err("open".into()));
        let version4 = names(Version::V41, &[]).unwrap();
        assert_eq!(version4.len(), 21);
        assert!(!version4.iter().any(|name| name.contains("UDP") || name.contains("NULL")));
        assert_eq!(
            names(Version::V41, &["sequence, 6", "close"]).unwrap(),
            ["SEQUENCE, 64 clients", "CREATE, CLOSE and REMOVE", "OPEN and CLOSE"]
        );
        assert_eq!(names(Version::V40, &["null, 6"]).unwrap(), ["NULL, 64 clients"]);
    }

    #[test]
    fn a_peer_is_a_name_or_a_command() {
        assert_eq!(Peer::from("ganesha"), Peer::Ganesha);
        assert_eq!(Peer::from("x {DIR} {PORT}"), Peer::Command("x {DIR} {PORT}".into()));
    }
}
