//! Modules, sites, enumerations and what samples refer to: those that a part of a recording does not have yet are
//! added to it.

use crate::meta::Meta;
use crate::writer::TraceWriter;
use indexmap::IndexMap;
use profinfer_schema::Sampling;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// How much of a recording's metadata was written.
#[derive(Debug, Default)]
pub(super) struct References {
    modules: usize,
    sites: usize,
    enums: IndexMap<String, BTreeMap<i64, String>>,
    sampled_modules: usize,
    functions: usize,
    taken: u64,
}

impl References {
    /// Of a part that begins with this metadata's schema.
    pub(super) fn new(meta: &Meta) -> Self {
        Self { enums: meta.schema.enums.clone(), ..Self::default() }
    }

    /// Writes what records refer to, before them.
    pub(super) fn sites<W: Write>(&mut self, writer: &mut TraceWriter<W>, meta: &Meta) -> io::Result<()> {
        let modules = meta.modules.get(self.modules..).unwrap_or_default();
        let sites = meta.sites.get(self.sites..).unwrap_or_default();
        if !modules.is_empty() || !sites.is_empty() {
            writer.add_sites(modules, sites)?;
            (self.modules, self.sites) = (meta.modules.len(), meta.sites.len());
        }
        if self.enums != meta.schema.enums {
            writer.add_enums(&meta.schema.enums)?;
            self.enums.clone_from(&meta.schema.enums);
        }
        Ok(())
    }

    /// Writes what samples refer to, which may come after them; `counts`: samples taken and lost, where these are not
    /// those of the whole recording.
    pub(super) fn sampling<W: Write>(
        &mut self,
        writer: &mut TraceWriter<W>,
        meta: &Meta,
        counts: Option<(u64, u64)>,
    ) -> io::Result<()> {
        let Some(all) = &meta.sampling else { return Ok(()) };
        let is_known = self.sampled_modules == all.modules.len() && self.functions == all.kernel.len();
        if is_known && self.taken == all.taken && self.taken > 0 {
            return Ok(());
        }
        let (taken, lost) = counts.unwrap_or((all.taken, all.lost));
        let news = Sampling {
            first_module: self.sampled_modules,
            modules: all.modules.get(self.sampled_modules..).unwrap_or_default().to_vec(),
            kernel: all.kernel.get(self.functions..).unwrap_or_default().to_vec(),
            taken,
            lost,
            ..all.clone()
        };
        (self.sampled_modules, self.functions, self.taken) = (all.modules.len(), all.kernel.len(), all.taken);
        writer.sampling(&news)
    }
}
