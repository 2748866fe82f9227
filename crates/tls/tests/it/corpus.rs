//! The committed inputs of the fuzz target `tls_stream`, replayed, and changes of each byte of a handshake.

#[path = "../../../../fuzz/entry/tls_stream.rs"]
mod tls_stream;

#[test]
fn committed_inputs() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/tls_stream");
    let mut seeds = 0;
    for file in std::fs::read_dir(dir).unwrap() {
        let seed = std::fs::read(file.unwrap().path()).unwrap();
        (0..=seed.len()).for_each(|len| tls_stream::run(&seed[..len]));
        seeds += 1;
    }
    assert!(seeds > 0);
}

/// A bit changed, the rest cut off, a byte added, a part repeated: at places all over what a client sends.
#[test]
fn changed_handshakes() {
    let step = std::env::var("STEP").map_or(37, |step| step.parse().unwrap());
    for at in (0..3000_u16).step_by(step) {
        for kind in 0..4 {
            let [high, low] = at.to_be_bytes();
            tls_stream::run(&[1, 255, high, low, kind, 0x41]);
        }
    }
}
