//! Which connections are watched for what limits them, when there are more than are shown.
//!
//! What limits a connection only the kernel knows, and asking it takes some system calls for each connection. So only
//! those that will be displayed are asked about: half of them are the busiest connection of each of the busiest clients,
//! the others those with replies that nobody takes or calls that have not ended, then the busiest, then those whose
//! clients have sent something last.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// What a connection does, as far as the server knows without asking the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnActivity {
    /// Its number; rises with each connection.
    pub id: u64,
    /// The client's address.
    pub client: IpAddr,
    /// Milliseconds since the client last sent something.
    pub idle_ms: u64,
    /// Calls received.
    pub calls: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes of replies that the client has not taken.
    pub unsent_bytes: u64,
    /// Calls in progress in other threads than the one that receives.
    pub in_flight: u64,
}

impl ConnActivity {
    const fn bytes(&self) -> u64 {
        self.bytes_in.saturating_add(self.bytes_out)
    }
}

/// What a connection did between two looks; the largest is watched first.
type Rank = (bool, u64, u64, Reverse<u64>);

/// The numbers of the connections that are watched, at most so many: all, if they are no more.
pub fn chosen(before: &[ConnActivity], after: &[ConnActivity], most: usize) -> HashSet<u64> {
    if after.len() <= most {
        return after.iter().map(|conn| conn.id).collect();
    }
    let old: HashMap<u64, &ConnActivity> = before.iter().map(|conn| (conn.id, conn)).collect();
    let mut conns: Vec<(Rank, u64)> = Vec::with_capacity(after.len());
    let mut clients: HashMap<IpAddr, (u64, Rank, u64)> = HashMap::new();
    for conn in after {
        let was = |of: fn(&ConnActivity) -> u64| old.get(&conn.id).map_or(0, |old| of(old));
        let calls = conn.calls.saturating_sub(was(|old| old.calls));
        let bytes = conn.bytes().saturating_sub(was(ConnActivity::bytes));
        let waits = conn.unsent_bytes > 0 || conn.in_flight > 0;
        let rank = (waits, calls, bytes, Reverse(conn.idle_ms));
        conns.push((rank, conn.id));
        let client = clients.entry(conn.client).or_insert((0, rank, conn.id));
        client.0 += calls;
        if (rank, conn.id) > (client.1, client.2) {
            (client.1, client.2) = (rank, conn.id);
        }
    }
    let mut clients: Vec<(u64, Rank, u64)> = clients.into_values().collect();
    keep_largest(&mut clients, most / 2);
    let mut chosen: HashSet<u64> = clients.into_iter().map(|(_, _, id)| id).collect();
    keep_largest(&mut conns, most);
    for (_, id) in conns {
        if chosen.len() >= most {
            break;
        }
        chosen.insert(id);
    }
    chosen
}

/// Leaves the so many largest, the largest first.
fn keep_largest<T: Ord + Copy>(all: &mut Vec<T>, most: usize) {
    if all.len() > most && most > 0 {
        all.select_nth_unstable_by_key(most - 1, |one| Reverse(*one));
    }
    all.truncate(most);
    all.sort_unstable_by_key(|one| Reverse(*one));
}

#[cfg(test)]
mod tests {
    use super::{ConnActivity, chosen};
    use crate::control::tests::TestServer;
    use crate::rates::Watcher;
    use std::collections::HashSet;

    /// Connection `id` of client `10.0.0.<client>`, which has made so many calls.
    fn conn(id: u64, client: u8, calls: u64) -> ConnActivity {
        ConnActivity {
            id,
            client: [10, 0, 0, client].into(),
            idle_ms: 1000 - id,
            calls,
            bytes_in: 0,
            bytes_out: 0,
            unsent_bytes: 0,
            in_flight: 0,
        }
    }

    #[test]
    fn few_connections_are_all_watched() {
        let conns: Vec<_> = (0..10).map(|id| conn(id, 1, 0)).collect();
        assert_eq!(chosen(&[], &conns, 10).len(), 10);
        assert_eq!(chosen(&conns, &conns, usize::MAX).len(), 10);
        assert_eq!(chosen(&[], &conns, 9).len(), 9);
        assert!(chosen(&[], &conns, 0).is_empty());
    }

    #[test]
    fn busy_and_stuck_connections_and_one_of_each_busy_client_are_watched() {
        // client 1 has eight busy connections, the others one quiet one each
        let mut before: Vec<_> = (0..8).map(|id| conn(id, 1, 500)).collect();
        before.extend((8..40).map(|id| conn(id, u8::try_from(id).unwrap(), 1000)));
        let mut after = before.clone();
        after[..8].iter_mut().for_each(|conn| conn.calls += 100 + conn.id);
        after[20].calls += 1;
        after[30].unsent_bytes = 1;
        after[31].in_flight = 1;
        let watched = chosen(&before, &after, 8);
        assert_eq!(watched.len(), 8);
        // of the clients 1 and 20, and of the two that wait for something
        let of_clients = HashSet::from([7, 20, 31, 30]);
        assert!(of_clients.is_subset(&watched), "{watched:?}");
        let rest: HashSet<u64> = watched.difference(&of_clients).copied().collect();
        assert_eq!(rest, HashSet::from([6, 5, 4, 3]), "the busiest of client 1");
    }

    #[test]
    fn a_connection_that_came_meanwhile_counts_from_zero() {
        let before: Vec<_> = (0..5).map(|id| conn(id, 1, 1000)).collect();
        let mut after = before.clone();
        after.push(conn(9, 2, 3));
        assert_eq!(chosen(&before, &after, 1), HashSet::from([9]));
    }

    #[test]
    fn of_many_connections_so_many_are_asked_about_as_are_shown() {
        let server = TestServer::default();
        let change = |change: &dyn Fn(&mut Vec<ConnActivity>)| {
            change(&mut server.conns.lock().unwrap());
        };
        change(&|conns| conns.extend((0..1000).map(|id| conn(id, 1, 1000))));
        let mut watcher = Watcher::default();
        let first = watcher.look(&server, true, 10);
        assert_eq!((first.rates.connections.len(), first.hidden.connections), (10, 990));
        // those that were watched at first are the last ones; this one was not, and its rate is right
        change(&|conns| conns[3].calls += 50);
        change(&|conns| conns[4].unsent_bytes = 1);
        let next = watcher.look(&server, true, 10).rates;
        assert_eq!(next.connections.len(), 10);
        let rates: Vec<f64> = next.connections.iter().map(|row| row.calls_per_s).collect();
        assert!((rates[0] - 50.0).abs() < 1e-9 && rates[1].abs() < 1e-9, "{rates:?}");
        assert_eq!(next.server.waits.network_connections, 1);
        assert_eq!(watcher.look(&server, false, 10).hidden.connections, 0, "none was asked for");
        assert_eq!(watcher.look(&server, true, usize::MAX).rates.connections.len(), 1000);
    }
}
