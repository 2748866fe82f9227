//! TLS records in the kernel (kTLS, Documentation/networking/tls.rst of Linux): a TCP socket is given the keys of a
//! session, and from then on what is sent through it leaves in records, and what is received was in records. Files are sent
//! with sendfile(2) as through any socket.
//!
//! TLS 1.3 only. The kernel makes no handshakes: it returns messages that are not data as they are, with their type.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// The name of the upper layer protocol (TCP_ULP).
const ULP: &[u8; 3] = b"tls";
/// Options of SOL_TLS, and types of control messages (linux/tls.h).
const TLS_TX: libc::c_int = 1;
const TLS_RX: libc::c_int = 2;
const TLS_RX_EXPECT_NO_PAD: libc::c_int = 4;
const TLS_SET_RECORD_TYPE: libc::c_int = 1;
const TLS_GET_RECORD_TYPE: libc::c_int = 2;
/// TLS_1_3_VERSION.
const VERSION: u16 = 0x0304;
/// The longest of the kernel's structures for keys.
const CRYPTO_INFO_MAX: usize = 56;
/// How long the test of a cipher suite waits for its record, in seconds.
const TEST_WAIT_S: i64 = 1;
/// Connections of others to the test's listener before it is given up.
const STRANGERS_MAX: usize = 16;

/// A cipher suite of TLS 1.3 that Linux knows (RFC 8446 §B.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// TLS_AES_128_GCM_SHA256.
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256.
    Chacha20Poly1305,
}

impl Suite {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::Chacha20Poly1305];

    /// The kernel's number.
    const fn cipher_type(self) -> u16 {
        match self {
            Self::Aes128Gcm => 51,
            Self::Aes256Gcm => 52,
            Self::Chacha20Poly1305 => 54,
        }
    }

    /// Bytes of a key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::Chacha20Poly1305 => 32,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::Chacha20Poly1305 => "ChaCha20-Poly1305",
        })
    }
}

/// The key of one direction (RFC 8446 §7.3). Overwritten when it is dropped.
pub struct TrafficKey {
    suite: Suite,
    /// The key; of the shorter ones the first bytes.
    key: [u8; 32],
    /// The initialization vector.
    iv: [u8; 12],
    /// The number of the next record.
    sequence: u64,
}

impl TrafficKey {
    /// A key; `None` if its length, or that of the initialization vector, is not the suite's.
    pub fn new(suite: Suite, key: &[u8], iv: &[u8], sequence: u64) -> Option<Self> {
        let mut own = Self { suite, key: [0; 32], iv: iv.try_into().ok()?, sequence };
        if key.len() != suite.key_len() {
            return None;
        }
        own.key.get_mut(..key.len())?.copy_from_slice(key);
        Some(own)
    }

    /// The structure of linux/tls.h, and its length: version, cipher, the part of the initialization vector that
    /// TLS 1.2 sends, key, salt, sequence number. TLS 1.3 sends no part of the vector; its first bytes are the salt.
    fn crypto_info(&self) -> ([u8; CRYPTO_INFO_MAX], usize) {
        let (version, cipher) = (VERSION.to_ne_bytes(), self.suite.cipher_type().to_ne_bytes());
        let salt_len = match self.suite {
            Suite::Aes128Gcm | Suite::Aes256Gcm => 4,
            Suite::Chacha20Poly1305 => 0,
        };
        let (salt, iv) = self.iv.split_at(salt_len);
        let key = self.key.get(..self.suite.key_len()).unwrap_or_default();
        let sequence = self.sequence.to_be_bytes();
        let mut info = [0; CRYPTO_INFO_MAX];
        let fields: [&[u8]; 6] = [&version, &cipher, iv, key, salt, &sequence];
        let bytes = fields.into_iter().flatten();
        let len = info.iter_mut().zip(bytes).map(|(place, byte)| *place = *byte).count();
        (info, len)
    }
}

impl Drop for TrafficKey {
    fn drop(&mut self) {
        erase(&mut self.key);
    }
}

impl fmt::Debug for TrafficKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // without the key
        f.debug_struct("TrafficKey")
            .field("suite", &self.suite)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// Overwrites a secret, also where nobody reads it any more.
fn erase(secret: &mut [u8]) {
    secret.fill(0);
    std::hint::black_box(secret);
}

/// The direction that a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// What this end sends.
    Send,
    /// What it receives.
    Receive,
}

