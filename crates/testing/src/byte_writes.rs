//! A TCP stream that sends each byte by itself.

use std::io::{Read, Result, Write};
use std::net::TcpStream;

/// A connection whose peer receives what is written byte by byte, as far as the kernel does not join them.
pub struct ByteWrites(TcpStream);

impl ByteWrites {
    /// Sends each byte of `stream` as soon as it is written.
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }
}

impl Read for ByteWrites {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf)
    }
}

impl Write for ByteWrites {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        self.0.write(buf.get(..1).unwrap_or_default())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
