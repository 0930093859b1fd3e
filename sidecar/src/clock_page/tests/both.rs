//! The page and the API show one time.

use super::*;
use crate::group::TimeNow;

/// Each map is behind the one before, as after a pause in which one was missed; then another process goes on. A process that reads
/// the page and asks the API, by turns, sees one time.
#[tokio::test]
async fn time_does_not_go_back_from_the_page_to_the_api_or_from_one_process_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let clock = OsClock::default();
    let metrics = Metrics::new("orders");
    let mut latest = i64::MIN;
    let behind = |ns: i64| {
        let (raw, now) = now_ns();
        let mut map = synchronised(raw, now - ns);
        map.fresh_for_ns = u64::MAX / 2;
        map
    };
    for process in 0..2 {
        let (mut group, _slot) = slot::open("orders", "shop-0", clock, metrics.clone());
        let (maps, time) = watch::channel(behind(process * 3_000_000));
        group.time = time;
        let page = ClockPage::open(&path, clock).unwrap();
        let kept = tokio::spawn(page.keep(group.clone(), metrics.clone()));
        let reader = Reader::open(&path).unwrap();
        for read in 0..60 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if read == 30 {
                maps.send_replace(behind((process + 1) * 3_000_000));
            }
            let on_page = || {
                let reading = reader.now();
                assert_eq!(reading.status, Status::Synchronised);
                reading.time_ns
            };
            let by_api = || {
                let TimeNow { raw, reading, .. } = group.read_time();
                let apart = group.time.borrow().now_ns(raw.0).abs_diff(reading.now_ns);
                assert!(reading.error_ns.is_some_and(|error_ns| apart <= error_ns), "{reading:?}");
                reading.now_ns
            };
            for now in [on_page(), by_api(), on_page(), by_api()] {
                assert!(now >= latest, "{} ns back, read {read} of {process}", latest - now);
                latest = now;
            }
        }
        kept.abort();
        assert!(kept.await.expect_err("it was ended").is_cancelled());
    }
}

/// The page of another group's time, which was 400 ms later: what it states and what the API states is nothing, until this
/// clock has passed that.
#[tokio::test]
async fn nothing_is_known_while_the_page_has_stated_a_later_time_than_this_clock_can_be_slewed_to()
{
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    let clock = OsClock::default();
    let metrics = Metrics::new("orders");
    let mut seen = i64::MIN;
    let mut was_unknown = 0;
    for behind_ns in [0, 400_000_000] {
        let (mut group, _slot) = slot::open("orders", "shop-0", clock, metrics.clone());
        let (raw, now) = now_ns();
        let map = ClockMap { fresh_for_ns: u64::MAX / 2, ..synchronised(raw, now - behind_ns) };
        let (_maps, time) = watch::channel(map);
        group.time = time;
        let page = ClockPage::open(&path, clock).unwrap();
        let kept = tokio::spawn(page.keep(group.clone(), metrics.clone()));
        let reader = Reader::open(&path).unwrap();
        let mut known = 0;
        while known < 30 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            for _ in 0..2 {
                let page = reader.now();
                let api = group.read_time().reading;
                let on_page = (page.status != Status::Unknown).then_some(page.time_ns);
                let by_api = (api.state != State::Unsynchronised).then_some(api.now_ns);
                assert_eq!(by_api.is_some(), api.error_ns.is_some());
                for now in [on_page, by_api].into_iter().flatten() {
                    assert!(now >= seen, "{} ns back, after {was_unknown} readings", seen - now);
                    seen = now;
                }
                was_unknown += u32::from(by_api.is_none());
                known += u32::from(by_api.is_some() && on_page.is_some());
            }
        }
        kept.abort();
        assert!(kept.await.expect_err("it was ended").is_cancelled());
    }
    assert!(was_unknown > 0);
}

/// The page states nothing while the error is large, and the API does. The next map is behind what that has shown.
#[tokio::test]
async fn time_does_not_go_back_from_the_api_to_a_page_that_stated_nothing_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let clock = OsClock::default();
    let metrics = Metrics::new("orders");
    let (mut group, _slot) = slot::open("orders", "shop-0", clock, metrics.clone());
    let (raw, now) = now_ns();
    let mut vague = synchronised(raw, now);
    vague.known.bound.error_ns = 2 * ERROR_MAX_NS;
    let (maps, time) = watch::channel(vague);
    group.time = time;
    let page = ClockPage::open(&folder.path().join("page"), clock).unwrap();
    let kept = tokio::spawn(page.keep(group.clone(), metrics.clone()));
    let reader = Reader::open(folder.path().join("page")).unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(reader.now().status, Status::Unknown);
    let shown = group.read_time().reading;
    assert!(shown.error_ns.is_some_and(|error_ns| error_ns >= 2 * ERROR_MAX_NS), "{shown:?}");
    let (raw, now) = now_ns();
    maps.send_replace(synchronised(raw, now - 60_000_000));
    let stated = loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let page = reader.now();
        if page.status != Status::Unknown {
            break page.time_ns;
        }
    };
    assert!(stated >= shown.now_ns, "{} ns back", shown.now_ns - stated);
    kept.abort();
}