/// The type of a record (RFC 8446 §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordType {
    /// An alert.
    Alert,
    /// A handshake message: after the handshake, KeyUpdate.
    Handshake,
    /// Application data.
    Data,
    /// Another, which is not allowed after the handshake.
    Other(u8),
}

impl RecordType {
    const fn of(number: u8) -> Self {
        match number {
            21 => Self::Alert,
            22 => Self::Handshake,
            23 => Self::Data,
            other => Self::Other(other),
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::Data => 23,
            Self::Other(number) => number,
        }
    }
}

/// What was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes.
    pub len: usize,
    /// What kind of record they were in; `None` at the end of the stream.
    pub record: Option<RecordType>,
}

/// A control message with one byte, as the kernel lays it out: its size is CMSG_SPACE(1).
#[repr(C)]
struct TypeMessage {
    header: libc::cmsghdr,
    number: u8,
    padding: [u8; size_of::<usize>() - 1],
}

impl TypeMessage {
    fn new(kind: libc::c_int, number: u8) -> Self {
        // SAFETY: all-zero is a valid cmsghdr: three numbers.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = (size_of::<libc::cmsghdr>() + 1) as _;
        (header.cmsg_level, header.cmsg_type) = (libc::SOL_TLS, kind);
        Self { header, number, padding: [0; size_of::<usize>() - 1] }
    }

    /// The record's type, if the kernel has written `len` bytes here.
    fn record(&self, len: usize) -> Option<RecordType> {
        let is_whole = len > size_of::<libc::cmsghdr>();
        let is_type =
            self.header.cmsg_level == libc::SOL_TLS && self.header.cmsg_type == TLS_GET_RECORD_TYPE;
        (is_whole && is_type).then(|| RecordType::of(self.number))
    }
}

fn set(
    stream: &TcpStream,
    (level, name): (libc::c_int, libc::c_int),
    value: &[u8],
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let (fd, bytes) = (stream.as_raw_fd(), value.as_ptr().cast());
    // SAFETY: the kernel reads `len` bytes of `value`, which has as many.
    let done = unsafe { libc::setsockopt(fd, level, name, bytes, len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes TLS the upper layer of a connected socket. Until a direction has its key, its bytes pass unchanged.
///
/// # Errors
/// ENOENT if the kernel has no module `tls` loaded, ENOPROTOOPT if it has no upper layer protocols at all.
pub fn attach(stream: &TcpStream) -> io::Result<()> {
    set(stream, (libc::IPPROTO_TCP, libc::TCP_ULP), ULP)
}

/// Gives the kernel the key of a direction: the first one, or the next one after a KeyUpdate.
///
/// # Errors
/// EINVAL or ENOENT if the kernel does not know the suite; EBUSY if it cannot change keys (before Linux 6.14).
pub fn set_key(stream: &TcpStream, direction: Direction, key: &TrafficKey) -> io::Result<()> {
    let name = match direction {
        Direction::Send => TLS_TX,
        Direction::Receive => TLS_RX,
    };
    let (mut info, len) = key.crypto_info();
    let done = set(stream, (libc::SOL_TLS, name), info.get(..len).unwrap_or_default());
    erase(&mut info);
    done
}

/// Has records decrypted straight into the receiver's buffer, which the kernel does only if it need not expect padding
/// (RFC 8446 §5.4) there; one with padding is decrypted again.
///
/// # Errors
/// Not known before Linux 6.0, and of no effect on what is received.
pub fn expect_no_padding(stream: &TcpStream) -> io::Result<()> {
    set(stream, (libc::SOL_TLS, TLS_RX_EXPECT_NO_PAD), &1_i32.to_ne_bytes())
}

/// Receives what has arrived in whole records of one type, at most a buffer full.
///
/// # Errors
/// As recvmsg(2); would-block if no record is whole, EBADMSG if one is not genuine, EKEYEXPIRED if its key was not given.
pub fn receive(stream: &TcpStream, buf: &mut [u8]) -> io::Result<Received> {
    let mut control = TypeMessage::new(0, 0);
    let mut place = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // SAFETY: all-zero is a valid msghdr: null pointers and lengths of 0.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut place, 1);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<TypeMessage>() as _;
    // SAFETY: the pointers lead to a buffer and a control message of the lengths given, which outlive the call; any bytes
    // are valid in both.
    let len = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    Ok(Received { len, record: control.record(message.msg_controllen as usize) })
}

/// Whether an error of [`attach`] says that the kernel, or a filter of system calls, does not know what was asked for.
pub fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP))
}

