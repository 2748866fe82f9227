//! What a worker does with the event loop while it leads, and with a piece of work from the queue.

use crate::conn::connection::{Rx, Sent};
use crate::epoll_tokens::{TOKEN_INBOX, TOKEN_SOCKET};
use crate::pool::conn_return::{close, return_to_loop, return_without_loop};
use crate::pool::inbox::Message;
use crate::pool::worker_pool::{Pool, Work};
use crate::service::worker_context::{ActiveRound, WorkerContext};
use crate::service::{datagrams, resumed, stream};
use crate::sync::add;
use crate::udp::received::ReceivedDatagram;
use crate::worker::urgency::{has_priority, looks_urgent};
use std::sync::Arc;
use std::time::Duration;
use sys::epoll::Ready;
use telemetry::Counter;

/// How long a leader pauses after the kernel refused to tell it of events.
const AFTER_FAILED_WAIT: Duration = Duration::from_millis(10);
/// Between two looks at lingering connections.
const LINGER_POLL: Duration = Duration::from_millis(2);

/// A worker.
pub(crate) struct Worker {
    pub ctx: WorkerContext,
    /// A worker has come for the event loop that this reserve thread has.
    pub relieved: bool,
}

impl Worker {
    /// A piece of work from the queue.
    pub fn work(&mut self, work: Work) {
        match work {
            Work::Datagram(received) => {
                self.ctx.pool.shared.datagrams.give_back(received.cost());
                datagrams::serve_received(&mut self.ctx, &received);
            }
            Work::Resumed(call) => resumed::serve(&mut self.ctx, call),
            Work::Conn(rx)
                if self.ctx.is_reserve && !looks_urgent(&self.ctx.pool.shared.dispatcher, &rx) =>
            {
                self.ctx.pool.enqueue(Work::Conn(rx), false, &self.ctx.stats);
            }
            Work::Conn(mut rx) => {
                let conn = Arc::clone(&rx.conn);
                if rx.needs_rearm
                    && (rx.tail.is_none() || conn.has_queued_replies())
                    && !rx.final_read_done
                {
                    if self.ctx.event_loop.is_some() {
                        match rx.conn.flush(&self.ctx.pool.handles, &self.ctx.stats) {
                            Ok(sent) => rx.broken |= sent == Sent::Broken,
                            Err(_cold) => return self.flush_cold(rx),
                        }
                    } else {
                        let sent = conn.flush_waiting(&self.ctx.pool.handles, &self.ctx.stats);
                        rx.broken |= sent == Sent::Broken;
                    }
                    return match self.ctx.event_loop.as_mut() {
                        Some(event_loop) => {
                            return_to_loop(&self.ctx.pool, &self.ctx.stats, event_loop, rx)
                        }
                        None => return_without_loop(&self.ctx.pool, &self.ctx.stats, rx),
                    };
                }
                stream::serve(&mut self.ctx, rx);
            }
        }
    }

    /// Whether this leader puts what is ready into the queue instead of serving it.
    fn is_queueing(&self) -> bool {
        self.ctx.pool.is_queueing() || self.ctx.is_reserve
    }

    /// Serves a connection, or queues it.
    fn serve(&mut self, rx: Box<Rx>) {
        if self.is_queueing() {
            let urgent = has_priority(&self.ctx.pool.shared.dispatcher, &rx);
            self.ctx.pool.enqueue(Work::Conn(rx), urgent, &self.ctx.stats);
        } else {
            stream::serve(&mut self.ctx, rx);
        }
    }

    /// One piece of the leader's work. Every connection that is ready has a round before one that sent more
    /// than one round serves has its next; after each such round epoll is asked who is ready.
    pub fn step(&mut self) {
        let queueing = self.is_queueing();
        let Some(event_loop) = self.ctx.event_loop.as_mut() else { return };
        if let Some(token) = event_loop.new_conns.pop_front() {
            if let Some(rx) = event_loop.take(token) {
                self.serve(rx);
            }
        } else if let Some(ready) = event_loop.next_event() {
            self.handle_event(ready);
        } else if let Some(received) = event_loop.datagrams.pop_front() {
            self.datagram(received);
        } else if let Some(call) = event_loop.resumed.pop_front() {
            if queueing {
                self.ctx.pool.enqueue(Work::Resumed(call), false, &self.ctx.stats);
            } else {
                resumed::serve(&mut self.ctx, call);
            }
        } else if let Some(work) = pop_for_leader(&self.ctx.pool, queueing) {
            self.work(work);
        } else if let Some(token) = event_loop.ready_queue.pop_front() {
            self.serve_queued(token);
            self.poll_events();
        } else if let Some(number) = event_loop.sockets_to_drain.pop() {
            self.drain_socket(number);
        } else if event_loop.is_finished()
            && self.ctx.pool.scheduler.is_empty()
            && self.ctx.pool.retire()
        {
            self.ctx.event_loop = None;
        } else {
            self.wait();
        }
    }

