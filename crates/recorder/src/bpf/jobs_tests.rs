//! The table of devices' jobs, filled beyond its size: what is never done gives way, and each loss is counted.

use super::variables::variables;
use super::{Compiler, Kernels, Translation};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use profinfer_compiler::Selection;
use profinfer_compiler::codegen::{CSource, generate};
use profinfer_probeset::{Library, load_text};
use profinfer_schema::LossKind;
use profinfer_schema::bpf::LOSSES_PER_TYPE;

/// Jobs that are begun, or done, in a run of these programs.
const MANY: i64 = 1000;
/// The type of the records that the losses are of.
const TYPE: u32 = 6;
/// Makes jobs with the numbers from `tst_next` on, of the target or of others, and ends the latest ones.
const PROGRAMS: &str = r#"
static long (*const tst_loop)(__u32 count, void *function, void *context, __u64 flags) = (void *)181;
__u64 tst_next;
static int tst_begin(__u32 i, void *tid)
{
	struct pf_job_key key = { .first = tst_next };
	struct pf_job job = { .queued = tst_next + 1, .tid = tid != NULL };

	tst_next++;
	pf_add_job(&key, &job, 6);
	return 0;
}
static int tst_end(__u32 i, void *context)
{
	struct pf_job_key key = { .first = tst_next - 1 - i };

	if (!bpf_map_delete_elem(&pf_jobs, &key))
		__sync_fetch_and_add(&pf_jobs_pending, -1);
	return 0;
}
SEC("raw_tp/sys_enter") int tst_own(void *context)
{
	__u64 own = 0;

	tst_loop(1000, tst_begin, &own, 0);
	return 0;
}
SEC("raw_tp/sys_enter") int tst_again(void *context)
{
	__u64 own = 0;

	tst_next -= 1000;
	tst_loop(1000, tst_begin, &own, 0);
	return 0;
}
SEC("raw_tp/sys_enter") int tst_others(void *context)
{
	tst_loop(1000, tst_begin, NULL, 0);
	return 0;
}
SEC("raw_tp/sys_enter") int tst_done(void *context)
{
	tst_loop(1000, tst_end, NULL, 0);
	return 0;
}
"#;

struct Table {
    object: Object,
    /// Where the number of pending jobs is in `.bss`.
    pending: usize,
}

impl Table {
    fn load() -> Self {
        let drm = include_str!("../../../../probesets/drm.yaml");
        let (probeset, _) = load_text("drm.yaml", drm, &Library::new(&[])).unwrap();
        let (plan, _) =
            profinfer_compiler::plan(&probeset, &Selection::default(), super::super::host_arch().unwrap()).unwrap();
        let CSource { name, text, arch } = generate(&plan, &probeset, None).unwrap();
        let source = CSource { name, text: text + PROGRAMS, arch };
        let translation = Translation { source: &source, sources: &[], kernels: Kernels::Recent, attach: None };
        let bytes = Compiler::find().unwrap().compile(&translation).unwrap();
        let pending = variables(&bytes)["pf_jobs_pending"].offset;
        let mut open = ObjectBuilder::default().open_memory(&bytes).unwrap();
        for mut program in open.progs_mut() {
            let is_ours = program.name().to_string_lossy().starts_with("tst_");
            program.set_autoload(is_ours);
        }
        Self { object: open.load().unwrap(), pending }
    }

    fn run(&self, name: &str, times: usize) {
        let program = self.object.progs_mut().find(|program| program.name() == name).unwrap();
        for _ in 0..times {
            program.test_run(ProgramInput::default()).unwrap();
        }
    }

    /// Jobs in the table, jobs of the target that are pending, and those that are lost.
    fn counts(&self) -> [i64; 3] {
        let map = |name: &str| self.object.maps().find(|map| map.name().to_string_lossy().ends_with(name)).unwrap();
        let number = |bytes: &[u8]| i64::from_ne_bytes(*bytes.first_chunk().unwrap());
        let values = map(".bss").lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        let entry = TYPE * LOSSES_PER_TYPE + LossKind::JobTableFull as u32;
        let lost = map("pf_losses").lookup_percpu(&entry.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        let lost = lost.iter().map(|bytes| number(bytes)).sum();
        [map("pf_jobs").keys().count() as i64, number(&values[self.pending..]), lost]
    }
}

#[test]
#[ignore = "needs root"]
fn jobs_that_are_never_done_give_way_and_are_counted() {
    const FOLLOWED: i64 = 16384;
    let table = Table::load();
    table.run("tst_own", 16);
    assert_eq!(table.counts(), [16 * MANY, 16 * MANY, 0]);
    table.run("tst_done", 1);
    assert_eq!(table.counts(), [15 * MANY, 15 * MANY, 0]);
    table.run("tst_own", 1);
    let lost = 17 * MANY - FOLLOWED;
    assert_eq!(table.counts(), [16 * MANY - lost, 16 * MANY - lost, lost]);
    // Later ones are done as they should be; those that are not give way one after the other.
    for _ in 0..17 {
        table.run("tst_own", 1);
        table.run("tst_done", 1);
    }
    assert_eq!(table.counts(), [0, 0, 16 * MANY]);
    // Of others nothing is lost, and they leave room for the target's.
    table.run("tst_others", 20);
    assert_eq!(table.counts(), [FOLLOWED, 0, 16 * MANY]);
    table.run("tst_own", 1);
    assert_eq!(table.counts(), [FOLLOWED, MANY, 16 * MANY]);
    // Others have the same numbers as those that are not done.
    table.run("tst_again", 1);
    assert_eq!(table.counts(), [FOLLOWED - MANY, MANY, 17 * MANY]);
}
