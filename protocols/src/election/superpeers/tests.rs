//! The worked examples of the source, and the laws of the selection.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Members with names as a stateful set gives them.
fn ids(members: u32) -> Vec<Key> {
    (0..members).map(|member| Key::of(&format!("orders-{member}"))).collect()
}

fn names() -> impl Iterator<Item = Key> {
    (0..4_096).map(|number| Key::of(&format!("lock-{number}")))
}

#[test]
fn of_eight_bits_three_ones_keep_the_three_leftmost() {
    assert_eq!(prefix(0b1011_0101, 8, 3), 0b1010_0000);
    assert_eq!(prefix(0b1011_0101, 8, 3), 0b1011_0101 & 0b1110_0000);
    assert_eq!((prefix(0b1011_0101, 8, 0), prefix(0b1011_0101, 8, 8)), (0, 0b1011_0101));
    assert_eq!((prefix(u64::MAX, 64, 0), prefix(u64::MAX, 64, 64)), (0, u64::MAX));
}

#[test]
fn so_many_members_have_an_id_that_is_a_prefix_as_the_source_expects() {
    let examples = [(64, 8, 3), (256, 8, 3), (100, 8, 3), (1_000, 16, 5)];
    let stated = [2.0, 8.0, 3.125, 0.488_281_25];
    assert_eq!(
        examples.map(|(n, m, k)| expected(n, m, k)).map(f64::to_bits),
        stated.map(f64::to_bits)
    );
    // By counting, over 20,000 groups with ids as chance has it: within five standard deviations of the mean of so many.
    let mut random = Random::new(1);
    for (n, m, k) in examples {
        let groups = 20_000;
        let found = (0..groups * n).filter(|_| {
            let id = random.draw() >> (BITS - m);
            prefix(id, m, k) == id
        });
        let found = u32::try_from(found.count()).expect("small");
        let mean = f64::from(found) / f64::from(groups);
        let deviation = (expected(n, m, k) / f64::from(groups)).sqrt();
        assert!((mean - expected(n, m, k)).abs() < 5.0 * deviation, "{n}, {m}, {k}: {mean}");
    }
}

#[test]
fn five_superpeers_reserve_three_bits_and_are_eight() {
    assert_eq!(reserved(50, 10), 3);
    assert_eq!(Superpeers::among(&ids(50), 10).all().len(), 8);
}

#[test]
fn there_are_no_more_prefixes_than_members() {
    assert_eq!([1, 2, 3, 4, 6, 7, 8].map(|members| reserved(members, 100)), [0, 1, 1, 2, 2, 2, 3]);
    assert_eq!([1, 10, 11, 20, 21, 256].map(|members| reserved(members, 10)), [0, 0, 1, 1, 2, 5]);
    assert_eq!(reserved(0, 10), 0);
    assert_eq!(Superpeers::among(&[], 10).responsible(Key(0)), None);
}

#[test]
fn every_key_has_one_superpeer_and_every_superpeer_one_prefix_in_every_size() {
    for members in 1..=256 {
        for share in [1, 10, 37, 100] {
            let ids = ids(members);
            let superpeers = Superpeers::among(&ids, share);
            let k = reserved(members, share);
            let wanted = (members * u32::from(share)).div_ceil(100);
            let all: BTreeSet<MemberId> = superpeers.all().iter().copied().collect();
            assert_eq!((all.len(), superpeers.all().len()), (1 << k, 1 << k));
            let most = 1 << members.ilog2();
            let found = u32::try_from(all.len()).expect("small");
            assert!(found >= wanted.min(most) && found < 2 * wanted);
            assert!(all.iter().all(|member| member.0 < members));
            for slot in 0..1_u64 << k {
                let (first, last) = first_and_last(slot, k);
                let responsible = superpeers.all()[usize::try_from(slot).expect("small")];
                assert_eq!(
                    [first, last].map(|key| superpeers.responsible(key)),
                    [Some(responsible); 2]
                );
            }
        }
    }
}

/// The keys with which a prefix begins and ends.
fn first_and_last(slot: u64, k: u32) -> (Key, Key) {
    let first = slot.checked_shl(BITS - k).unwrap_or(0);
    (Key(first), Key(first | u64::MAX.checked_shr(k).unwrap_or(0)))
}

/// Members list one another by rank, and a next view may rank them otherwise.
#[test]
fn members_agree_whatever_the_order_in_which_they_list_each_other() {
    for members in [1, 2, 3, 7, 50, 256] {
        let ids = ids(members);
        let turned: Vec<Key> = ids.iter().rev().copied().collect();
        let of = |ids: &[Key]| {
            let superpeers = Superpeers::among(ids, 10);
            let id = |member: MemberId| ids[member.0 as usize];
            names().map(|name| superpeers.responsible(name).map(id)).collect::<Vec<_>>()
        };
        assert_eq!(of(&ids), of(&turned), "{members}");
    }
}

