//! What is read of a file that may be a trace. The checksums are made right for a second look: no other bytes get past them.

use profinfer_trace::TraceReader;
use std::io::Write;

const FILE_HEADER_SIZE: usize = 16;
const FRAME_HEADER_SIZE: usize = 24;

pub(crate) fn feed(bytes: &[u8]) {
    read(bytes);
    let mut fixed = bytes.to_vec();
    fix_checksums(&mut fixed);
    read(&fixed);
}

fn read(file: &[u8]) {
    let Ok(mut reader) = TraceReader::new(file) else { return };
    reader.for_each_record(|record| {
        for (name, value) in record.fields() {
            let shown = write!(std::io::sink(), "{name} {value}");
            assert!(shown.is_ok());
        }
        true
    });
    assert!(reader.meta().problems.0.len() <= 64);
}

/// The checksums as `docs/trace-format.md` has them.
fn fix_checksums(file: &mut [u8]) {
    let mut at = FILE_HEADER_SIZE;
    while let Some(header) = file.get(at..at + FRAME_HEADER_SIZE) {
        let stored = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let payload = at + FRAME_HEADER_SIZE;
        let Some(checksum) = file.get(payload..payload.saturating_add(stored)).map(crc32fast::hash) else { return };
        file[at + 16..at + 20].copy_from_slice(&checksum.to_le_bytes());
        let own = crc32fast::hash(&file[at..at + 20]);
        file[at + 20..at + 24].copy_from_slice(&own.to_le_bytes());
        at = payload + stored;
    }
}
