//! Where each word is.

/// What a page begins with.
pub const MAGIC: [u8; 8] = *b"CNCLVCLK";

/// The length of the file in bytes.
pub const SIZE: usize = 4096;

/// The version of the layout.
pub const LAYOUT: u16 = 1;

/// The flag of a page whose writer has a raw clock with an injected fault. Tests alone make it.
pub const INJECTED_FAULT: u16 = 1;

/// How many words the payload has.
pub(crate) const PAYLOAD: usize = 25;

/// The place of the sequence among the words of a page.
pub(crate) const SEQUENCE: usize = 2;

/// The place of the first word of the payload.
pub(crate) const FIRST: usize = 3;

/// The name of each field and its offset in bytes, in order.
pub const FIELDS: [(&str, usize); 31] = [
    ("magic", 0),
    ("size", 8),
    ("layout", 12),
    ("flags", 14),
    ("seq", 16),
    ("raw_a", 24),
    ("ns_a", 32),
    ("rate_a", 40),
    ("raw_b", 48),
    ("ns_b", 56),
    ("rate_b", 64),
    ("raw_c", 72),
    ("ns_c", 80),
    ("rate_c", 88),
    ("bound_raw", 96),
    ("bound_ns", 104),
    ("growth", 112),
    ("later_raw", 120),
    ("later_growth", 128),
    ("stale_after_raw", 136),
    ("void_after_raw", 144),
    ("status", 152),
    ("epoch", 160),
    ("members", 168),
    ("used", 172),
    ("max_drift_ppb", 176),
    ("wander_ppb", 184),
    ("utc_offset_ns", 192),
    ("utc_bound_ns", 200),
    ("clock_domain", 208),
    ("published_raw", 216),
];

/// The second word of a page: size, layout and flags.
pub(crate) const fn header(flags: u16) -> u64 {
    SIZE as u64 | (LAYOUT as u64) << 32 | (flags as u64) << 48
}

/// The version of the layout in the second word of a page.
pub(crate) const fn layout_of(header: u64) -> u16 {
    let [_, _, _, _, low, high, _, _] = header.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// Whether size, layout and flags are those that this crate knows.
pub(crate) fn is_known(found: u64) -> bool {
    [header(0), header(INJECTED_FAULT)].contains(&found)
}
