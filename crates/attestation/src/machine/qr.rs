//! A digest as a QR code (ISO/IEC 18004) in ASCII, for a console that nobody can copy from.
//!
//! One size is enough: 64 hexadecimal digits, in capitals, are alphanumeric characters of a code of version 3 with error correction
//! level L (77 of them fit). Its mask is always the first: readers take any, and a digest is as good as random.

use std::fmt;

use crate::ek::EkDigest;

/// Modules of a side: version 3.
const SIDE: usize = 29;
/// Bytes that carry data, of all 70.
const DATA: usize = 55;
/// Bytes that correct errors: level L.
const CORRECTION: usize = 15;
/// Light modules around the code.
const QUIET: usize = 4;
/// Level L and mask 0 with their own correction and mask (ISO/IEC 18004, annex C).
const FORMAT: u16 = 0x77c4;
/// Numbers of the characters that digits of a digest are (table 5): 0 to 9, A to F.
const DIGITS: &str = "0123456789ABCDEF";

/// The modules: dark, light, or not placed yet.
type Modules = [[Option<bool>; SIDE]; SIDE];

/// The QR code of a digest. Shown, light modules are `##` and dark ones blank, as consoles have light letters on dark ground: 74
/// columns, 37 lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EkQr(Modules);

impl EkDigest {
    /// Its digits in capitals as a QR code.
    pub fn qr(&self) -> EkQr {
        let mut modules = patterns();
        let mut bits = codewords(&self.to_string().to_uppercase())
            .into_iter()
            .flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1 == 1));
        // Two columns at a time from the right, up and down by turns; the one with the timing pattern is no column.
        for (pair, right) in (1..SIDE).rev().step_by(2).enumerate() {
            let right = if right > 6 { right } else { right - 1 };
            for step in 0..SIDE {
                let y = if pair % 2 == 0 { SIDE - 1 - step } else { step };
                for x in [right, right - 1] {
                    if let Some(free @ None) = modules.get_mut(y).and_then(|row| row.get_mut(x)) {
                        *free = Some(bits.next().unwrap_or_default() ^ ((x + y) % 2 == 0));
                    }
                }
            }
        }
        EkQr(modules)
    }
}

impl fmt::Display for EkQr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quiet = "##".repeat(SIDE + 2 * QUIET);
        let edge = "##".repeat(QUIET);
        (0..QUIET).try_for_each(|_| writeln!(f, "{quiet}"))?;
        for row in &self.0 {
            let row: String = row.iter().map(|module| if *module == Some(true) { "  " } else { "##" }).collect();
            writeln!(f, "{edge}{row}{edge}")?;
        }
        (0..QUIET).try_for_each(|_| writeln!(f, "{quiet}"))
    }
}

/// Everything but the data: finders with their separators, timing, alignment, format.
fn patterns() -> Modules {
    let mut modules = [[None; SIDE]; SIDE];
    let mut set = |x: usize, y: usize, dark: bool| {
        if let Some(module) = modules.get_mut(y).and_then(|row| row.get_mut(x)) {
            *module = Some(dark);
        }
    };
    for at in 0..SIDE {
        set(at, 6, at % 2 == 0);
        set(6, at, at % 2 == 0);
    }
    // Each ring around a middle is dark or light; what falls outside is no module.
    for (middle_x, middle_y) in [(3, 3), (SIDE - 4, 3), (3, SIDE - 4)] {
        for (x, y) in (0..9_usize).flat_map(|x| (0..9_usize).map(move |y| (x, y))) {
            let ring = x.abs_diff(4).max(y.abs_diff(4));
            if let (Some(x), Some(y)) = ((middle_x + x).checked_sub(4), (middle_y + y).checked_sub(4)) {
                set(x, y, ring != 2 && ring != 4);
            }
        }
    }
    for (x, y) in (0..5_usize).flat_map(|x| (0..5_usize).map(move |y| (x, y))) {
        let ring = x.abs_diff(2).max(y.abs_diff(2));
        set(SIDE - 9 + x, SIDE - 9 + y, ring != 1);
    }
    for bit in 0..15 {
        let dark = (FORMAT >> bit) & 1 == 1;
        let beside = match bit {
            0..=5 => (8, bit),
            6..=7 => (8, bit + 1),
            8 => (7, 8),
            _ => (14 - bit, 8),
        };
        set(beside.0, beside.1, dark);
        if bit < 8 { set(SIDE - 1 - bit, 8, dark) } else { set(8, SIDE - 15 + bit, dark) }
    }
    set(8, SIDE - 8, true);
    modules
}

