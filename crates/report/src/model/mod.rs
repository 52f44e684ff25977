//! What a report is made of: the sections and rows of the data, without any form.

pub(crate) mod device_use;
pub(crate) mod faults;
pub(crate) mod frequency;
pub(crate) mod kept;
pub(crate) mod metrics;
pub(crate) mod offload;
pub(crate) mod pressure;
pub(crate) mod reclaim;
pub(crate) mod requests;
pub(crate) mod rows;
pub(crate) mod sampling;
pub(crate) mod step;
pub(crate) mod threads;
