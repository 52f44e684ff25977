//! Where the kernel's tracepoints of devices' jobs have their fields: tracefs describes each event. A tracepoint that the
//! kernel lacks, or that has other fields, is left out.

use profinfer_compiler::Program;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_schema::{JOB_TRACEPOINTS, JobEvent, JobTracepoint};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Where tracefs is mounted: by itself, or in debugfs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Bytes of a description that are read.
const MOST_BYTES: u64 = 1 << 16;
/// In 16 bits of a format: a text is a pointer, a key has 4 bytes.
const FLAG: u64 = 0x8000;

/// The formats of the tracepoints that this kernel has.
#[derive(Debug, Default)]
pub struct JobFormats {
    found: BTreeMap<&'static str, (JobEvent, u64)>,
    problem: Option<Diagnostic>,
}

impl JobFormats {
    /// None: of a recording without such events.
    pub const NONE: Self = Self { found: BTreeMap::new(), problem: None };

    /// Of this kernel, if some of the programs are at such a tracepoint.
    pub fn of_kernel(programs: &[Program]) -> Self {
        let is_needed = programs.iter().any(|program| program.job_tracepoint().is_some());
        if !is_needed {
            return Self::NONE;
        }
        let mounted = TRACEFS.into_iter().map(Path::new).find(|path| path.join("events").exists());
        match mounted {
            Some(tracefs) => Self::below(tracefs).with_devices(devices_of_a_driver(Path::new("/sys"))),
            None => Self { problem: Some(unreadable()), ..Self::NONE },
        }
    }

    fn below(tracefs: &Path) -> Self {
        let mut formats = Self::NONE;
        for of in &JOB_TRACEPOINTS {
            let path = tracefs.join("events").join(of.category).join(of.name).join("format");
            let mut text = String::new();
            match std::fs::File::open(&path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text)) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => formats.problem = Some(unreadable()),
                Ok(_) => match format(of, &text) {
                    Some(format) => drop(formats.found.insert(of.name, (of.event, format))),
                    None => {
                        let message = format!("the tracepoint `{}` has other fields than expected", of.full_name());
                        formats.problem = Some(
                            Diagnostic::warning(Code::KernelFeature, message)
                                .with_note("jobs of a device are not recorded by it"),
                        );
                    }
                },
            }
        }
        formats
    }

    /// Has it noted where jobs of so many devices of a driver cannot be told apart: events of the scheduler before Linux
    /// 6.16 have the ring's name alone, which these devices share.
    fn with_devices(mut self, devices: usize) -> Self {
        let is_unnamed = |(of, (event, format)): (&&'static str, &(JobEvent, u64))| {
            let names_devices = JobTracepoint::of(of).is_some_and(|of| of.driver.is_some());
            *event == JobEvent::Queued && !(names_devices && format >> 16 & 0xffff != 0)
        };
        if devices > 1 && self.problem.is_none() && self.found.iter().any(is_unnamed) {
            let message =
                format!("jobs of {devices} GPUs of one driver cannot be told apart: their rings have equal names");
            let problem = Diagnostic::warning(Code::KernelFeature, message)
                .with_note("the times of their jobs may be too short: a job of one counts as the end of another's")
                .hint("use Linux 6.16 or later, which names the device");
            self.problem = Some(problem);
        }
        self
    }

    /// Whether the kernel has the tracepoint of this name, and describes it.
    pub fn has(&self, tracepoint: &str) -> bool {
        self.found.contains_key(tracepoint)
    }

    /// Why some are not there, where that is not the kernel's age or its drivers.
    pub fn problem(&self) -> Option<Diagnostic> {
        self.problem.clone()
    }

    /// The runtime's constants.
    pub fn constants(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = JobEvent::ALL.map(|event| (event.variable().to_owned(), 0)).into();
        all.extend(self.found.values().map(|(event, format)| (event.variable().to_owned(), *format)));
        all
    }
}

/// Devices that compute, of the driver that has the most of them among those that use the kernel's scheduler.
fn devices_of_a_driver(sys: &Path) -> usize {
    let names = |folder: &Path| -> Option<BTreeSet<OsString>> {
        Some(std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name()).collect())
    };
    // A scheduler that is built into the kernel has no list of its users.
    let users = names(&sys.join("module/gpu_sched/holders"));
    let class = sys.join("class/drm");
    let mut count = BTreeMap::new();
    for node in names(&class).unwrap_or_default() {
        let driver = class.join(&node).join("device/driver");
        if !node.to_string_lossy().starts_with("renderD") {
            continue;
        }
        let module = driver.join("module").canonicalize().ok();
        let module = module.as_deref().and_then(Path::file_name);
        let is_user = !matches!((&users, module), (Some(users), Some(module)) if !users.contains(module));
        if let Some(driver) = driver.canonicalize().ok().filter(|_| is_user) {
            *count.entry(driver).or_default() += 1;
        }
    }
    count.into_values().max().unwrap_or(0)
}

fn unreadable() -> Diagnostic {
    Diagnostic::warning(
        Code::KernelFeature,
        "the kernel's tracepoints cannot be read: jobs of devices are not recorded",
    )
    .hint("run as root, and if tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing")
}

