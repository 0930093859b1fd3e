//! The application beside the sidecar.

use prometheus::IntGaugeVec;

use super::definitions::Definitions;
use crate::application::Health;

/// The application, where its health is asked.
#[derive(Clone)]
pub(crate) struct ApplicationMetrics {
    /// Without labels: there is none where nobody asks.
    healthy: IntGaugeVec,
}

impl ApplicationMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        Self {
            healthy: define.counts(
                "conclave_application_healthy",
                "Whether the application answers well when its health is asked; there only where the pod has a health check.",
                &[],
            ),
        }
    }

    /// How the application is from now on.
    pub(crate) fn show(&self, health: Health) {
        let healthy = match health {
            Health::Unchecked => return,
            Health::Healthy => 1,
            Health::Unhealthy => 0,
        };
        self.healthy.with_label_values::<&str>(&[]).set(healthy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::double::Double;

    #[test]
    fn there_is_a_number_from_the_start_only_where_health_is_asked() {
        let double = Double::new();
        let healthy = || {
            let text = double.metrics.scrape(&double.group);
            let mut lines = text.lines().filter(|l| l.starts_with("conclave_application_healthy"));
            lines.next().and_then(|line| line.split(' ').nth(1)).map(str::to_owned)
        };
        for (health, number) in [
            (Health::Unchecked, None),
            (Health::Unhealthy, Some("0")),
            (Health::Healthy, Some("1")),
        ] {
            double.metrics.application.show(health);
            assert_eq!(healthy().as_deref(), number);
        }
    }
}
