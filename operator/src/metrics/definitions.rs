//! How a metric is defined: made, registered and listed in one call.

use prometheus::core::Collector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// What is fixed about a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it is: `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
}

/// A registry that is being filled.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) registry: Registry,
    pub(super) list: Vec<Definition>,
}

type Labels = &'static [&'static str];

impl Definitions {
    pub(super) fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels,
    ) -> prometheus::Result<IntCounterVec> {
        let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
        self.define(Definition { name, kind: "counter", help, labels }, counters)
    }

    pub(super) fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
    ) -> prometheus::Result<IntGauge> {
        let gauge = IntGauge::new(name, help)?;
        self.define(Definition { name, kind: "gauge", help, labels: &[] }, gauge)
    }

    pub(super) fn gauges(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels,
    ) -> prometheus::Result<IntGaugeVec> {
        let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
        self.define(Definition { name, kind: "gauge", help, labels }, gauges)
    }

    pub(super) fn histograms(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels,
        buckets: &[f64],
    ) -> prometheus::Result<HistogramVec> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let histograms = HistogramVec::new(opts, labels)?;
        self.define(Definition { name, kind: "histogram", help, labels }, histograms)
    }

    fn define<M: Collector + Clone + 'static>(
        &mut self,
        definition: Definition,
        metric: M,
    ) -> prometheus::Result<M> {
        self.registry.register(Box::new(metric.clone()))?;
        self.list.push(definition);
        Ok(metric)
    }
}
