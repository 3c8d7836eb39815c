//! Tables of the field, computed by the compiler.

/// The reduction polynomial x⁸ + x⁴ + x³ + x² + 1 without its leading term.
const POLYNOMIAL: u8 = 0x1d;

/// `PRODUCTS[a][b]` = a·b: 64 KiB, read by the scalar kernel and for single coefficients.
pub(super) static PRODUCTS: [[u8; 256]; 256] = products();

/// `INVERSES[a]` = a⁻¹; zero for zero.
pub(super) static INVERSES: [u8; 256] = inverses();

const fn double(a: u8) -> u8 {
    (a << 1) ^ (if a & 0x80 != 0 { POLYNOMIAL } else { 0 })
}

const fn products() -> [[u8; 256]; 256] {
    let mut table = [[0; 256]; 256];
    let mut a = 0;
    while a < 256 {
        // a·b from a·⌊b/2⌋: doubled, and a added when b is odd.
        let mut b = 1;
        while b < 256 {
            table[a][b] = double(table[a][b / 2]) ^ (if b % 2 == 1 { a as u8 } else { 0 });
            b += 1;
        }
        a += 1;
    }
    table
}

/// 2 generates the group, so that log(a⁻¹) = 255 − log(a).
const fn inverses() -> [u8; 256] {
    let mut powers = [1; 256];
    let mut exponent = 1;
    while exponent < 256 {
        powers[exponent] = double(powers[exponent - 1]);
        exponent += 1;
    }
    let mut table = [0; 256];
    let mut exponent = 0;
    while exponent < 255 {
        table[powers[exponent] as usize] = powers[255 - exponent];
        exponent += 1;
    }
    table
}
