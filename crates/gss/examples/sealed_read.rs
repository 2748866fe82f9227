//! The limit of a READ of 1 MiB under each protection: what this machine needs to read the file into memory, to protect
//! it by the library of primitives, and to send it over a connection of this machine, with nothing of NFS around it.
//!
//! `cargo run --release -p bowline-gss --example sealed_read -- FILE [CALLS]` prints microseconds of processor time per
//! MiB of the sending thread, a line for each: nothing, HMAC-SHA1, AES-256-CBC and HMAC-SHA1, AES-256-GCM in records of
//! 16 KiB. FILE has a MiB or more.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::cipher::{self, PaddedBlockEncryptingKey, UnboundCipherKey};
use aws_lc_rs::hmac;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::thread;
use sys::thread::cpu_time;

/// Bytes of a READ.
const READ: usize = 1 << 20;
/// Bytes of a record of TLS.
const RECORD: usize = 16 << 10;
/// How often each is done, unless told otherwise.
const CALLS: u32 = 300;

type Failure = Box<dyn std::error::Error>;
type Protect = Box<dyn FnMut(&mut Vec<u8>) -> Result<(), Failure>>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let file = File::open(args.next().ok_or("sealed_read FILE [CALLS]")?)?;
    let calls: u32 = args.next().map_or(Ok(CALLS), |calls| calls.parse())?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stream = TcpStream::connect(listener.local_addr()?)?;
    stream.set_nodelay(true)?;
    let (mut peer, _) = listener.accept()?;
    // the other side answers each MiB with a byte, as a client that makes one call at a time
    thread::spawn(move || {
        let mut room = vec![0; READ];
        while peer.read_exact(&mut room).is_ok() && peer.write_all(&[1]).is_ok() {}
    });
    let mut data = Vec::with_capacity(READ + 64);
    for (name, mut protect) in protections()? {
        let mut one = || -> Result<(), Failure> {
            data.resize(READ, 0);
            file.read_exact_at(&mut data, 0)?;
            protect(&mut data)?;
            stream.write_all(data.get(..READ).unwrap_or_default())?;
            Ok(stream.read_exact(&mut [0])?)
        };
        (0..calls.div_ceil(10)).try_for_each(|_| one())?;
        let start = cpu_time();
        (0..calls).try_for_each(|_| one())?;
        let us = (cpu_time() - start).as_secs_f64() * 1e6 / f64::from(calls);
        println!("{name} {us:.1}");
    }
    Ok(())
}

fn protections() -> Result<[(&'static str, Protect); 4], Failure> {
    let key = [7; 32];
    let mac = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &key);
    let mac_again = mac.clone();
    let cbc = PaddedBlockEncryptingKey::cbc_pkcs7(UnboundCipherKey::new(&cipher::AES_256, &key)?)?;
    let gcm = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key)?);
    Ok([
        ("copy", Box::new(|_| Ok(()))),
        (
            "hmac",
            Box::new(move |data| {
                std::hint::black_box(hmac::sign(&mac, data));
                Ok(())
            }),
        ),
        (
            "cbc-hmac",
            Box::new(move |data| {
                std::hint::black_box(hmac::sign(&mac_again, data));
                cbc.encrypt(data)?;
                Ok(())
            }),
        ),
        (
            "gcm",
            Box::new(move |data| {
                for record in data.chunks_mut(RECORD) {
                    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
                    let tag = gcm.seal_in_place_separate_tag(nonce, Aad::empty(), record)?;
                    let _tag = std::hint::black_box(tag);
                }
                Ok(())
            }),
        ),
    ])
}
