//! This machine's counting units, from the files that the kernel has for them.

use profinfer_binary::cpu_list;
use profinfer_probeset::counters::{Format, Machine, Pmu};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Bytes of one file, and files of one folder, that are read.
const MOST_BYTES: u64 = 4096;
const MOST_FILES: usize = 4096;

/// Reads what is below a folder that is laid out as `/sys` is.
pub(super) fn read(sys: &Path) -> Machine {
    let cpus = text(&sys.join("devices/system/cpu/online")).map(|list| cpu_list(&list)).unwrap_or_default();
    let pmus = names(&sys.join("bus/event_source/devices"));
    let pmus = pmus.into_iter().filter_map(|(name, folder)| Some((name, pmu(&folder)?)));
    Machine { pmus: pmus.collect(), cpus }
}

fn pmu(folder: &Path) -> Option<Pmu> {
    let files = |of: &str| names(&folder.join(of)).into_iter();
    let formats = files("format").filter_map(|(name, path)| Some((name, Format::parse(&text(&path)?)?)));
    // `NAME.scale`, `NAME.unit` and `NAME.snapshot` are about an event, and are none.
    let events = files("events").filter(|(name, _)| !name.contains('.'));
    Some(Pmu {
        number: text(&folder.join("type"))?.trim().parse().ok()?,
        cpus: text(&folder.join("cpus")).map(|list| cpu_list(&list)),
        is_shared: folder.join("cpumask").exists(),
        formats: formats.collect(),
        events: events.filter_map(|(name, path)| Some((name, text(&path)?.trim().to_owned()))).collect(),
    })
}

/// The entries of a folder by name; none where it cannot be read.
fn names(folder: &Path) -> BTreeMap<String, std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_FILES);
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_probeset::counters::{Event, resolve};

    /// Files and their texts below a new folder.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn a_machine_of_two_types_of_processors_is_read() {
        let folder = folder(&[
            ("devices/system/cpu/online", "0-2,4\n"),
            ("bus/event_source/devices/cpu_core/type", "4\n"),
            ("bus/event_source/devices/cpu_core/cpus", "0-1\n"),
            ("bus/event_source/devices/cpu_core/format/event", "config:0-7\n"),
            ("bus/event_source/devices/cpu_core/format/umask", "config:8-15\n"),
            ("bus/event_source/devices/cpu_core/events/mem-loads", "event=0xcd,umask=0x1\n"),
            ("bus/event_source/devices/cpu_core/events/mem-loads.unit", "x\n"),
            ("bus/event_source/devices/cpu_atom/type", "10\n"),
            ("bus/event_source/devices/cpu_atom/cpus", "2,4\n"),
            ("bus/event_source/devices/uncore_imc/type", "12\n"),
            ("bus/event_source/devices/uncore_imc/cpumask", "0\n"),
            ("bus/event_source/devices/nonsense/type", "many\n"),
        ]);
        let machine = read(folder.path());
        assert_eq!(machine.cpus, [0, 1, 2, 4]);
        assert_eq!(machine.pmus.keys().collect::<Vec<_>>(), ["cpu_atom", "cpu_core", "uncore_imc"]);
        assert_eq!(machine.pmus["cpu_core"].events.len(), 1);
        let opened = |text: &str| resolve(&Event::parse(text).unwrap(), &machine);
        let loads = opened("cpu_core/mem-loads/").unwrap();
        assert_eq!((loads[0].kind, loads[0].words[0], loads[0].cpus.as_slice()), (4, 0x1cd, &[0, 1][..]));
        assert_eq!(opened("cycles").unwrap().iter().map(|o| o.cpus.clone()).collect::<Vec<_>>(), [[2, 4], [0, 1]]);
        assert!(opened("uncore_imc/config=1/").is_err());
    }

    #[test]
    fn nothing_and_nonsense_are_a_machine_without_units() {
        assert_eq!(read(Path::new("/no/such/folder")), Machine::default());
    }
}
