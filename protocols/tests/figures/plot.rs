//! Plots as SVG, with both axes logarithmic, for light and dark pages.

use std::fmt::Write;

/// A plot by the number of members.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) curves: Vec<Curve>,
}

/// One algorithm: the number of members and the figure.
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(u32, f64)>,
}

/// The name at the end of a curve, in the color in which that is drawn.
struct Label {
    text: String,
    color: usize,
    at: f64,
}

impl Plot {
    /// All of the file.
    pub(crate) fn svg(&self) -> String {
        let scale = Scale::of(&self.curves);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\" aria-label=\"{0}\">\n{STYLE}\n<rect width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" class=\"page\"/>\n<text x=\"{LEFT}\" y=\"26\" \
             class=\"title\">{0}</text>\n",
            self.title
        );
        svg += &scale.grid();
        for (color, curve) in self.curves.iter().enumerate() {
            if self.first_alike(curve) == color {
                svg += &scale.curve(curve, color);
            }
        }
        for label in self.labels(&scale) {
            let (x, y) = (RIGHT + 10.0, label.at + 4.0);
            let (color, text) = (label.color, label.text);
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y:.1}\" class=\"t{color}\">{text}</text>");
        }
        svg + "</svg>\n"
    }

    /// The first curve that is the same as this one: only that is drawn.
    fn first_alike(&self, curve: &Curve) -> usize {
        self.curves.iter().position(|other| other.points == curve.points).unwrap_or(0)
    }

    /// Each beside the end of its curve, but far enough from the others.
    fn labels(&self, scale: &Scale) -> Vec<Label> {
        let label = |(place, curve): (usize, &Curve)| {
            let color = self.first_alike(curve);
            let text = format!("{}{}", if color == place { "" } else { "= " }, curve.name);
            let last = curve.points.last().map_or(scale.least, |point| point.1);
            Label { text, color, at: scale.y(last) }
        };
        let mut labels: Vec<Label> = self.curves.iter().enumerate().map(label).collect();
        labels.sort_by(|one, other| one.at.total_cmp(&other.at));
        let mut above = TOP - LINE;
        for label in &mut labels {
            label.at = label.at.max(above + LINE);
            above = label.at;
        }
        let mut below = BOTTOM + LINE;
        for label in labels.iter_mut().rev() {
            label.at = label.at.min(below - LINE);
            below = label.at;
        }
        labels
    }
}

/// Where a figure stands.
struct Scale {
    /// The decades or halves of them that the figures need.
    least: f64,
    most: f64,
    sizes: Vec<u32>,
}

impl Scale {
    fn of(curves: &[Curve]) -> Self {
        let values = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
        let least = values().fold(f64::INFINITY, f64::min);
        let most = values().fold(0.0, f64::max);
        let mut sizes: Vec<u32> =
            curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let below = TICKS.iter().rev().find(|tick| **tick <= least).copied();
        let above = TICKS.iter().find(|tick| **tick >= most).copied();
        Self { least: below.unwrap_or(least), most: above.unwrap_or(most), sizes }
    }

    fn x(&self, size: u32) -> f64 {
        let [first, last] = [self.sizes.first(), self.sizes.last()]
            .map(|size| f64::from(size.copied().unwrap_or(1)).ln());
        LEFT + (RIGHT - LEFT) * (f64::from(size).ln() - first) / (last - first)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value / self.least).ln() / (self.most / self.least).ln();
        BOTTOM - (BOTTOM - TOP) * share
    }

    /// Lines and numbers.
    fn grid(&self) -> String {
        let mut svg = String::new();
        for tick in TICKS.iter().filter(|tick| (self.least..=self.most).contains(*tick)) {
            let (y, x, below) = (self.y(*tick), LEFT - 8.0, self.y(*tick) + 4.0);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
                 <text x=\"{x}\" y=\"{below:.1}\" class=\"end\">{tick}</text>"
            );
        }
        for size in &self.sizes {
            let (x, y) = (self.x(*size), BOTTOM + 18.0);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>\
                 <text x=\"{x:.1}\" y=\"{y}\" class=\"middle\">{size}</text>"
            );
        }
        let (x, y) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 38.0);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" class=\"middle\">members, n</text>");
        svg
    }

    fn curve(&self, curve: &Curve, color: usize) -> String {
        let points: Vec<(f64, f64)> =
            curve.points.iter().map(|(size, value)| (self.x(*size), self.y(*value))).collect();
        let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let mut svg = format!("<polyline class=\"c{color}\" points=\"{}\"/>", line.join(" "));
        for (x, y) in points {
            let _ = write!(svg, "<circle class=\"t{color}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
        svg + "\n"
    }
}

const WIDTH: u32 = 680;
const HEIGHT: u32 = 440;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 386.0;
/// How far two labels are apart.
const LINE: f64 = 17.0;
const TICKS: [f64; 11] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

/// Eight colors that people who see fewer can distinguish too, darker ones on a light page.
const STYLE: &str = "<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
.page { fill: #ffffff } .grid { stroke: #d0d7de; stroke-width: 1; fill: none }
polyline { fill: none; stroke-width: 2 }
.c0 { stroke: #24292f } .t0 { fill: #24292f } .c1 { stroke: #b35900 } .t1 { fill: #b35900 }
.c2 { stroke: #1f77b4 } .t2 { fill: #1f77b4 } .c3 { stroke: #00785a } .t3 { fill: #00785a }
.c4 { stroke: #c2348b } .t4 { fill: #c2348b } .c5 { stroke: #6f42c1 } .t5 { fill: #6f42c1 }
.c6 { stroke: #8a6d00 } .t6 { fill: #8a6d00 } .c7 { stroke: #b3261e } .t7 { fill: #b3261e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117 } .grid { stroke: #30363d }
.c0 { stroke: #e6edf3 } .t0 { fill: #e6edf3 } .c1 { stroke: #ff9f40 } .t1 { fill: #ff9f40 }
.c2 { stroke: #58b4f0 } .t2 { fill: #58b4f0 } .c3 { stroke: #3fc79a } .t3 { fill: #3fc79a }
.c4 { stroke: #f28cc8 } .t4 { fill: #f28cc8 } .c5 { stroke: #b392f0 } .t5 { fill: #b392f0 }
.c6 { stroke: #e3c34b } .t6 { fill: #e3c34b } .c7 { stroke: #ff8a80 } .t7 { fill: #ff8a80 }
}
</style>";