#[test]
fn of_equal_ids_the_lower_rank_is_first() {
    let superpeers = Superpeers::among(&[Key(5); 4], 100);
    assert_eq!(superpeers.all(), [0, 1, 2, 3].map(MemberId));
}

/// The first superpeer of a prefix is as the source has it, unless that member has another prefix.
#[test]
fn a_prefix_falls_to_the_first_member_at_or_after_it_that_has_none() {
    let quarter = 1 << (BITS - 2);
    let ids = [Key(quarter), Key(1), Key(quarter + 1), Key(2)];
    let superpeers = Superpeers::among(&ids, 100);
    // The third and the fourth prefix have nobody at or after them, and go on at the circle's start.
    assert_eq!(superpeers.all(), [1, 0, 3, 2].map(MemberId));
}

/// By names that differ in their last letters, as those of pods and of locks do.
#[test]
fn names_are_spread_evenly_although_they_begin_alike() {
    for members in [16, 50, 256] {
        let superpeers = Superpeers::among(&ids(members), 10);
        let mut load: BTreeMap<MemberId, u32> = BTreeMap::new();
        for name in names() {
            *load.entry(superpeers.responsible(name).expect("somebody")).or_default() += 1;
        }
        let mean = 4_096 >> reserved(members, 10);
        assert_eq!(load.len(), superpeers.all().len());
        // Five standard deviations of so many throws.
        let five = f64::from(mean).sqrt() * 5.0;
        for (member, load) in load {
            assert!(f64::from(load.abs_diff(mean)) < five, "{member} of {members}: {load}");
        }
    }
    let bare = |name: &str| fnv_1a(name.bytes()) >> (BITS - 8);
    assert_eq!(bare("lock-1"), bare("lock-2"), "FNV-1a alone does not spread them");
}

/// What does not change from version to version.
#[test]
fn ids_are_these() {
    assert_eq!(Key::of("orders-0"), Key(0xd73d_490e_85a9_bc5d));
    assert_eq!(Key::of_rank(MemberId(0)), Key(0xe220_a839_7b1d_cdaf));
}

/// Names move from a member that leaves, and from one whose prefix falls to another for that reason.
#[test]
fn when_a_superpeer_leaves_its_prefix_moves_and_when_another_leaves_nothing_does() {
    for members in [10, 50, 256] {
        let all = ids(members);
        let before = Superpeers::among(&all, 10);
        let mut moved_most = 0;
        for gone in 0..members {
            let mut left = all.clone();
            left.remove(gone as usize);
            let after = Superpeers::among(&left, 10);
            assert_eq!(after.all().len(), before.all().len(), "{gone} of {members}");
            let of = |superpeers: &Superpeers, ids: &[Key]| -> Vec<Key> {
                superpeers.all().iter().map(|member| ids[member.0 as usize]).collect()
            };
            let (was, is) = (of(&before, &all), of(&after, &left));
            let moved = was.iter().zip(&is).filter(|(was, is)| was != is).count();
            if before.all().contains(&MemberId(gone)) {
                assert!(moved >= 1);
                moved_most = moved_most.max(moved);
            } else {
                assert_eq!(moved, 0, "{gone} of {members}");
            }
        }
        assert!(moved_most <= 3, "{moved_most} of {members}");
    }
}

/// Two prefixes become one, which one of their two superpeers has at most.
#[test]
fn when_the_number_of_superpeers_changes_half_of_the_prefixes_move() {
    for members in [11, 21, 41, 81, 161] {
        let all = ids(members);
        let before = Superpeers::among(&all, 10);
        let half = before.all().len() / 2;
        let mut least = usize::MAX;
        for gone in 0..members {
            let mut left = all.clone();
            left.remove(gone as usize);
            let after = Superpeers::among(&left, 10);
            assert_eq!(after.all().len(), half, "{gone} of {members}");
            let of = |superpeers: &Superpeers, ids: &[Key], key: Key| {
                superpeers.responsible(key).map(|member| ids[member.0 as usize])
            };
            let k = reserved(members, 10);
            let keys = (0..1_u64 << k).map(|slot| first_and_last(slot, k).0);
            let moved = keys.filter(|key| of(&before, &all, *key) != of(&after, &left, *key));
            let moved = moved.count();
            assert!((half..=half + 3).contains(&moved), "{gone} of {members}: {moved}");
            least = least.min(moved);
        }
        assert_eq!(least, half, "{members}");
    }
}
