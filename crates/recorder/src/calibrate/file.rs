//! The file that stores a calibration: one for each kernel release and processor model.

use crate::host;
use profinfer_binary::Arch;
use profinfer_compiler::CostTable;
use profinfer_files::cache::{Store, hexadecimal};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Raise this with every change of the measurement or of its format.
const FORMAT: u32 = 2;
/// A larger file was not written by us.
const LARGEST: u64 = 64 << 10;

/// What probes cost on one machine.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Calibration {
    format: u32,
    /// Its kernel's release.
    pub kernel: String,
    /// Its processor.
    pub cpu_model: String,
    /// When it was measured, in seconds since 1970.
    pub measured_at: u64,
    /// The figures.
    pub costs: CostTable,
}

impl Calibration {
    pub(super) fn of_this_machine(measured_at: u64, costs: CostTable) -> Self {
        let host = host::describe();
        Self { format: FORMAT, kernel: host.kernel, cpu_model: host.cpu_model, measured_at, costs }
    }

    /// The one of this machine, if there is one.
    pub fn load() -> Option<Self> {
        let host = host::describe();
        Self::read(&store()?, &host.kernel, &host.cpu_model)
    }

    fn read(store: &Store, kernel: &str, cpu_model: &str) -> Option<Self> {
        let found: Self = store.get_json(&key(kernel, cpu_model))?;
        let fits = found.format == FORMAT && found.kernel == kernel && found.cpu_model == cpu_model;
        (fits && !found.costs.ns.is_empty()).then_some(found)
    }

    /// Saves it where [`Calibration::load`] finds it.
    ///
    /// # Errors
    /// There is no folder for it, or it cannot be written to.
    pub fn save(&self) -> std::io::Result<PathBuf> {
        let store = store().ok_or(std::io::ErrorKind::NotFound)?;
        store.put_json(&key(&self.kernel, &self.cpu_model), self)
    }
}

fn store() -> Option<Store> {
    Store::of_user("calibration", LARGEST)
}

fn key(kernel: &str, cpu_model: &str) -> String {
    let digest = Sha256::digest(format!("{kernel}\n{cpu_model}"));
    hexadecimal(digest.get(..8).unwrap_or_default())
}

/// What a probe costs for programs of an architecture: as measured on this machine, where it was and the architecture is
/// this machine's; else what is built in for its kernel. What was not measured is built in too.
pub fn costs(arch: Arch) -> CostTable {
    let native = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };
    if arch != native {
        return CostTable::built_in(arch, None);
    }
    let built_in = CostTable::built_in(arch, Some(host::kernel_version()));
    let costs = match Calibration::load() {
        None => built_in,
        Some(calibration) => CostTable {
            return_ns: calibration.costs.return_ns.or(built_in.return_ns),
            record_ns: calibration.costs.record_ns.or(built_in.record_ns),
            ..calibration.costs
        },
    };
    CostTable { nop5_writes_stack: host::nop5_writes_stack(), ..costs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_compiler::InstructionKind as Kind;

    #[test]
    fn a_calibration_holds_for_its_machine_only() {
        let folder = tempfile::tempdir().unwrap();
        let costs = CostTable {
            source: "here".into(),
            ns: [(Kind::Push, 600), (Kind::Stepped, 9000)].into(),
            return_ns: Some(400),
            span_ns: Some(500),
            record_ns: None,
            nop5_writes_stack: false,
            built_in: false,
        };
        let calibration = Calibration::of_this_machine(1_700_000_000, costs);
        let store = Store::at(folder.path(), "calibration", LARGEST);
        let file_key = key(&calibration.kernel, &calibration.cpu_model);
        store.put_json(&file_key, &calibration).unwrap();
        let read = |kernel: &str, cpu: &str| Calibration::read(&store, kernel, cpu);
        assert_eq!(read(&calibration.kernel, &calibration.cpu_model).as_ref(), Some(&calibration));
        assert_eq!(read("6.1.0-other", &calibration.cpu_model), None);
        assert_eq!(read(&calibration.kernel, "another processor"), None);
        // Nor under the other one's name.
        store.put_json(&key("6.1.0-other", &calibration.cpu_model), &calibration).unwrap();
        assert_eq!(read("6.1.0-other", &calibration.cpu_model), None);
        for damage in ["", "{}", "[1, 2", "null"] {
            store.put(&file_key, damage.as_bytes()).unwrap();
            assert_eq!(read(&calibration.kernel, &calibration.cpu_model), None, "{damage}");
        }
        let mut newer = calibration.clone();
        newer.format += 1;
        store.put_json(&file_key, &newer).unwrap();
        assert_eq!(read(&calibration.kernel, &calibration.cpu_model), None);
    }
}
