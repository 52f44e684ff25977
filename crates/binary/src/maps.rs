//! The text of `/proc/PID/maps`. It is written by the kernel, but file names in it are the target's.

use std::path::PathBuf;

/// One line: a range of addresses and the file behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Offset in the file of the byte at `start`.
    pub offset: u64,
    /// Code can be run in it.
    pub executable: bool,
    /// Device number, major and minor.
    pub device: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// Path in the process's root.
    pub path: PathBuf,
    /// The kernel marks the name as deleted, or the name really ends that way.
    pub deleted: bool,
}

const DELETED: &str = " (deleted)";

/// The mappings that have a file behind them. Lines that are not understood are left out.
pub fn parse(text: &[u8]) -> impl Iterator<Item = Mapping> {
    text.split(|byte| *byte == b'\n').filter_map(line)
}

fn line(line: &[u8]) -> Option<Mapping> {
    // 7f0c-7f0d r-xp 00001000 08:01 1234    /usr/lib/libc.so.6
    let line = std::str::from_utf8(line).ok()?;
    let (range, rest) = line.split_once(' ')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let (device, rest) = rest.split_once(' ')?;
    let (inode, path) = rest.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let inode = inode.parse().ok().filter(|inode| *inode != 0)?;
    let path = path.trim_start_matches(' ');
    if !path.starts_with('/') {
        return None;
    }
    let deleted = path.ends_with(DELETED);
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode,
        // A line feed is the only character that the kernel escapes.
        path: PathBuf::from(path.strip_suffix(DELETED).unwrap_or(path).replace("\\012", "\n")),
        deleted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_with_its_place_and_rights() {
        let text = b"7f0c1000-7f0c3000 r-xp 00001000 fe:10 1234                       /usr/lib/a b.so\n";
        let mapping = parse(text).next().unwrap();
        assert_eq!((mapping.start, mapping.end), (0x7f0c_1000, 0x7f0c_3000));
        assert_eq!(mapping.offset, 0x1000);
        assert!(mapping.executable && !mapping.deleted);
        assert_eq!((mapping.device, mapping.inode), ((0xfe, 0x10), 1234));
        assert_eq!(mapping.path, PathBuf::from("/usr/lib/a b.so"));
    }

    #[test]
    fn deleted_files_are_known_as_such() {
        let mapping = parse(b"1-2 r--p 0 0:1 9 /tmp/x.so (deleted)").next().unwrap();
        assert!(mapping.deleted && !mapping.executable);
        assert_eq!(mapping.path, PathBuf::from("/tmp/x.so"));
    }

    #[test]
    fn what_is_no_file_is_left_out() {
        let text =
            b"1-2 rw-p 0 00:00 0 \n1-2 r-xp 0 00:00 0 [vdso]\n1-2 rw-s 0 0:e 7 anon_inode:[perf_event]\nnonsense\n";
        assert_eq!(parse(text).count(), 0);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(text in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = parse(&text).count();
        }
    }
}
