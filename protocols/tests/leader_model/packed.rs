//! How a state is hashed. A hasher takes as long for one byte as for eight, and a state is some thousand fields of a
//! byte each; most of the time of a search would go there.

use std::hash::Hasher;

/// More bytes than a state has.
const SIZE: usize = 2048;

/// Collects bytes, which another hasher gets at once.
pub(crate) struct Packed {
    bytes: [u8; SIZE],
    length: usize,
}

impl Packed {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; SIZE], length: 0 }
    }

    /// Hands them on.
    pub(crate) fn end(&self, hasher: &mut impl Hasher) {
        hasher.write(&self.bytes[..self.length]);
        hasher.write_usize(self.length);
    }
}

impl Hasher for Packed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    /// Without a branch, which the processor would guess wrongly now and then.
    fn write_u8(&mut self, byte: u8) {
        self.bytes[self.length % SIZE] = byte;
        self.length = self.length.wrapping_add(1);
    }

    /// Which variant of an enum it is.
    fn write_isize(&mut self, variant: isize) {
        self.write_u8(u8::try_from(variant).expect("few variants"));
    }

    /// How long an array is.
    fn write_usize(&mut self, length: usize) {
        self.write_u8(u8::try_from(length).expect("short arrays"));
    }

    fn finish(&self) -> u64 {
        unreachable!("the other hasher has the hash")
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    /// What another hasher gets.
    #[derive(Default)]
    struct Written(Vec<u8>);

    impl Hasher for Written {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend(bytes);
        }

        fn write_usize(&mut self, length: usize) {
            self.write_u8(u8::try_from(length).expect("a short state"));
        }

        fn finish(&self) -> u64 {
            unreachable!("nobody asks")
        }
    }

    fn written(value: impl Hash) -> Vec<u8> {
        let mut packed = Packed::new();
        value.hash(&mut packed);
        let mut written = Written::default();
        packed.end(&mut written);
        written.0
    }

    #[test]
    fn every_byte_counts_and_so_does_its_place() {
        assert_eq!(written((1_u8, Some(2_u8), [true; 2])), [1, 1, 2, 2, 1, 1, 6]);
        assert_eq!(written([[9_u8; 2]; 2]), [2, 2, 9, 9, 2, 9, 9, 7]);
        assert_eq!(written((0_u8, 5_u8)), [0, 5, 2]);
        assert_eq!(written(5_u8), [5, 1]);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_state_that_is_too_long_is_no_state_cut_short() {
        written([[0_u8; 255]; 9]);
    }
}
