//! What was learned, as a lock file has it, and in the cache by the build that it was learned of.

use profinfer_binary::{Arch, ChosenLayout, Lock, LockedFile, TargetFile, TargetFiles};
use profinfer_compiler::{ProbePlan, glob_matches, lessons};
use profinfer_files::cache::{Store, hexadecimal};
use profinfer_probeset::Probeset;
use profinfer_schema::ModuleInfo;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Raise this with every change of the search.
const FORMAT: u32 = 1;
/// Largest size of a saved file, in bytes.
const LARGEST: u64 = 1 << 20;

/// A member that was learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedMember {
    /// The view.
    pub view: String,
    /// `view.member`.
    pub member: String,
    /// Bytes from the start of the view.
    pub offset: u64,
    /// How many distinct objects agree.
    pub objects: usize,
    /// The value of the first of them.
    pub example: String,
}

/// A lock file for the build that members were learned of; `None` where there are none, or the file has no build-id.
pub fn learned_lock(probeset: &str, file: &ModuleInfo, members: &[LearnedMember], arch: Arch) -> Option<Lock> {
    let mut views: BTreeMap<&str, ChosenLayout> = BTreeMap::new();
    for learned in members {
        let member = learned.member.strip_prefix(&learned.view)?.strip_prefix('.')?;
        views.entry(&learned.view).or_default().at.insert(member.to_owned(), learned.offset);
    }
    if views.is_empty() {
        return None;
    }
    let path = PathBuf::from(&file.path);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let build_id = file.build_id.clone();
    let mut locked = LockedFile::new(&TargetFile { id: 0, path, name, build_id, size: file.size, arch })?;
    for (view, layout) in views {
        locked.add_chosen(view, &layout);
    }
    Some(Lock::new(probeset, vec![locked]))
}

/// What earlier recordings of this probeset learned.
pub(in super::super) struct SavedLearning {
    store: Option<Store>,
    /// Of the probeset's texts.
    fingerprint: String,
}

impl SavedLearning {
    /// `fresh`: nothing of before is used.
    pub(in super::super) fn new(plan: &ProbePlan, probeset: &Probeset, fresh: bool) -> Self {
        let any = !lessons(plan, probeset).is_empty();
        let mut digest = Sha256::new();
        digest.update(FORMAT.to_le_bytes());
        for source in &probeset.sources {
            digest.update(source.text.as_bytes());
        }
        let store = if any && !fresh { Store::of_user("learned", LARGEST) } else { None };
        Self { store, fingerprint: hexadecimal(&digest.finalize()) }
    }

    fn key(&self, build_id: &str) -> String {
        format!("{build_id}-{}", self.fingerprint)
    }

    /// What was learned of one of a target's modules.
    pub(in super::super) fn load(&self, target: &dyn TargetFiles, globs: &[String]) -> Option<Lock> {
        let store = self.store.as_ref()?;
        let modules = target.files().iter().filter(|file| globs.iter().any(|glob| glob_matches(glob, &file.name)));
        let mut builds = modules.filter_map(|file| file.build_id.as_deref());
        builds.find_map(|build_id| Lock::parse("what was learned", &store.get(&self.key(build_id))?).ok())
    }

    /// Saves what was learned; a cache that cannot be written costs time only.
    pub(in super::super) fn store(&self, probeset: &str, file: &ModuleInfo, members: &[LearnedMember], arch: Arch) {
        let lock = learned_lock(probeset, file, members, arch);
        let (Some(store), Some(lock), Some(build_id)) = (&self.store, lock, &file.build_id) else { return };
        let _ = store.put(&self.key(build_id), lock.to_text().as_bytes());
    }
}
