//! What sidecars count of their group clock, and what that makes in a second and in a round.

use std::slice;
use std::time::Instant;

use anyhow::Result;
use conclave_testbed::cluster::Pod;

use crate::prometheus::sum_over;

/// The counters of several sidecars at a moment: what each took of a processor, and of the others the sum.
pub(super) struct Tally {
    at: Instant,
    cpu: Vec<f64>,
    messages: f64,
    answers: f64,
    kernel: f64,
    stamps: f64,
}

impl Tally {
    pub(super) fn of(pods: &[Pod]) -> Result<Self> {
        let sum = |metric, label| sum_over(pods, metric, label);
        let of_each = |pod| sum_over(slice::from_ref(pod), "conclave_clock_cpu_seconds_total", "");
        Ok(Self {
            at: Instant::now(),
            cpu: pods.iter().map(of_each).collect::<Result<_>>()?,
            messages: sum("conclave_peer_messages_sent_total", r#"protocol="clock""#)?,
            answers: sum("conclave_clock_answers_total", "")?,
            kernel: sum("conclave_clock_timestamps_total", r#"source="kernel""#)?,
            stamps: sum("conclave_clock_timestamps_total", "")?,
        })
    }

    /// What was counted since an earlier moment, in words. `Berkeley` has 3(n - 1) messages in a round of n: in each, the
    /// daemon asks all others.
    pub(super) fn since(&self, before: &Self) -> String {
        let took = self.at.duration_since(before.at).as_secs_f64();
        let asked = u32::try_from(self.cpu.len() - 1).map_or(f64::NAN, f64::from);
        let of_core =
            self.cpu.iter().zip(&before.cpu).map(|(now, then)| 100.0 * (now - then) / took);
        let of_core: Vec<String> = of_core.map(|share| format!("{share:.2} %")).collect();
        let rounds = (self.answers - before.answers) / asked;
        format!(
            "of a core, the group clock of each sidecar: {}; {rounds:.0} rounds, {:.2} messages in each (by the formula \
             {:.0}); {:.2} % of {:.0} stamps of probes are of the kernel",
            of_core.join(", "),
            (self.messages - before.messages) / rounds,
            3.0 * asked,
            100.0 * (self.kernel - before.kernel) / (self.stamps - before.stamps),
            self.stamps - before.stamps,
        )
    }
}
