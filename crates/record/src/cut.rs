//! Records that were cut: the power failed, or the daemon was killed.
//!
//! An MCAP file is a row of records, each with its length before it; all that was written whole
//! counts. An end is an end of data, a footer without a summary, and the magic bytes: with them
//! every reader takes the file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use mcap::MAGIC;
use mcap::records::op;

/// Opcode and length, before each record.
const HEAD: u64 = 9;

/// Gives a record that was cut an end; false where it has one, or is no record.
///
/// # Errors
/// Those of reading and writing the file.
pub fn give_end(path: &Path) -> io::Result<bool> {
    let length = std::fs::metadata(path)?.len();
    let Some(whole) = whole_bytes(&mut BufReader::new(File::open(path)?), length)? else {
        return Ok(false);
    };
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(whole))?;
    let mut end = vec![op::DATA_END];
    end.extend(4_u64.to_le_bytes());
    end.extend(0_u32.to_le_bytes());
    end.push(op::FOOTER);
    end.extend(20_u64.to_le_bytes());
    end.extend([0; 20]);
    end.extend(MAGIC);
    file.write_all(&end)?;
    file.set_len(whole + end.len() as u64)?;
    file.sync_all()?;
    Ok(true)
}

/// Returns how much of a file without an end is whole records; none where it has an end, or is no
/// MCAP file.
pub(crate) fn whole_bytes(file: &mut (impl Read + Seek), length: u64) -> io::Result<Option<u64>> {
    let mut magic = [0; MAGIC.len()];
    if length < magic.len() as u64 {
        return Ok(None);
    }
    file.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Ok(None);
    }
    let mut at = magic.len() as u64;
    // A summary that was cut goes: what it is of is whole.
    let mut data_end = None;
    while at + HEAD <= length {
        let mut head = [0; HEAD as usize];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut head)?;
        let body = u64::from_le_bytes(head[1..].try_into().unwrap_or_default());
        let next = at.checked_add(HEAD).and_then(|at| at.checked_add(body));
        let Some(next) = next.filter(|next| *next <= length) else { break };
        match head[0] {
            op::FOOTER if next + magic.len() as u64 <= length => return Ok(None),
            // Nothing has this opcode: a file system gave out zeros for what it had not written.
            0 | op::FOOTER => break,
            op::DATA_END => data_end = data_end.or(Some(at)),
            _ => {}
        }
        at = next;
    }
    Ok(Some(data_end.unwrap_or(at)))
}