    /// Asks epoll who is ready, without waiting.
    fn poll_events(&mut self) {
        if let Some(event_loop) = self.ctx.event_loop.as_mut()
            && let Err(error) = self.ctx.pool.epoll.wait(event_loop.events(), Some(Duration::ZERO))
        {
            tracing::error!(pool = self.ctx.pool.index, %error, "cannot poll for events");
        }
        if let Some(event_loop) = self.ctx.event_loop.as_mut() {
            event_loop.after_wait();
        }
    }

    /// Waits for events; while connections linger, for [`LINGER_POLL`] at most.
    fn wait(&mut self) {
        let Some(event_loop) = self.ctx.event_loop.as_mut() else { return };
        // While it stops, workers may empty the queue and tell nobody.
        let soon = !event_loop.lingering.is_empty() || event_loop.is_finished();
        let lingering = !event_loop.lingering.is_empty();
        if let Err(error) =
            self.ctx.pool.epoll.wait(event_loop.events(), soon.then_some(LINGER_POLL))
        {
            tracing::error!(pool = self.ctx.pool.index, %error, "cannot wait for events");
            std::thread::sleep(AFTER_FAILED_WAIT);
        }
        event_loop.after_wait();
        if !lingering {
            return;
        }
        self.ctx.buffers.prepare();
        for token in std::mem::take(&mut event_loop.lingering) {
            match event_loop.conn(token) {
                Some(conn) if conn.lingering_close_is_done(&mut self.ctx.buffers.receive) => {
                    close(&self.ctx.pool, &self.ctx.stats, event_loop, token);
                }
                Some(_) => event_loop.lingering.push(token),
                None => {}
            }
        }
    }

    /// Deals with an event.
    fn handle_event(&mut self, ready: Ready) {
        if ready.token == TOKEN_INBOX {
            for message in self.ctx.pool.inbox.take() {
                self.handle_message(message);
            }
            return self.resign_if_relieved();
        }
        add(&self.ctx.pool.counters.arrived, 1);
        if ready.token & TOKEN_SOCKET != 0 {
            return self.socket(ready.token & !TOKEN_SOCKET);
        }
        let Some(event_loop) = self.ctx.event_loop.as_mut() else { return };
        let Some(mut rx) = event_loop.take(ready.token) else { return };
        if ready.writable || rx.needs_rearm {
            // What there is to be read epoll tells again when the connection is rearmed.
            (rx.needs_rearm, rx.read_until_empty) = (true, true);
            match rx.conn.flush(&self.ctx.pool.handles, &self.ctx.stats) {
                Ok(sent) => rx.broken |= sent == Sent::Broken,
                Err(_cold) => return self.flush_cold(rx),
            }
            return return_to_loop(&self.ctx.pool, &self.ctx.stats, event_loop, rx);
        }
        rx.read_until_empty |= ready.ended || ready.urgent;
        self.serve(rx);
    }

    /// The rest of a half-sent reply is in pages that have left the page cache. This worker waits for the
    /// disk, without leading and without any lock; nobody else serves the connection meanwhile.
    fn flush_cold(&mut self, mut rx: Box<Rx>) {
        if let Some(event_loop) = self.ctx.event_loop.take() {
            self.ctx.pool.promote_follower(event_loop, &self.ctx.stats);
        } else {
            self.ctx.pool.worker_blocks(&self.ctx.stats);
        }
        rx.broken |= rx.conn.flush_waiting(&self.ctx.pool.handles, &self.ctx.stats) == Sent::Broken;
        self.ctx.pool.scheduler.worker_resumes();
        self.ctx.pool.post(Message::ReturnedConn(rx));
    }

    /// A datagram socket is readable.
    fn socket(&mut self, number: u64) {
        if !self.is_queueing() {
            return datagrams::serve_socket(&mut self.ctx, number);
        }
        for received in datagrams::receive(&mut self.ctx, number) {
            self.datagram(received);
        }
    }

    /// A pool that is drained receives from a datagram socket until it is empty: of the pools that watch
    /// it, an arrival may have woken this one only.
    fn drain_socket(&mut self, number: u64) {
        let received = datagrams::receive(&mut self.ctx, number);
        let Some(event_loop) = self.ctx.event_loop.as_mut() else { return };
        if !received.is_empty() {
            event_loop.sockets_to_drain.push(number);
        }
        event_loop.datagrams.extend(received);
    }

    /// Answers a datagram that was received, or queues it. Anybody can send datagrams: when too many wait,
    /// one more is dropped. Half of the budget is for urgent ones, so that MOUNT is answered under any load.
    fn datagram(&mut self, received: ReceivedDatagram) {
        if !self.is_queueing() {
            return datagrams::serve_received(&mut self.ctx, &received);
        }
        let shared = &self.ctx.pool.shared;
        let (urgent, budget) = (shared.dispatcher.is_urgent(received.bytes()), &shared.datagrams);
        if (urgent || !budget.is_tight()) && budget.take(received.cost()) {
            self.ctx.pool.enqueue(Work::Datagram(received), urgent, &self.ctx.stats);
        } else {
            self.ctx.stats.add(Counter::DatagramsDropped, 1);
        }
    }

