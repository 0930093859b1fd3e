//! How a metric is defined: made, registered and listed in one call.

use std::collections::HashMap;
use std::fmt;

use prometheus::core::Collector;
use prometheus::{
    Counter, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, IntGaugeVec, Opts, Registry,
};

/// What is fixed about a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
    /// Its labels, `group` apart.
    pub labels: &'static [&'static str],
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It only rises.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It counts observations by size.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// A registry that is being filled.
pub(super) struct Definitions {
    pub(super) registry: Registry,
    pub(super) list: Vec<Definition>,
}

impl Definitions {
    pub(super) fn new(group: &str) -> Self {
        let labels = HashMap::from([("group".to_owned(), group.to_owned())]);
        let registry = Registry::new_custom(None, Some(labels))
            .expect("a registry without a prefix cannot be refused");
        Self { registry, list: Vec::new() }
    }

    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> IntCounter {
        self.define(Definition { name, kind: Kind::Counter, help, labels: &[] }, |opts| {
            IntCounter::with_opts(opts)
        })
    }

    /// A counter of seconds.
    pub(super) fn seconds(&mut self, name: &'static str, help: &'static str) -> Counter {
        self.define(Definition { name, kind: Kind::Counter, help, labels: &[] }, |opts| {
            Counter::with_opts(opts)
        })
    }

    pub(super) fn counters(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> IntCounterVec {
        self.define(Definition { name, kind: Kind::Counter, help, labels }, |opts| {
            IntCounterVec::new(opts, labels)
        })
    }

    pub(super) fn count(&mut self, name: &'static str, help: &'static str) -> IntGauge {
        self.define(Definition { name, kind: Kind::Gauge, help, labels: &[] }, |opts| {
            IntGauge::with_opts(opts)
        })
    }

    pub(super) fn counts(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> IntGaugeVec {
        self.define(Definition { name, kind: Kind::Gauge, help, labels }, |opts| {
            IntGaugeVec::new(opts, labels)
        })
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Gauge {
        self.define(Definition { name, kind: Kind::Gauge, help, labels: &[] }, |opts| {
            Gauge::with_opts(opts)
        })
    }

    pub(super) fn gauges(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> GaugeVec {
        self.define(Definition { name, kind: Kind::Gauge, help, labels }, |opts| {
            GaugeVec::new(opts, labels)
        })
    }

    pub(super) fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        buckets: &[f64],
    ) -> Histogram {
        self.define(Definition { name, kind: Kind::Histogram, help, labels: &[] }, |opts| {
            Histogram::with_opts(HistogramOpts { common_opts: opts, buckets: buckets.to_vec() })
        })
    }

    pub(super) fn histograms(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        buckets: &[f64],
    ) -> HistogramVec {
        self.define(Definition { name, kind: Kind::Histogram, help, labels }, |opts| {
            let opts = HistogramOpts { common_opts: opts, buckets: buckets.to_vec() };
            HistogramVec::new(opts, labels)
        })
    }

    fn define<M: Collector + Clone + 'static>(
        &mut self,
        definition: Definition,
        make: impl FnOnce(Opts) -> prometheus::Result<M>,
    ) -> M {
        let opts = Opts::new(definition.name, definition.help);
        let metric = make(opts).expect("names and labels are well-formed");
        register(&self.registry, metric.clone());
        self.list.push(definition);
        metric
    }
}

pub(super) fn register(registry: &Registry, metric: impl Collector + 'static) {
    registry.register(Box::new(metric)).expect("every metric has a name of its own");
}

/// Counts from 0 on for each of these labels.
pub(super) fn begin<const N: usize>(counters: &IntCounterVec, labels: &[[&str; N]]) {
    for labels in labels {
        counters.with_label_values(labels);
    }
}

/// Buckets of a histogram of seconds: `count` of them, each twice the one before.
pub(super) fn doubling(first: f64, count: u32) -> Vec<f64> {
    (0..count).map(|power| first * f64::from(1_u32 << power)).collect()
}
