//! The views of `bowline top`: what the rows of the table stand for, and which columns they have.

use admin::rates::{Rates, Row};
use clap::ValueEnum;

/// What the rows stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// Clients, by address
    Clients,
    /// Exports
    Exports,
    /// Procedures
    Operations,
    /// TCP connections, and what limits each
    Connections,
    /// Pools of threads
    Pools,
    /// Calls that slept in a file system in the last ten seconds, the slowest first
    Calls,
}

impl View {
    /// All, in the order of the tabs.
    pub const ALL: [Self; 6] = [
        Self::Clients,
        Self::Exports,
        Self::Operations,
        Self::Connections,
        Self::Pools,
        Self::Calls,
    ];

    /// Its name on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Exports => "exports",
            Self::Operations => "operations",
            Self::Connections => "connections",
            Self::Pools => "pools",
            Self::Calls => "calls",
        }
    }

    /// Its rows.
    pub fn rows(self, rates: &Rates) -> &[Row] {
        match self {
            Self::Clients => &rates.clients,
            Self::Exports => &rates.exports,
            Self::Operations => &rates.operations,
            Self::Connections => &rates.connections,
            Self::Pools => &rates.pools,
            Self::Calls => &rates.calls,
        }
    }

    /// The columns that are measured for its rows, as indices of `text::HEADINGS`.
    pub const fn columns(self) -> &'static [usize] {
        match self {
            Self::Exports | Self::Operations => &[0, 1, 2, 3, 4, 5, 6, 7],
            Self::Clients | Self::Connections => &[0, 1, 3, 4, 7],
            Self::Pools => &[0, 1, 7],
            Self::Calls => &[0, 7],
        }
    }
}