    /// Serves a connection that has a tail, or is to be read for the last time.
    fn serve_queued(&mut self, token: u64) {
        let Some(event_loop) = self.ctx.event_loop.as_mut() else { return };
        let Some(mut rx) = event_loop.take(token) else { return };
        // what was received already is answered first, and is not what has arrived since
        let final_read = event_loop.stopping && !rx.final_read_done && rx.tail.is_none();
        rx.final_read_done |= final_read;
        if (rx.tail.is_some() && !rx.conn.has_queued_replies()) || final_read {
            self.serve(rx);
        } else {
            return_to_loop(&self.ctx.pool, &self.ctx.stats, event_loop, rx);
        }
    }

    /// Deals with a message from the inbox.
    fn handle_message(&mut self, message: Message) {
        let queueing = self.is_queueing();
        let Some(event_loop) = self.ctx.event_loop.as_mut() else { return };
        match message {
            Message::NewConn(conn) => {
                let rx = event_loop.insert(&self.ctx.pool.handles, conn);
                if event_loop.stopping {
                    event_loop.ready_queue.push_back(rx.token);
                } else if !queueing {
                    event_loop.new_conns.push_back(rx.token);
                }
                return_to_loop(&self.ctx.pool, &self.ctx.stats, event_loop, rx);
            }
            Message::MovedConn(mut rx) => {
                event_loop.insert_moved(&self.ctx.pool.handles, &mut rx);
                if event_loop.stopping {
                    event_loop.ready_queue.push_back(rx.token);
                }
                return_to_loop(&self.ctx.pool, &self.ctx.stats, event_loop, rx);
            }
            Message::Drain => {
                event_loop.draining = true;
                self.ctx.pool.set_stopping();
                event_loop.sockets_to_drain =
                    self.ctx.pool.shared.datagram_sockets.remove_pool(&self.ctx.pool.epoll);
                for token in event_loop.tokens() {
                    if let Some(rx) = event_loop.take(token) {
                        return_to_loop(&self.ctx.pool, &self.ctx.stats, event_loop, rx);
                    }
                }
            }
            Message::ReturnedConn(rx) => {
                return_to_loop(&self.ctx.pool, &self.ctx.stats, event_loop, rx)
            }
            Message::CallEnded(token) => {
                if let Some(mut rx) = event_loop.take(token) {
                    rx.needs_rearm = true;
                    return_to_loop(&self.ctx.pool, &self.ctx.stats, event_loop, rx);
                }
            }
            Message::Resumed(call) => event_loop.resumed.push_back(call),
            Message::Datagrams(received) => event_loop.datagrams.extend(received),
            Message::Panicked(token) => close(&self.ctx.pool, &self.ctx.stats, event_loop, token),
            Message::RelieveReserve => self.relieved = true,
            // What the queue holds is looked at before the next wait.
            Message::PolicyChanged => {}
            Message::Stop => {
                event_loop.stopping = true;
                self.ctx.pool.set_stopping();
                event_loop.ready_queue.extend(event_loop.tokens());
            }
            Message::Abort => {
                event_loop.stopping = true;
                self.ctx.pool.set_stopping();
                event_loop.datagrams.clear();
                event_loop.resumed.clear();
                for token in event_loop.tokens() {
                    close(&self.ctx.pool, &self.ctx.stats, event_loop, token);
                }
            }
        }
    }

    /// A reserve thread that was relieved leaves the event loop to the worker that came for it.
    fn resign_if_relieved(&mut self) {
        if std::mem::take(&mut self.relieved)
            && self.ctx.is_reserve
            && let Some(event_loop) = self.ctx.event_loop.take()
        {
            let call =
                self.ctx.pool.scheduler.resign(event_loop, self.ctx.pool.shared.clock.now_ns());
            self.ctx.pool.wake(call, &self.ctx.stats);
        }
    }

    /// Goes on after a panic: the event loop is kept, the connection that was served is closed.
    pub fn recover(&mut self) {
        tracing::error!(pool = self.ctx.pool.index, "a worker panicked; this is a bug");
        let Some(ActiveRound { number, token }) = self.ctx.active_round.take() else { return };
        let Some(number) = number else {
            return token
                .into_iter()
                .for_each(|token| self.ctx.pool.post(Message::Panicked(token)));
        };
        if let Some(mut event_loop) = self.ctx.pool.end_round(number) {
            if let Some(token) = token {
                close(&self.ctx.pool, &self.ctx.stats, &mut event_loop, token);
            }
            self.ctx.event_loop = Some(event_loop);
        } else {
            self.ctx.pool.scheduler.worker_resumes();
        }
    }
}

/// What another policy has left in the queue, for a leader that runs calls itself.
fn pop_for_leader(pool: &Pool, queueing: bool) -> Option<Work> {
    if queueing {
        return None;
    }
    pool.scheduler.pop_for_leader(|| pool.shared.clock.now_ns())
}
