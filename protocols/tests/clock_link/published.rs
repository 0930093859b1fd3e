//! The figures of the estimate and of its bound, in clocks and networks of a known kind.

use crate::bed::{Figures, Scene, quantile};

/// The largest distance of two of five, its median, 99th percentile and maximum, in microseconds: what
/// another program made of the same method, whose windows are not known.
type Known = [f64; 3];

const PLAIN: Scene = Scene {
    name: "25 us + 10 us, 1 ppb/s",
    base_us: [25.0, 25.0],
    jitter_us: 10.0,
    has_tail: false,
    wander_ppb: 1.0,
    sine_ppm: 0.0,
    rate: 1,
    window_s: 60,
    assumed_ppb: 1_000,
};

/// Much jitter asks for a long window, a rate that changes fast for a short one.
const SCENES: [(Scene, Known); 7] = [
    (PLAIN, [0.41, 1.4, 1.6]),
    (Scene { name: "25 us + 10 us, 10 ppb/s", wander_ppb: 10.0, ..PLAIN }, [0.95, 2.3, 2.7]),
    (
        Scene {
            name: "100 us + 100 us",
            base_us: [100.0, 100.0],
            jitter_us: 100.0,
            window_s: 100,
            ..PLAIN
        },
        [2.2, 6.5, 7.2],
    ),
    (
        Scene {
            name: "500 us + 1 ms",
            base_us: [500.0, 500.0],
            jitter_us: 1_000.0,
            window_s: 200,
            ..PLAIN
        },
        [12.7, 25.0, 33.0],
    ),
    (Scene { name: "10 % of packets +1 ms", has_tail: true, ..PLAIN }, [0.40, 1.8, 2.2]),
    (
        Scene {
            name: "1 ppm sine of 600 s",
            sine_ppm: 1.0,
            window_s: 30,
            assumed_ppb: 5_000,
            ..PLAIN
        },
        [1.35, 2.9, 3.7],
    ),
    (Scene { name: "37.5 us and 12.5 us", base_us: [37.5, 12.5], ..PLAIN }, [12.7, 13.1, 13.2]),
];

/// Half the width of the bound at an assumed wander, its median in microseconds: once a second from
/// each side, and four times.
const BOUNDS: [(u64, [f64; 2]); 5] = [
    (100, [29.0, 27.5]),
    (1_000, [32.0, 28.5]),
    (5_000, [41.0, 31.0]),
    (15_000, [58.0, 36.0]),
    (50_000, [118.0, 46.0]),
];

fn line(name: &str, figures: &mut Figures, known: &str) -> [[f64; 3]; 3] {
    let of = |values: &mut Vec<f64>| [0.5, 0.99, 1.0].map(|share| quantile(values, share) / 1e3);
    let all = [of(&mut figures.error), of(&mut figures.apart), of(&mut figures.bound)];
    let [pair, star, bound] = all.map(|[p50, p99, max]| format!("{p50:.2} / {p99:.2} / {max:.2}"));
    println!("| {name} | {pair} | {star} | {known} | {bound} | {} |", figures.violations);
    all
}

#[test]
fn the_estimate_is_as_good_as_the_method_is_known_to_be() {
    println!("| us, p50 / p99 / max | pair | two of five | known | bound | violations |");
    for rate in [1, 4] {
        for (scene, known) in SCENES {
            // The other figures are of windows of 60 s, for comparison.
            if scene.window_s != 60 {
                let mut figures = Scene { rate, window_s: 60, ..scene }.run(7);
                line(&format!("{}, {rate}/s, 60 s", scene.name), &mut figures, "");
            }
            let mut figures = Scene { rate, ..scene }.run(7);
            let name = format!("{}, {rate}/s, {} s", scene.name, scene.window_s);
            let [_, star, bound] = line(&name, &mut figures, &format!("{known:?}"));
            assert_eq!(figures.violations, 0, "{name}");
            for (ours, known) in star.into_iter().zip(known) {
                assert!(ours < 2.0 * known, "{name}: {ours} us, known is {known}");
            }
            let propagation = f64::midpoint(scene.base_us[0], scene.base_us[1]);
            let allowed = propagation + 0.5 * scene.jitter_us + 25.0;
            assert!(bound[1] < allowed, "{name}: a bound of {} us", bound[1]);
        }
    }
}

#[test]
fn the_bound_is_as_small_as_the_method_is_known_to_give() {
    println!("| us, p50 / p99 / max | pair | two of five | known | bound | violations |");
    for (assumed_ppb, known) in BOUNDS {
        for (rate, known) in [1, 4].into_iter().zip(known) {
            let mut figures = Scene { rate, assumed_ppb, ..PLAIN }.run(11);
            let name = format!("{assumed_ppb} ppb, {rate}/s");
            let [_, _, bound] = line(&name, &mut figures, &known.to_string());
            assert_eq!(figures.violations, 0, "{name}");
            assert!(bound[0] < 1.1 * known, "{name}: {} us, known is {known}", bound[0]);
            assert!(bound[1] < 1.5 * known, "{name}: {} us, known is {known}", bound[1]);
        }
    }
}
