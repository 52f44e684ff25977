//! Processor time that a sampling window takes the recorder: to attach its probes, to read and store its records, and to
//! detach them.

use super::Seen;

/// Measures it, window by window.
#[derive(Debug, Default)]
pub(super) struct RecorderTime {
    /// Of a window as long as it was planned, ns.
    window_ns: f64,
    on: Option<On>,
}

/// A window in which all is attached.
#[derive(Debug)]
struct On {
    attaching_ns: f64,
    since: Seen,
    planned_ns: f64,
    /// What was seen when it was over.
    over: Option<Seen>,
}

impl RecorderTime {
    /// What the next window is estimated to take, ns; 0 before the first.
    pub(super) fn window_ns(&self) -> f64 {
        self.window_ns
    }

    /// All is attached, since a time after `start`, or with everything else where there is none; it is to last so long.
    pub(super) fn began(&mut self, start: Option<&Seen>, seen: &Seen, planned_ns: f64) {
        let attaching_ns = start.map_or(0.0, |start| seen.since(start).recorder_ns);
        self.on = Some(On { attaching_ns, since: *seen, planned_ns, over: None });
    }

    /// The window is over, and its probes go. Only the first call counts.
    pub(super) fn over(&mut self, seen: &Seen) {
        if let Some(on) = &mut self.on {
            on.over.get_or_insert(*seen);
        }
    }

    /// Its probes are detached. A window that lasted longer than planned, as the budget covered it, does not show what the
    /// next one takes: its records count as if it had not.
    pub(super) fn ended(&mut self, seen: &Seen) {
        let Some(On { attaching_ns, since, planned_ns, over }) = self.on.take() else { return };
        let over = over.unwrap_or(*seen);
        let on = over.since(&since);
        let part = (planned_ns / on.now_ns.max(1.0)).min(1.0);
        let this = attaching_ns + part * on.recorder_ns + seen.since(&over).recorder_ns;
        self.window_ns = if self.window_ns > 0.0 { 0.7 * self.window_ns + 0.3 * this } else { this };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(now_ns: f64, recorder_ns: f64) -> Seen {
        Seen { now_ns, recorder_ns, ..Seen::default() }
    }

    /// Attaching takes 1 ms, detaching 2 ms, and records a tenth of the time that the window lasts.
    fn window(time: &mut RecorderTime, planned_ns: f64, lasts_ns: f64) {
        let after = |ns: f64, recorder_ns: f64| seen(5e9 + ns, 7e9 + recorder_ns);
        time.began(Some(&after(0.0, 0.0)), &after(20e6, 1e6), planned_ns);
        let over = 1e6 + lasts_ns / 10.0;
        time.over(&after(20e6 + lasts_ns, over));
        time.over(&after(30e6 + lasts_ns, over + 1e6));
        time.ended(&after(100e6 + lasts_ns, over + 2e6));
    }

    #[test]
    fn a_window_counts_as_long_as_it_was_planned() {
        let mut time = RecorderTime::default();
        assert!(time.window_ns() == 0.0);
        window(&mut time, 30e6, 30e6);
        assert!((time.window_ns() - 6e6).abs() < 1.0, "{}", time.window_ns());
        // The budget covered a minute of it.
        window(&mut time, 30e6, 60e9);
        assert!((time.window_ns() - 6e6).abs() < 1.0, "{}", time.window_ns());
        window(&mut time, 90e6, 90e6);
        assert!((6e6..12e6).contains(&time.window_ns()), "{}", time.window_ns());
    }

    #[test]
    fn a_window_that_nothing_ended_is_over_with_its_probes() {
        let mut time = RecorderTime::default();
        time.ended(&seen(1e9, 1e9));
        assert!(time.window_ns() == 0.0, "none has begun");
        time.began(None, &seen(10e6, 1e9), 50e6);
        time.ended(&seen(60e6, 1e9 + 4e6));
        assert!((time.window_ns() - 4e6).abs() < 1.0, "{}", time.window_ns());
    }
}