/// The bytes that are placed: the text, filled up, and their correction.
fn codewords(text: &str) -> Vec<u8> {
    // Mode "alphanumeric", and how many characters: 4 and 9 bits.
    let mut bits: Vec<bool> = Vec::with_capacity(DATA * 8);
    let mut push = |value: usize, count: usize| bits.extend((0..count).rev().map(|bit| (value >> bit) & 1 == 1));
    push(0b0010, 4);
    push(text.len(), 9);
    let number = |c: u8| DIGITS.bytes().position(|digit| digit == c).unwrap_or_default();
    for pair in text.as_bytes().chunks(2) {
        match *pair {
            [one, other] => push(number(one) * 45 + number(other), 11),
            [one] => push(number(one), 6),
            _ => {}
        }
    }
    // The end of the text, and of its last byte.
    push(0, 4);
    let mut bytes: Vec<u8> = bits
        .chunks(8)
        .map(|byte| (0..8).fold(0, |value, bit| (value << 1) | u8::from(byte.get(bit) == Some(&true))))
        .collect();
    bytes.extend([0xec, 0x11].into_iter().cycle().take(DATA.saturating_sub(bytes.len())));
    let correction = remainder(&bytes);
    bytes.extend(correction);
    bytes
}

/// Reed-Solomon: what is left of the data divided by the generator of degree [`CORRECTION`] (ISO/IEC 18004, 7.5.2).
fn remainder(data: &[u8]) -> [u8; CORRECTION] {
    let mut generator = [0; CORRECTION];
    generator[CORRECTION - 1] = 1;
    let mut root = 1;
    for _ in 0..CORRECTION {
        for at in 0..CORRECTION {
            let next = generator.get(at + 1).copied().unwrap_or_default();
            if let Some(factor) = generator.get_mut(at) {
                *factor = product(*factor, root) ^ next;
            }
        }
        root = product(root, 2);
    }
    let mut left = [0; CORRECTION];
    for byte in data {
        let factor = byte ^ left[0];
        left.rotate_left(1);
        left[CORRECTION - 1] = 0;
        for (byte, of) in left.iter_mut().zip(generator) {
            *byte ^= product(of, factor);
        }
    }
    left
}

/// In the field of 256 elements with x^8 + x^4 + x^3 + x^2 + 1.
fn product(one: u8, other: u8) -> u8 {
    (0..8).rev().fold(0, |product: u8, bit| {
        let doubled = (product << 1) ^ if product & 0x80 == 0 { 0 } else { 0x1d };
        doubled ^ if (other >> bit) & 1 == 1 { one } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the Python packages `segno` 1.6.6 and `qrcode` 8.2 make of the digits alike, as version 3, level L, mask 0: SHA-256 of the
    /// modules, `1` where dark, row by row.
    const ORACLE: [(&str, &str); 2] = [
        (
            "7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f80808080808080808080808080808080",
            "6347051b6279c783acef74017660fe8468d19eabdf4d8284a11f115f315962e2",
        ),
        (
            "ef1d1f0ced68674dd0653dbea4804cfbfeb6d1dc3780ce7124ba73c71ec0a927",
            "24997f522f8949456ef1fe23638d9807c6de0229c77b64760ceecdbbfca7f3f2",
        ),
    ];

    #[test]
    fn the_codes_are_those_of_another_program() {
        for (digits, modules) in ORACLE {
            let ek = EkDigest::from_hex(digits).unwrap();
            let EkQr(ours) = ek.qr();
            let rows = ours.iter().map(|row| row.iter().map(|module| if *module == Some(true) { '1' } else { '0' }));
            let text: String = rows.flatten().collect();
            let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
            assert_eq!(hex::encode(digest), modules, "{text}");
        }
    }

    #[test]
    fn a_code_is_shown_in_ascii_within_eighty_columns_with_its_quiet_zone() {
        let shown = EkDigest::from_bytes([0xa5; 32]).qr().to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), SIDE + 2 * QUIET);
        assert!(lines.iter().all(|line| line.len() == 2 * (SIDE + 2 * QUIET) && line.starts_with("########")));
        // The corner of the first finder.
        assert_eq!(&lines[QUIET][2 * QUIET..2 * QUIET + 18], "              ####");
    }
}
