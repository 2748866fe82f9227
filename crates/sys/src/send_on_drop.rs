//! A value that is given to somebody when its owner is dropped, instead of being dropped there: closing a
//! descriptor can wait for a file system.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// Who gets values whose owners are dropped.
pub trait Receive<T> {
    /// Takes one.
    fn receive(&self, value: T);
}

/// A value, and who gets it. Reading the value costs nothing.
#[derive(Debug)]
pub struct SendOnDrop<T, R: Receive<T>> {
    value: ManuallyDrop<T>,
    receiver: R,
}

impl<T, R: Receive<T>> SendOnDrop<T, R> {
    /// `receiver` gets `value` when this is dropped.
    pub const fn new(value: T, receiver: R) -> Self {
        Self { value: ManuallyDrop::new(value), receiver }
    }

    /// Who gets it.
    pub const fn receiver(&self) -> &R {
        &self.receiver
    }
}

impl<T, R: Receive<T>> Deref for SendOnDrop<T, R> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T, R: Receive<T>> DerefMut for SendOnDrop<T, R> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T, R: Receive<T>> Drop for SendOnDrop<T, R> {
    fn drop(&mut self) {
        // SAFETY: this is the only place that takes the value out, drop() is called once, and nothing reads the
        // field afterwards: `ManuallyDrop` does not drop it again.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        self.receiver.receive(value);
    }
}

#[cfg(test)]
mod tests {
    use super::{Receive, SendOnDrop};
    use std::cell::RefCell;

    struct Received(RefCell<Vec<String>>);

    impl Receive<String> for &Received {
        fn receive(&self, value: String) {
            self.0.borrow_mut().push(value);
        }
    }

    #[test]
    fn dropped_items_are_handed_over_once() {
        let received = Received(RefCell::default());
        let mut owner = SendOnDrop::new("a".to_owned(), &received);
        owner.push('b');
        assert_eq!((owner.len(), received.0.borrow().len()), (2, 0));
        drop(owner);
        assert_eq!(*received.0.borrow(), ["ab"]);
    }
}
