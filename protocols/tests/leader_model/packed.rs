//! How a state is hashed. A hasher takes as long for one byte as for eight, and a state is some thousand fields of a
//! byte each; most of the time of a search would go there.

use std::hash::Hasher;

/// Hands bytes on to another hasher, eight at a time.
pub(crate) struct Packed<'a, H> {
    hasher: &'a mut H,
    word: u64,
    filled: u8,
}

impl<'a, H: Hasher> Packed<'a, H> {
    pub(crate) fn into(hasher: &'a mut H) -> Self {
        Self { hasher, word: 0, filled: 0 }
    }

    /// Hands on what is left, and how much it is.
    pub(crate) fn end(self) {
        self.hasher.write_u64(self.word);
        self.hasher.write_u8(self.filled);
    }
}

impl<H: Hasher> Hasher for Packed<'_, H> {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.word = self.word << 8 | u64::from(byte);
        self.filled += 1;
        if self.filled == 8 {
            self.hasher.write_u64(self.word);
            (self.word, self.filled) = (0, 0);
        }
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

    /// What came through, as words.
    #[derive(Default)]
    struct Words(Vec<u64>);

    impl Hasher for Words {
        fn write(&mut self, _: &[u8]) {
            unreachable!("there are words alone")
        }

        fn write_u64(&mut self, word: u64) {
            self.0.push(word);
        }

        fn write_u8(&mut self, filled: u8) {
            self.0.push(filled.into());
        }

        fn finish(&self) -> u64 {
            unreachable!("nobody asks")
        }
    }

    fn words(value: impl Hash) -> Vec<u64> {
        let mut words = Words::default();
        let mut packed = Packed::into(&mut words);
        value.hash(&mut packed);
        packed.end();
        words.0
    }

    #[test]
    fn every_byte_counts_and_so_does_its_place() {
        assert_eq!(words((1_u8, Some(2_u8), [true; 2])), [0x01_01_02_02_01_01, 6]);
        assert_eq!(words([[9_u8; 3]; 3])[..], [0x03_03_09_09_09_03_09_09, 0x09_03_09_09_09, 5]);
        assert_ne!(words((0_u8, 5_u8)), words(5_u8));
    }
}
