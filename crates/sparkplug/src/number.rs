//! Numbers that wrap at 256.

/// Numbers of the messages of one session (`seq`): a birth has 0, each later message of node and devices one more than the one
/// before, and 255 is followed by 0 (section 6.4.15: `seq`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sequence(u8);

impl Sequence {
    /// Begins anew: the number of a node's birth, 0.
    pub const fn birth(&mut self) -> u64 {
        self.0 = 0;
        0
    }

    /// The number of the message after the last one.
    pub const fn following(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        self.0 as u64
    }
}

/// The number by which a death is known to belong to a birth (`bdSeq`): one more for each connection, and 255 is followed by 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BirthDeath(u8);

impl BirthDeath {
    /// With this number.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number, 0 to 255.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// That of the next connection.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_wrap_at_256() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.birth(), 0);
        let numbers: Vec<u64> = (0..256).map(|_| sequence.following()).collect();
        assert_eq!((numbers[0], numbers[254], numbers[255]), (1, 255, 0));
        sequence.following();
        assert_eq!((sequence.birth(), sequence.following()), (0, 1));
        assert_eq!(BirthDeath::new(255).next(), BirthDeath::new(0));
        assert_eq!(BirthDeath::new(7).next().number(), 8);
    }
}