/// Whether an error of [`receive`] says that a record is not genuine.
pub fn is_forgery(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADMSG)
}

/// Sends a record that is not data, behind what was sent before.
///
/// # Errors
/// As sendmsg(2); would-block if the socket is full.
pub fn send_record(stream: &TcpStream, record: RecordType, bytes: &[u8]) -> io::Result<()> {
    let mut control = TypeMessage::new(TLS_SET_RECORD_TYPE, record.number());
    // the kernel reads it only
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid msghdr: null pointers and lengths of 0.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<TypeMessage>() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the pointers lead to bytes and a control message of the lengths given, which outlive the call.
    let len = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, flags) };
    if len < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the kernel has TLS as an upper layer of TCP.
///
/// # Errors
/// As [`attach`]; there is no connection to try it with.
pub fn is_available() -> io::Result<()> {
    let (end, _other) = connected()?;
    attach(&end)
}

/// Tests whether the kernel has TLS with a cipher suite: sends a record to itself over a connection of its own.
///
/// # Errors
/// As [`attach`] and [`set_key`]; the record has not arrived as it was.
pub fn test(suite: Suite) -> io::Result<()> {
    const TEXT: &[u8] = b"a record";
    let (sender, receiver) = connected()?;
    let key = |sequence| {
        TrafficKey::new(suite, &[0x5a; 32][..suite.key_len()], &[0xa5; 12], sequence)
            .ok_or(io::ErrorKind::InvalidInput)
    };
    for (end, direction) in [(&sender, Direction::Send), (&receiver, Direction::Receive)] {
        attach(end)?;
        set_key(end, direction, &key(0)?)?;
    }
    send_record(&sender, RecordType::Data, TEXT)?;
    let wait = Timespec { tv_sec: TEST_WAIT_S, tv_nsec: 0 };
    poll(&mut [PollFd::new(&receiver, PollFlags::IN)], Some(&wait))?;
    let mut buf = [0; 64];
    let received = receive(&receiver, &mut buf)?;
    let whole = Received { len: TEXT.len(), record: Some(RecordType::Data) };
    if received == whole && buf.starts_with(TEXT) {
        return Ok(());
    }
    Err(io::Error::other("the kernel did not decrypt what it had encrypted"))
}

/// The two ends of a connection of this process to itself.
fn connected() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let own = TcpStream::connect(listener.local_addr()?)?;
    let address: SocketAddr = own.local_addr()?;
    // anybody on this machine may connect to the listener
    for _ in 0..STRANGERS_MAX {
        let (other, from) = listener.accept()?;
        if from == address {
            return Ok((own, other));
        }
    }
    Err(io::ErrorKind::ConnectionRefused.into())
}

#[cfg(test)]
mod tests {
    use super::{
        Direction, Received, RecordType, Suite, TLS_GET_RECORD_TYPE, TLS_SET_RECORD_TYPE,
        TrafficKey, TypeMessage, attach, connected, receive, send_record, set_key, test,
    };
    use std::io;
    use std::net::TcpStream;

    fn key(suite: Suite) -> TrafficKey {
        let bytes: Vec<u8> = (100..100 + suite.key_len() as u8).collect();
        let iv: Vec<u8> = (1..=12).collect();
        TrafficKey::new(suite, &bytes, &iv, 0x0102_0304_0506_0708).unwrap()
    }

    /// Receives as soon as something has arrived.
    fn wait_and_receive(stream: &TcpStream, buf: &mut [u8]) -> Received {
        loop {
            match receive(stream, buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                result => return result.unwrap(),
            }
        }
    }

