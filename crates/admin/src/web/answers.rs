//! Threads that ask the server for what a request wants, because it may wait: for a quarter of a second of watched
//! connections, or for a lock.

use crate::control::Control;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Threads: one may watch connections while the other answers a scraper.
const THREADS: usize = 2;
/// Requests that wait for a thread.
const WAITING_MAX: usize = 32;

type Question = Box<dyn FnOnce(&dyn Control) + Send>;

/// Too many requests wait.
#[derive(Debug)]
pub struct Busy;

/// The threads. They end when the last clone is dropped.
#[derive(Clone)]
pub struct Answers {
    questions: SyncSender<Question>,
}

impl Answers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub fn start(control: &Arc<dyn Control>) -> std::io::Result<Self> {
        let (questions, waiting) = sync_channel::<Question>(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let (waiting, control) = (Arc::clone(&waiting), Arc::clone(control));
            let run = move || {
                while let Some(question) = next(&waiting) {
                    question(control.as_ref());
                }
            };
            std::thread::Builder::new().name("web-answers".into()).spawn(run)?;
        }
        Ok(Self { questions })
    }

    /// Has `ask` run on one of the threads.
    ///
    /// # Errors
    /// [`Busy`].
    pub async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Control) -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let (answer, answered) = oneshot::channel();
        let question = move |control: &dyn Control| {
            // nobody waits any more if the client has gone
            let _ = answer.send(ask(control));
        };
        self.questions.try_send(Box::new(question)).map_err(|_| Busy)?;
        answered.await.map_err(|_| Busy)
    }
}

/// The next question. The lock is that of whose turn it is to wait: nobody else needs it.
fn next(waiting: &Mutex<Receiver<Question>>) -> Option<Question> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