/// A field of an event.
#[derive(Debug, PartialEq, Eq)]
struct Field<'t> {
    ty: &'t str,
    offset: u64,
    size: u64,
}

/// `\tfield:unsigned int context;\toffset:16;\tsize:4;\tsigned:0;`
fn field<'t>(text: &'t str, wanted: &str) -> Option<Field<'t>> {
    text.lines().find_map(|line| {
        let mut parts = line.trim().split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let (ty, name) = declaration.rsplit_once(' ')?;
        if name.trim_start_matches('*').split('[').next()? != wanted {
            return None;
        }
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
        Some(Field { ty: ty.trim(), offset: number("offset:")?, size: number("size:")? })
    })
}

/// As the runtime takes it, 16 bits each: ring, driver, first and second key.
fn format(of: &JobTracepoint, text: &str) -> Option<u64> {
    let fits = |field: &Field<'_>| (1..FLAG).contains(&field.offset);
    let text_at = |name: &str| {
        let field = field(text, name).filter(fits)?;
        match (field.ty, field.size) {
            (ty, 4) if ty.starts_with("__data_loc") => Some(field.offset),
            // Linux 5.10.
            (ty, 8) if ty.starts_with("const char") => Some(field.offset | FLAG),
            _ => None,
        }
    };
    let key_at = |name: &str| {
        let field = field(text, name).filter(fits)?;
        match field.size {
            8 => Some(field.offset),
            4 => Some(field.offset | FLAG),
            _ => None,
        }
    };
    let optional = |name: Option<&str>| name.and_then(text_at).unwrap_or(0);
    let mut format = optional(of.ring) | optional(of.driver) << 16;
    for (index, key) in of.key.iter().enumerate().take(2) {
        format |= key_at(key)? << (32 + 16 * index);
    }
    Some(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Option<u64> {
        format(JobTracepoint::of(name).unwrap(), text)
    }

    /// As tracefs has them: Linux 6.18, 6.1 and 5.10.
    #[test]
    fn fields_are_where_the_kernel_says() {
        let head = "name: x\nID: 1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n";
        let fence = "\tfield:__data_loc char[] driver;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:__data_loc char[] timeline;\toffset:12;\tsize:4;\tsigned:0;\n\
            \tfield:unsigned int context;\toffset:16;\tsize:4;\tsigned:0;\n\
            \tfield:unsigned int seqno;\toffset:20;\tsize:4;\tsigned:0;\n";
        let found = of("dma_fence_init", &format!("{head}{fence}"));
        assert_eq!(found, Some(12 | 8 << 16 | (16 | FLAG) << 32 | (20 | FLAG) << 48));
        let old = "\tfield:struct drm_sched_entity * entity;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:struct dma_fence * fence;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:const char * name;\toffset:24;\tsize:8;\tsigned:0;\n";
        assert_eq!(of("drm_sched_job", &format!("{head}{old}")), Some(24 | FLAG | 16 << 32));
        let done = "\tfield:u64 fence_context;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:u64 fence_seqno;\toffset:16;\tsize:8;\tsigned:0;\n";
        assert_eq!(of("drm_sched_job_done", &format!("{head}{done}")), Some(8 << 32 | 16 << 48));
        // Where devices are not named, several of a driver are too many.
        let found = |name: &'static str, text: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("events/gpu_scheduler").join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("format"), text).unwrap();
            [1, 2].map(|devices| JobFormats::below(folder.path()).with_devices(devices).problem())
        };
        let [one, two] = found("drm_sched_job", &format!("{head}{old}"));
        assert!(one.is_none() && two.unwrap().message.starts_with("jobs of 2 GPUs of one driver"));
        let new = format!("{head}{done}\tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n");
        let named = format!("{new}\tfield:__data_loc char[] dev;\toffset:28;\tsize:4;\tsigned:0;\n");
        assert!(found("drm_sched_job_queue", &named).iter().all(Option::is_none));
        // Without what tells jobs apart it is of no use.
        assert_eq!(of("drm_sched_job_done", head), None);
        assert_eq!(of("drm_sched_job_done", &done.replace("offset:8", "offset:99999")), None);
    }

    #[test]
    fn devices_are_counted_by_driver() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let sys = folder.path();
        let devices = || devices_of_a_driver(sys);
        assert_eq!(devices(), 0);
        let add = |node: &str, driver: &str| {
            let [device, of] = [sys.join("class/drm").join(node).join("device"), sys.join("bus").join(driver)];
            let module = sys.join("module").join(driver);
            for folder in [&device, &of, &module] {
                std::fs::create_dir_all(folder).unwrap();
            }
            let _ = symlink(&module, of.join("module"));
            symlink(&of, device.join("driver")).unwrap();
        };
        for (node, driver) in [("card0", "amd"), ("card1", "amd"), ("renderD128", "amd"), ("renderD129", "virtual")] {
            add(node, driver);
        }
        assert_eq!(devices(), 1);
        add("renderD130", "virtual");
        assert_eq!(devices(), 2);
        // Of a driver that does not use the scheduler they do not matter.
        std::fs::create_dir_all(sys.join("module/gpu_sched/holders/amd")).unwrap();
        assert_eq!(devices(), 1);
        add("renderD131", "amd");
        assert_eq!(devices(), 2);
    }
}
