//! Tables of the field. What is small is computed by the compiler.

use std::sync::LazyLock;

/// The reduction polynomial x⁸ + x⁴ + x³ + x² + 1 without its leading term.
const POLYNOMIAL: u8 = 0x1d;

/// `PRODUCTS[a][b]` = a·b: 64 KiB, read by the scalar kernel and for single coefficients. A program
/// would carry them in its file, so they are computed where they are first needed.
pub(super) static PRODUCTS: LazyLock<Box<[[u8; 256]; 256]>> = LazyLock::new(products);

/// `INVERSES[a]` = a⁻¹; zero for zero.
pub(super) static INVERSES: [u8; 256] = inverses();

/// The products of a coefficient with the sixteen low nibbles, then with the sixteen high ones:
/// what a vector look-up by nibble needs. `NIBBLES.0[c][n]` = c·n, `NIBBLES.0[c][16 + n]` = c·16n.
pub(super) static NIBBLES: Aligned<[[u8; 32]; 256]> = Aligned(nibbles());

/// Multiplication by a coefficient as a matrix over GF(2), in the order of `gf2p8affineqb`: byte
/// 7 − i says which bits of the source add up to bit i of the product.
#[cfg(any(target_arch = "x86_64", test))]
pub(super) static MATRICES: [u64; 256] = matrices();

/// Starts on a line, so that no table of 32 bytes lies across two.
#[repr(align(64))]
pub(super) struct Aligned<T>(pub(super) T);

const fn double(a: u8) -> u8 {
    (a << 1) ^ (if a & 0x80 != 0 { POLYNOMIAL } else { 0 })
}

const fn product(a: u8, b: u8) -> u8 {
    let (mut sum, mut shifted, mut rest) = (0, a, b);
    while rest != 0 {
        if rest & 1 == 1 {
            sum ^= shifted;
        }
        shifted = double(shifted);
        rest >>= 1;
    }
    sum
}

fn products() -> Box<[[u8; 256]; 256]> {
    let mut table = Box::new([[0; 256]; 256]);
    for (a, row) in table.iter_mut().enumerate() {
        // a·b from a·⌊b/2⌋: doubled, and a added when b is odd.
        for b in 1..256 {
            row[b] = double(row[b / 2]) ^ (if b % 2 == 1 { a as u8 } else { 0 });
        }
    }
    table
}

const fn nibbles() -> [[u8; 32]; 256] {
    let mut table = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut n = 0;
        while n < 16 {
            table[c][n] = product(c as u8, n as u8);
            table[c][16 + n] = product(c as u8, 16 * n as u8);
            n += 1;
        }
        c += 1;
    }
    table
}

#[cfg(any(target_arch = "x86_64", test))]
const fn matrices() -> [u64; 256] {
    let mut table = [0; 256];
    let mut c = 0;
    while c < 256 {
        // Bit b of the source contributes c·2^b: its bit i goes to row i, column b.
        let mut b = 0;
        while b < 8 {
            let product = product(c as u8, 1 << b) as u64;
            let mut i = 0;
            while i < 8 {
                table[c] |= (product >> i & 1) << (8 * (7 - i) + b);
                i += 1;
            }
            b += 1;
        }
        c += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `gf2p8affineqb` bit by bit, as its manual defines it: bit i of the product is the parity of
    /// the source byte masked by byte 7 − i of the matrix, plus bit i of an immediate that is 0
    /// here.
    fn affine(matrix: u64, source: u8) -> u8 {
        let matrix = matrix.to_le_bytes();
        (0..8).fold(0, |product, i| {
            let parity = (matrix[7 - i] & source).count_ones() as u8 & 1;
            product | parity << i
        })
    }

    #[test]
    fn affine_matrices_multiply() {
        for c in 0..=255_u8 {
            for x in 0..=255 {
                assert_eq!(affine(MATRICES[usize::from(c)], x), product(c, x), "{c}·{x}");
            }
        }
    }

    #[test]
    fn nibble_tables_multiply() {
        for c in 0..=255_u8 {
            let table = &NIBBLES.0[usize::from(c)];
            for x in 0..=255_u8 {
                let sum = table[usize::from(x & 15)] ^ table[16 + usize::from(x >> 4)];
                assert_eq!(sum, product(c, x), "{c}·{x}");
            }
        }
    }
}
