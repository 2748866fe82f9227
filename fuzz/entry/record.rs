//! Record marking: whatever the stream and however it is cut, the records are those that a plain
//! reading of RFC 5531 §11 finds. The first byte says how the stream is cut.

use bowline_rpc::record::{FRAGMENTS_MAX, Partial, RecordError};

const MAX_RECORD: usize = 300;

/// What a plain reading finds: the records, and whether the stream then breaks a limit.
fn plain(mut stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let (mut records, mut record, mut fragments) = (Vec::new(), Vec::new(), 0);
    while let Some((mark, rest)) = stream.split_first_chunk::<4>() {
        let mark = u32::from_be_bytes(*mark);
        let len = (mark & 0x7fff_ffff) as usize;
        fragments += 1;
        if record.len() + len > MAX_RECORD || fragments > FRAGMENTS_MAX {
            return (records, true);
        }
        let Some((data, rest)) = rest.split_at_checked(len) else { break };
        record.extend_from_slice(data);
        if mark >> 31 == 1 {
            records.push(std::mem::take(&mut record));
            fragments = 0;
        }
        stream = rest;
    }
    (records, false)
}

fn drain(
    partial: &mut Partial,
    mut input: &[u8],
    records: &mut Vec<Vec<u8>>,
) -> Result<(), RecordError> {
    while let Some(record) = partial.next(&mut input, MAX_RECORD)? {
        records.push(record.to_vec());
    }
    assert!(input.is_empty(), "input was left over");
    Ok(())
}

/// Cuts the stream into pieces; odd rounds receive straight into the record under way.
fn pieces(how: u8, mut stream: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let (mut partial, mut records) = (Partial::new(), Vec::new());
    let mut round = u32::from(how);
    while !stream.is_empty() {
        round = round.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let size = 1 + (round >> 16) as usize % (1 + usize::from(how));
        let mut taken = stream.len().min(size);
        let direct = round & 0x1000 != 0;
        let step = match partial.space().filter(|_| direct) {
            Some(room) => {
                taken = taken.min(room.len());
                room[..taken].copy_from_slice(&stream[..taken]);
                partial.received(taken);
                drain(&mut partial, &[], &mut records)
            }
            None => drain(&mut partial, &stream[..taken], &mut records),
        };
        if step.is_err() {
            return (records, true);
        }
        stream = &stream[taken..];
    }
    (records, false)
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let Some((how, stream)) = data.split_first() else { return };
    assert_eq!(pieces(*how, stream), plain(stream));
}
