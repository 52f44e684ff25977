//! Which files are returned, and which are not trusted.

use super::*;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(&folder.path().join("root"), "things", 1000);
    (folder, store)
}

fn refusal(store: &Store, key: &str) -> String {
    store.read(key).unwrap_err().why
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn gives_back_what_it_was_given() {
    let (_folder, store) = store();
    assert_eq!(store.read("key"), Ok(None));
    let path = store.put("key", b"content").unwrap();
    assert_eq!(store.get("key").as_deref(), Some(&b"content"[..]));
    store.put("key", b"").unwrap();
    assert_eq!(store.get("key").as_deref(), Some(&b""[..]));
    assert!(store.put("key", &[0; 1001]).is_err());
    assert_eq!(path, std::fs::canonicalize(store.path("key")).unwrap());
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    assert_eq!(mode(&path), 0o600);
    assert_eq!([&store.root, &store.root.join("things")].map(|folder| mode(folder)), [0o700; 2]);
}

#[test]
fn one_bit_is_enough_and_a_name_belongs_to_its_content() {
    let (_folder, store) = store();
    let path = store.put("key", b"content").unwrap();
    let good = std::fs::read(&path).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, bad).unwrap();
        assert!(refusal(&store, "key").contains("checksum"), "bit {bit}");
    }
    for length in 0..good.len() {
        std::fs::write(&path, &good[..length]).unwrap();
        assert!(refusal(&store, "key").contains("checksum"), "{length} bytes");
    }
    std::fs::write(store.path("other"), &good).unwrap();
    assert!(refusal(&store, "other").contains("checksum"));
    store.put("key", b"new").unwrap();
    assert_eq!(store.get("key").as_deref(), Some(&b"new"[..]));
}

#[test]
fn what_is_no_file_of_ours_is_neither_read_nor_written_through() {
    let (folder, store) = store();
    let path = store.put("key", b"content").unwrap();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    let untouched = std::fs::read(&elsewhere).unwrap();
    let place = |put: &dyn Fn(&Path)| {
        let _ = std::fs::remove_file(&path);
        put(&path);
    };
    let dangling = folder.path().join("nothing");
    type Put<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Put<'_>); 6] = [
        ("symbolic link", &|path| symlink(&elsewhere, path).unwrap()),
        ("symbolic link", &|path| symlink(&dangling, path).unwrap()),
        ("not a regular file", &|path| drop(UnixListener::bind(path).unwrap())),
        ("not a regular file", &|path| {
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        }),
        ("larger than", &|path| File::create(path).unwrap().set_len(4 << 30).unwrap()),
        ("can write to it", &|path| {
            std::fs::copy(&elsewhere, path).unwrap();
            set_mode(path, 0o620);
        }),
    ];
    for (why, put) in cases {
        place(put);
        assert!(refusal(&store, "key").contains(why), "{why}");
        store.put("key", b"new").unwrap();
        assert_eq!(store.get("key").as_deref(), Some(&b"new"[..]), "{why}");
        assert_eq!((std::fs::read(&elsewhere).unwrap(), dangling.exists()), (untouched.clone(), false), "{why}");
    }
    place(&|path| std::fs::create_dir(path).unwrap());
    assert!(refusal(&store, "key").contains("not a regular file"));
    assert!(store.put("key", b"new").is_err());
}

#[test]
fn folders_are_ours_or_made_so_or_not_used() {
    let (folder, store) = store();
    let things = store.root.join("things");
    store.put("key", b"content").unwrap();
    set_mode(&things, 0o777);
    assert!(store.get("key").is_some());
    assert_eq!(mode(&things), 0o700);
    // What a person named is theirs to close; it is not used while it is open to others, nor what is in such a one.
    for open in [&store.root, folder.path()] {
        set_mode(open, 0o777);
        assert!(refusal(&store, "key").contains("other users can write to this folder"));
        assert!(store.put("key", b"new").is_err());
        assert_eq!(mode(open), 0o777);
        set_mode(open, 0o1777);
        assert!(store.get("key").is_some(), "a sticky folder, as /tmp");
        set_mode(open, 0o755);
    }
    let default = Store { is_default: true, ..store.clone() };
    assert!(default.get("key").is_some());
    assert_eq!(mode(&store.root), 0o700);
    // A link above it is a person's choice; in its place it is somebody's trick.
    let linked = Store { root: folder.path().join("link"), ..store.clone() };
    symlink(&store.root, &linked.root).unwrap();
    assert!(linked.get("key").is_some());
    std::fs::rename(&things, folder.path().join("moved")).unwrap();
    symlink(folder.path().join("moved"), &things).unwrap();
    assert!(refusal(&store, "key").contains("symbolic link"));
    assert!(store.put("key", b"new").is_err());
    std::fs::remove_file(&things).unwrap();
    symlink("/nowhere/at/all", folder.path().join("dangling")).unwrap();
    let nowhere = Store { root: folder.path().join("dangling/deeper"), ..store };
    assert_eq!(nowhere.read("key"), Ok(None));
    assert!(nowhere.put("key", b"new").is_err());
}

#[test]
fn another_user_s_files_are_only_read() {
    let (_folder, store) = store();
    store.put("key", b"content").unwrap();
    let theirs = Store { owner: user() + 1, ..store };
    assert!(refusal(&theirs, "key").contains("belongs to another user"));
    assert!(theirs.put("key", b"new").is_err());
}

#[test]
fn the_least_recently_used_goes_first() {
    let (_folder, mut store) = store();
    store.size_limit = 3 * (HEADER as u64 + 10);
    for (age, key) in [(30, "a"), (20, "b"), (10, "c")] {
        let file = File::open(store.put(key, &[0; 10]).unwrap()).unwrap();
        file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
    }
    assert!(store.get("a").is_some(), "used just now");
    store.put("d", &[0; 10]).unwrap();
    assert_eq!(["a", "b", "c", "d"].map(|key| store.get(key).is_some()), [true, false, true, true]);
}

#[test]
fn the_folder_is_where_the_environment_says() {
    let root = |pairs: &[(&str, &str)]| {
        default_root(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    };
    let own = tempfile::tempdir().unwrap();
    let home = own.path().to_str().unwrap();
    let in_home = Some(own.path().join(".cache/profinfer"));
    assert_eq!(root(&[("HOME", home), ("XDG_CACHE_HOME", "/x")]), Some("/x/profinfer".into()));
    assert_eq!(root(&[("HOME", home), ("XDG_CACHE_HOME", "relative")]), in_home);
    assert_eq!(root(&[("HOME", home)]), in_home);
    let by_number = home_of(user()).map(|home| home.join(".cache/profinfer"));
    for pairs in [&[][..], &[("HOME", "relative")], &[("HOME", "/no/such/home")]] {
        assert_eq!(root(pairs), by_number, "{pairs:?}");
    }
}

#[test]
fn a_folder_for_one_run_is_private() {
    let folder = private_folder().unwrap();
    assert_eq!(mode(folder.path()), 0o700);
}

#[test]
fn a_note_is_given_once() {
    let (_folder, store) = store();
    let path = store.put("key", b"content").unwrap();
    std::fs::write(&path, "damage").unwrap();
    assert_eq!((store.get("key"), store.get("key")), (None, None));
    let ours = |note: &&Diagnostic| note.message.contains(path.to_str().unwrap());
    let notes = take_notes();
    let notes: Vec<&Diagnostic> = notes.0.iter().filter(ours).collect();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].code == Code::CacheIgnored && notes[0].hint.as_ref().unwrap().contains("rm -r"), "{notes:?}");
}
