//! A code as a QR symbol: in the terminal, as a PNG or an SVG file.

use std::fmt::Write as _;

use qrcode::render::unicode::Dense1x2;
use qrcode::{Color, EcLevel, QrCode};
use zeroize::Zeroizing;

/// Modules around a symbol that stay white: the least that the standard of QR symbols (ISO/IEC
/// 18004) has.
const QUIET: usize = 4;
/// Pixels of a module in a picture.
const SCALE: usize = 8;

/// A symbol that holds one code.
pub(super) struct Symbol {
    qr: QrCode,
}

impl Symbol {
    /// Makes the symbol; codes are in capitals, which take little room in it.
    ///
    /// # Errors
    /// Where the code is longer than any symbol.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let qr = QrCode::with_error_correction_level(text, EcLevel::M);
        qr.map(|qr| Self { qr }).map_err(|error| format!("make a QR symbol of the code: {error}"))
    }

    /// Draws it for a terminal of any colours.
    pub(super) fn for_terminal(&self) -> Zeroizing<String> {
        let (dark, light) = (Dense1x2::Light, Dense1x2::Dark);
        let drawn = self.qr.render::<Dense1x2>().dark_color(dark).light_color(light).build();
        let mut shown = Zeroizing::new(String::with_capacity(2 * drawn.len()));
        for line in Zeroizing::new(drawn).lines() {
            // White on black, whatever the terminal has.
            let _ = writeln!(shown, "\x1b[97;40m{line}\x1b[0m");
        }
        shown
    }

    /// Draws it as a picture.
    ///
    /// # Errors
    /// Those of the encoder.
    pub(super) fn png(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        let side = self.side() * SCALE;
        let is_dark = |x: usize, y: usize| self.is_dark(x / SCALE, y / SCALE);
        let pixel = |at: usize| if is_dark(at % side, at / side) { 0 } else { 255_u8 };
        let pixels: Zeroizing<Vec<u8>> = Zeroizing::new((0..side * side).map(pixel).collect());
        let mut file = Zeroizing::new(Vec::new());
        let mut encoder = png::Encoder::new(&mut *file, side as u32, side as u32);
        encoder.set_color(png::ColorType::Grayscale);
        let failed = |error: png::EncodingError| format!("draw the QR symbol: {error}");
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(&pixels).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(file)
    }

    /// Draws it as a drawing of any size.
    pub(super) fn svg(&self) -> Zeroizing<String> {
        let (side, path) = (self.side(), self.path());
        Zeroizing::new(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" \
             shape-rendering=\"crispEdges\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <path d=\"{}\"/>\n</svg>\n",
            *path
        ))
    }

    /// What is dark, as the path of a drawing in which a module has the side 1.
    pub(super) fn path(&self) -> Zeroizing<String> {
        let side = self.side();
        let mut path = Zeroizing::new(String::new());
        for (x, y) in (0..side * side).map(|at| (at % side, at / side)) {
            if self.is_dark(x, y) {
                let _ = write!(path, "M{x} {y}h1v1h-1z");
            }
        }
        path
    }

    /// Modules of a side, with what stays white.
    pub(super) fn side(&self) -> usize {
        self.qr.width() + 2 * QUIET
    }

    fn is_dark(&self, x: usize, y: usize) -> bool {
        let inside = |at: usize| at.checked_sub(QUIET).filter(|at| *at < self.qr.width());
        let (Some(x), Some(y)) = (inside(x), inside(y)) else { return false };
        self.qr[(x, y)] == Color::Dark
    }
}
