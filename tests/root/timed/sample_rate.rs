//! The rate of timer samples where the kernel permits fewer. It is the machine's: nothing runs beside this test.

use crate::samples::{recorded, report};

const LIMIT: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// The limit as it was, when this ends.
struct Restored(String);

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = std::fs::write(LIMIT, &self.0);
    }
}

#[test]
#[ignore = "needs root"]
fn threads_are_sampled_as_often_as_the_kernel_permits() {
    let _restored = Restored(std::fs::read_to_string(LIMIT).unwrap());
    std::fs::write(LIMIT, "300").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (trace, clocks) = recorded(folder.path(), &["--sample", "999"], ["1", "40"]);
    let report = report(&trace, &[]);
    assert_eq!(report["sampling"]["hz"], 300, "{}", report["sampling"]);
    let expected = clocks.values().sum::<f64>() / 1e9 * 300.0;
    let samples = report["samples"].as_f64().unwrap();
    assert!((0.8..1.3).contains(&(samples / expected)), "{samples} samples, {expected} expected");
}