    /// The layouts of linux/tls.h: tls12_crypto_info_aes_gcm_128, _256 and _chacha20_poly1305.
    #[test]
    fn keys_are_laid_out_as_the_kernel_reads_them() {
        let sequence = [1, 2, 3, 4, 5, 6, 7, 8];
        for (suite, number, len) in [(Suite::Aes128Gcm, 51_u16, 40), (Suite::Aes256Gcm, 52, 56)] {
            let (info, got) = key(suite).crypto_info();
            assert_eq!(got, len);
            assert_eq!(info[..2], 0x0304_u16.to_ne_bytes());
            assert_eq!(info[2..4], number.to_ne_bytes());
            assert_eq!(info[4..12], [5, 6, 7, 8, 9, 10, 11, 12], "the vector behind the salt");
            let key_end = 12 + suite.key_len();
            assert!(info[12..key_end].iter().copied().eq(100..100 + suite.key_len() as u8));
            assert_eq!(info[key_end..key_end + 4], [1, 2, 3, 4], "the salt");
            assert_eq!(info[key_end + 4..len], sequence);
        }
        let (info, len) = key(Suite::Chacha20Poly1305).crypto_info();
        assert_eq!(len, 56);
        assert_eq!(info[2..4], 54_u16.to_ne_bytes());
        assert_eq!(info[4..16], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert!(info[16..48].iter().copied().eq(100..132));
        assert_eq!(info[48..], sequence);
    }

    #[test]
    fn a_key_of_another_length_is_refused_and_none_is_shown() {
        assert!(TrafficKey::new(Suite::Aes128Gcm, &[7; 32], &[0; 12], 0).is_none());
        assert!(TrafficKey::new(Suite::Aes256Gcm, &[7; 16], &[0; 12], 0).is_none());
        assert!(TrafficKey::new(Suite::Aes256Gcm, &[7; 32], &[0; 8], 0).is_none());
        let shown = format!("{:?}", TrafficKey::new(Suite::Aes256Gcm, &[77; 32], &[0; 12], 3));
        assert!(shown.contains("Aes256Gcm") && !shown.contains("77"), "{shown}");
    }

    #[test]
    fn record_types_are_read_from_control_messages() {
        let whole = size_of::<libc::cmsghdr>() + 1;
        for (number, record) in [
            (21, RecordType::Alert),
            (22, RecordType::Handshake),
            (23, RecordType::Data),
            (20, RecordType::Other(20)),
            (255, RecordType::Other(255)),
        ] {
            assert_eq!(TypeMessage::new(TLS_GET_RECORD_TYPE, number).record(whole), Some(record));
            assert_eq!(record.number(), number);
        }
        let message = TypeMessage::new(TLS_GET_RECORD_TYPE, 23);
        assert_eq!(message.record(0), None, "the kernel wrote none");
        assert_eq!(message.record(whole - 1), None, "it was cut");
        assert_eq!(TypeMessage::new(TLS_SET_RECORD_TYPE + 7, 23).record(whole), None);
        let mut other = TypeMessage::new(TLS_GET_RECORD_TYPE, 23);
        other.header.cmsg_level = libc::SOL_SOCKET;
        assert_eq!(other.record(whole), None);
        // SAFETY: computes a size.
        assert_eq!(size_of::<TypeMessage>(), unsafe { libc::CMSG_SPACE(1) } as usize);
    }

    /// What a kernel without the module says, or one with it on a socket that has no peer.
    #[test]
    fn a_socket_without_a_peer_gets_no_tls() {
        let (own, other) = connected().unwrap();
        drop(own);
        let mut end = [0; 8];
        assert_eq!(wait_and_receive(&other, &mut end).record, None, "the end of a plain stream");
        let refused = set_key(&other, Direction::Send, &key(Suite::Aes128Gcm)).unwrap_err();
        assert!(refused.raw_os_error().is_some(), "it has no upper layer protocol: {refused}");
    }

    /// Needs the module `tls`: run in a guest by `tests_of_kernel_features_pass`.
    #[test]
    #[ignore = "runs inside a guest, whose kernel has the module tls"]
    fn the_kernel_encrypts_and_decrypts() {
        for suite in Suite::ALL {
            test(suite).unwrap();
        }
        let (a, b) = connected().unwrap();
        for end in [&a, &b] {
            attach(end).unwrap();
            set_key(end, Direction::Send, &key(Suite::Aes256Gcm)).unwrap();
            set_key(end, Direction::Receive, &key(Suite::Aes256Gcm)).unwrap();
        }
        send_record(&a, RecordType::Data, b"data").unwrap();
        send_record(&a, RecordType::Alert, &[1, 0]).unwrap();
        let mut buf = [0; 64];
        let data = wait_and_receive(&b, &mut buf);
        assert_eq!((data.len, data.record), (4, Some(RecordType::Data)), "not joined to the next");
        let alert = wait_and_receive(&b, &mut buf);
        assert_eq!((&buf[..alert.len], alert.record), (&[1, 0][..], Some(RecordType::Alert)));
        drop(a);
        assert_eq!(wait_and_receive(&b, &mut buf).record, None);
    }
}
