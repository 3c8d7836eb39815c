//! Plain Gauss–Jordan elimination, payloads and all: slow, obvious, and sharing nothing with the
//! decoders but the multiplication table.

use fulmar_coding::gf256::{inv, mul};

/// Holds equations over `columns` symbols, reduced.
pub(crate) struct Gauss {
    columns: usize,
    rows: Vec<Vec<u8>>,
}

impl Gauss {
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds an equation; true when it is innovative.
    pub(crate) fn add(&mut self, coefficients: &[u8], payload: &[u8]) -> bool {
        let before = self.rows.len();
        let mut row = coefficients.to_vec();
        row.resize(self.columns, 0);
        row.extend_from_slice(payload);
        self.rows.push(row);
        self.reduce();
        self.rows.len() > before
    }

    /// Returns the symbol, if it is determined.
    pub(crate) fn symbol(&self, column: usize) -> Option<&[u8]> {
        let unit = |row: &&Vec<u8>| (0..self.columns).all(|c| row[c] == u8::from(c == column));
        self.rows.iter().find(unit).map(|row| &row[self.columns..])
    }

    /// Says whether a reduced equation leads with this column.
    pub(crate) fn leads(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row[..=column].iter().position(|&c| c != 0) == Some(column))
    }

    pub(crate) fn rank(&self) -> usize {
        self.rows.len()
    }

    fn reduce(&mut self) {
        let mut done = 0;
        for column in 0..self.columns {
            let Some(at) = (done..self.rows.len()).find(|&row| self.rows[row][column] != 0) else {
                continue;
            };
            self.rows.swap(done, at);
            let factor = inv(self.rows[done][column]);
            self.rows[done].iter_mut().for_each(|byte| *byte = mul(*byte, factor));
            let pivot = self.rows[done].clone();
            for (row, bytes) in self.rows.iter_mut().enumerate() {
                let factor = bytes[column];
                if row != done && factor != 0 {
                    bytes.iter_mut().zip(&pivot).for_each(|(to, &from)| *to ^= mul(from, factor));
                }
            }
            done += 1;
        }
        self.rows.truncate(done);
    }
}
