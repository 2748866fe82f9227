//! A pipe as the way from a socket to a file: what goes through it is moved from the one to the other inside
//! the kernel, and copied once, into the file.
//!
//! The pipe is its owner's alone. Neither end waits for the other: filling takes what is there and
//! what there is room for, and whoever empties it takes no more than it holds.

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A pipe, both ends.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    /// An empty pipe with places for `bytes` in whole pages. What comes in smaller pieces fills it sooner.
    ///
    /// # Errors
    /// The kernel's error; permission denied if this user's pipes are that large already
    /// (`fs.pipe-user-pages-soft`).
    pub fn new(bytes: usize) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        fcntl_setpipe_size(&write, bytes)?;
        Ok(Self { read, write })
    }

    /// The end that is emptied.
    pub fn read_end(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Moves bytes of a socket that does not block in, as they are there: at most `most`. 0 is the end of the stream.
    ///
    /// # Errors
    /// The kernel's error; would block if nothing is there, or the pipe is full.
    pub fn fill(&self, socket: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        super::io::retry(|| splice(socket, None, &self.write, None, most, FLAGS))
    }

    /// Copies bytes in; how many.
    ///
    /// # Errors
    /// The kernel's error; would block if it is full.
    pub fn put(&self, bytes: &[u8]) -> io::Result<usize> {
        super::io::retry(|| rustix::io::write(&self.write, bytes))
    }

    /// How many bytes it holds.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn held(&self) -> io::Result<usize> {
        let held = rustix::io::ioctl_fionread(&self.read)?;
        Ok(usize::try_from(held).unwrap_or(usize::MAX))
    }
}

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// Moves the next `len` bytes of what a pipe holds into a file, at `offset`; how many.
///
/// # Errors
/// The kernel's error; `Unsupported` if the file takes nothing from a pipe.
pub fn splice_to_file(
    pipe: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    let mut offset = offset;
    // not NONBLOCK: the file is waited for as in any write
    match super::io::retry(|| splice(pipe, None, file, Some(&mut offset), len, SpliceFlags::MOVE)) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            Err(io::ErrorKind::Unsupported.into())
        }
        other => other,
    }
}

/// Takes bytes out of a pipe; how many.
///
/// # Errors
/// The kernel's error; would block if it is empty.
pub fn take(pipe: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    super::io::retry(|| rustix::io::read(pipe, &mut *bytes))
}

#[cfg(test)]
mod tests {
    use super::{Pipe, splice_to_file, take};
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        server.set_nonblocking(true).unwrap();
        (client, server)
    }

    #[test]
    fn socket_data_is_spliced_to_an_offset_of_a_file() {
        let (mut client, server) = connected();
        let pipe = Pipe::new(1 << 16).unwrap();
        let nothing = pipe.fill(server.as_fd(), 100).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        client.write_all(b"moved, and left").unwrap();
        assert_eq!(pipe.put(b"put, ").unwrap(), 5);
        while pipe.held().unwrap() < 20 {
            let _ = pipe.fill(server.as_fd(), 100);
        }
        let path = std::env::temp_dir().join(format!("bowline-pipe-{}", std::process::id()));
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        assert_eq!(splice_to_file(pipe.read_end(), file.as_fd(), 3, 10).unwrap(), 10);
        assert_eq!(std::fs::read(&path).unwrap(), b"\0\0\0put, moved");
        let mut left = [0; 100];
        assert_eq!(take(pipe.read_end(), &mut left).unwrap(), 10);
        assert_eq!(&left[..10], b", and left");
        assert_eq!(pipe.held().unwrap(), 0);
        drop(client);
        assert_eq!(pipe.fill(server.as_fd(), 100).unwrap(), 0, "the end of the stream");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_does_not_support_splice_is_an_error() {
        let pipe = Pipe::new(1 << 16).unwrap();
        pipe.put(b"data").unwrap();
        let path = std::env::temp_dir().join(format!("bowline-append-{}", std::process::id()));
        let file = std::fs::File::options().append(true).create(true).open(&path).unwrap();
        let refused = splice_to_file(pipe.read_end(), file.as_fd(), 0, 4).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert_eq!(pipe.held().unwrap(), 4, "nothing is lost");
        std::fs::remove_file(path).unwrap();
    }
}
