//! What was learned, as a lock file has it, and in the cache by the build that it was learned of.

use crate::slots::{LearnedSlot, any_open};
use profinfer_binary::{Arch, ChosenLayout, Lock, LockedFile, TargetFile, TargetFiles};
use profinfer_compiler::{ProbePlan, glob_matches, lessons};
use profinfer_files::cache::{Store, hexadecimal};
use profinfer_probeset::Probeset;
use profinfer_schema::ModuleInfo;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Raise this with every change of the search.
const FORMAT: u32 = 4;
/// Largest size of a saved file, in bytes.
const LARGEST: u64 = 1 << 20;

/// A member that was learned.
#[derive(Debug, Clone, PartialEq)]
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
    /// The file of the function that was called with the first of them.
    pub file: Option<ModuleInfo>,
}

/// What a recording learned.
pub(in super::super) type LearnedFacts<'a> = (&'a [LearnedMember], &'a [LearnedSlot]);

/// A lock file for the builds that something was learned of; `None` where there are none, or no file has a build-id.
pub fn learned_lock(probeset: &str, learned: LearnedFacts<'_>, arch: Arch) -> Option<Lock> {
    let files = locked(learned, arch);
    (!files.is_empty()).then(|| Lock::new(probeset, files))
}

/// What was learned of each file.
fn locked((members, slots): LearnedFacts<'_>, arch: Arch) -> Vec<LockedFile> {
    let mut views: BTreeMap<(&str, &str), (&ModuleInfo, ChosenLayout)> = BTreeMap::new();
    for learned in members {
        let member = learned.member.strip_prefix(&learned.view).and_then(|rest| rest.strip_prefix('.'));
        let (Some(member), Some(file)) = (member, &learned.file) else { continue };
        let (_, layout) = views.entry((&file.path, &learned.view)).or_insert_with(|| (file, ChosenLayout::default()));
        layout.at.insert(member.to_owned(), learned.offset);
    }
    let mut files: BTreeMap<String, LockedFile> = BTreeMap::new();
    let mut add = |file: &ModuleInfo, fact: &dyn Fn(&mut LockedFile)| {
        // Two copies of a build are one.
        if let (Some(build_id), Some(new)) = (&file.build_id, locked_file(file, arch)) {
            fact(files.entry(build_id.clone()).or_insert(new));
        }
    };
    for ((_, view), (file, layout)) in &views {
        add(file, &|of| of.add_chosen(view, layout));
    }
    for learned in slots {
        if let Some(file) = &learned.file {
            add(file, &|of| of.add_slot(&learned.slots, learned.slot));
        }
    }
    files.into_values().collect()
}

/// A file without facts yet; `None` where it has no build-id.
fn locked_file(file: &ModuleInfo, arch: Arch) -> Option<LockedFile> {
    let path = PathBuf::from(&file.path);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    LockedFile::new(&TargetFile { id: 0, path, name, build_id: file.build_id.clone(), size: file.size, arch })
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
        let any = !lessons(plan, probeset).is_empty() || any_open(plan);
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

    /// What was learned of a target's modules.
    pub(in super::super) fn load(&self, target: &dyn TargetFiles, globs: &[String]) -> Option<Lock> {
        let store = self.store.as_ref()?;
        let modules = target.files().iter().filter(|file| globs.iter().any(|glob| glob_matches(glob, &file.name)));
        let builds: BTreeSet<&str> = modules.filter_map(|file| file.build_id.as_deref()).collect();
        let of_build = |build_id: &str| Lock::parse("what was learned", &store.get(&self.key(build_id))?).ok();
        let locks: Vec<Lock> = builds.into_iter().filter_map(of_build).collect();
        let probeset = locks.first()?.probeset.clone();
        Some(Lock::new(&probeset, locks.into_iter().flat_map(|lock| lock.files).collect()))
    }

    /// Saves what was learned; a cache that cannot be written costs time only.
    pub(in super::super) fn store(&self, probeset: &str, learned: LearnedFacts<'_>, arch: Arch) {
        let Some(store) = &self.store else { return };
        for file in locked(learned, arch) {
            let key = self.key(&file.build_id);
            let _ = store.put(&key, Lock::new(probeset, vec![file]).to_text().as_bytes());
        }
    }
}
