//! A small server that answers as a test specifies, also wrongly.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

/// The words of a message.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A successful reply to the call `record` with this result.
pub fn reply_to(record: &[u8], result: &[u8]) -> Vec<u8> {
    [&record[..4], &words(&[1, 0, 0, 0, 0]), result].concat()
}

/// `record` with its mark, in one fragment.
pub fn marked(record: &[u8]) -> Vec<u8> {
    let mark = u32::try_from(record.len()).unwrap() | 1 << 31;
    [&mark.to_be_bytes(), record].concat()
}

/// Reads one record in one fragment.
pub fn read_record(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).ok()?;
    let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut record).ok()?;
    Some(record)
}

/// Serves one connection: sends the result of `answer` for each call, unchanged.
pub fn tcp(mut answer: impl FnMut(&[u8]) -> Vec<u8> + Send + 'static) -> SocketAddr {
    tcp_script(move |mut stream| {
        while let Some(record) = read_record(&mut stream) {
            if stream.write_all(&answer(&record)).is_err() {
                return;
            }
        }
    })
}

/// Serves one connection by a function of the test.
pub fn tcp_script(script: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || script(listener.accept().unwrap().0));
    addr
}

/// Serves datagrams: sends all results of `answer` for each call. Ends after five seconds without a
/// call.
pub fn udp(mut answer: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            for message in answer(&buffer[..len]) {
                socket.send_to(&message, from).unwrap();
            }
        }
    });
    addr
}
