//! A code read from a picture of its QR symbol: a PNG or JPEG file, a photograph too.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use quircs::Quirc;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The largest file that is read, in bytes.
const LARGEST_FILE: u64 = 64 << 20;
/// The widest and highest picture that is read, in pixels: beyond any telephone's.
const LARGEST_SIDE: usize = 12_500;
/// Bytes that a decoder may take.
const MEMORY: usize = 512 << 20;
/// Sides, in pixels, to which a picture is brought before a symbol is looked for: a photograph's
/// noise goes, and a small symbol in a large picture stays readable.
const SIDES: [usize; 3] = [1_000, 2_000, 4_000];

/// A picture in shades of grey, line by line.
struct Grey {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// Reads the text of the first QR symbol of a picture that `wanted` takes.
///
/// # Errors
/// Where there is no picture, or no such symbol in it.
pub(super) fn read<T>(
    file: &Path,
    wanted: impl Fn(&str) -> Result<T, String>,
) -> Result<T, String> {
    let failed = |what: String| format!("{}: {what}", file.display());
    let mut bytes = Vec::new();
    let opened = File::open(file).and_then(|open| open.take(LARGEST_FILE).read_to_end(&mut bytes));
    opened.map_err(|error| failed(error.to_string()))?;
    find(&bytes, wanted).map_err(failed)
}

fn find<T>(bytes: &[u8], wanted: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    let grey = match bytes {
        [0x89, b'P', b'N', b'G', ..] => of_png(bytes)?,
        [0xFF, 0xD8, ..] => of_jpeg(bytes)?,
        _ => return Err("is no PNG and no JPEG picture".into()),
    };
    let mut problem =
        "there is no QR symbol in it that can be read: take it sharper, straighter, larger";
    let mut refused = None;
    let mut tried = 0;
    for side in SIDES {
        let factor = grey.width.max(grey.height).div_ceil(side).max(1);
        if std::mem::replace(&mut tried, factor) == factor {
            continue;
        }
        let smaller = grey.smaller(factor);
        let mut reader = Quirc::default();
        for symbol in reader.identify(smaller.width, smaller.height, &smaller.pixels) {
            let text = symbol.ok().and_then(|symbol| symbol.decode().ok());
            match text.map(|text| wanted(&String::from_utf8_lossy(&text.payload))) {
                Some(Ok(found)) => return Ok(found),
                Some(Err(why)) => {
                    refused = Some(format!("the QR symbol in it is no code: it {why}"));
                }
                None => {
                    problem =
                        "there is a QR symbol in it, but it cannot be read: take it sharper, larger"
                }
            }
        }
    }
    Err(refused.unwrap_or_else(|| problem.into()))
}

impl Grey {
    /// Takes the mean of squares of `factor` pixels' side.
    fn smaller(&self, factor: usize) -> Self {
        let (width, height) = (self.width / factor, self.height / factor);
        let mean = |at: usize| {
            let (x, y) = (at % width * factor, at / width * factor);
            let row = |line: usize| {
                let from = (y + line) * self.width + x;
                self.pixels[from..from + factor].iter().map(|pixel| u64::from(*pixel)).sum::<u64>()
            };
            let sum: u64 = (0..factor).map(row).sum();
            (sum / (factor * factor) as u64) as u8
        };
        Self { width, height, pixels: (0..width * height).map(mean).collect() }
    }
}

fn of_png(bytes: &[u8]) -> Result<Grey, String> {
    let failed = |error: png::DecodingError| format!("read the PNG: {error}");
    let limits = png::Limits { bytes: MEMORY };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(failed)?;
    let size = reader.output_buffer_size().filter(|size| *size <= MEMORY);
    let mut buffer = vec![0; size.ok_or("is too large a picture")?];
    let info = reader.next_frame(&mut buffer).map_err(failed)?;
    let (width, height) = (info.width as usize, info.height as usize);
    let samples = info.color_type.samples();
    let has_alpha = samples % 2 == 0;
    let grey = |pixel: &[u8]| {
        let (colours, alpha) =
            if has_alpha { pixel.split_at(samples - 1) } else { (pixel, &[][..]) };
        let mean =
            colours.iter().map(|value| u32::from(*value)).sum::<u32>() / colours.len() as u32;
        let alpha = u32::from(alpha.first().copied().unwrap_or(255));
        // What is clear is white.
        ((mean * alpha + 255 * (255 - alpha)) / 255) as u8
    };
    let pixels: Vec<u8> = buffer.chunks_exact(samples).take(width * height).map(grey).collect();
    checked(width, height, pixels)
}

fn of_jpeg(bytes: &[u8]) -> Result<Grey, String> {
    let options = DecoderOptions::default()
        .set_max_width(LARGEST_SIDE)
        .set_max_height(LARGEST_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::Luma);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
    let pixels = decoder.decode().map_err(|error| format!("read the JPEG: {error}"))?;
    let (width, height) = decoder.dimensions().ok_or("the JPEG has no size")?;
    checked(width, height, pixels)
}

fn checked(width: usize, height: usize, pixels: Vec<u8>) -> Result<Grey, String> {
    let fits = (1..=LARGEST_SIDE).contains(&width) && (1..=LARGEST_SIDE).contains(&height);
    if fits && pixels.len() == width * height {
        return Ok(Grey { width, height, pixels });
    }
    Err(format!("a picture of {width} times {height} pixels is not read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::code::{Code, tests::code};
    use crate::pair::qr::Symbol;

    #[test]
    fn a_code_is_read_back_from_its_picture_and_from_a_bad_copy_of_it() {
        let code = code(&["192.0.2.1:14700", "[2001:db8::5]:1", "station.example.org:14700"]);
        let png = Symbol::of(&code.text().unwrap()).unwrap().png().unwrap();
        assert_eq!(find(&png, Code::read).as_ref(), Ok(&code));

        let mut bad = of_png(&png).unwrap();
        for (at, pixel) in bad.pixels.iter_mut().enumerate() {
            *pixel = (*pixel / 3 + 60).wrapping_add((at * 7 % 41) as u8);
        }
        let mut copy = Vec::new();
        let mut encoder = png::Encoder::new(&mut copy, bad.width as u32, bad.height as u32);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.write_header().unwrap().write_image_data(&bad.pixels).unwrap();
        assert_eq!(find(&copy, Code::read).as_ref(), Ok(&code));
    }

    #[test]
    fn what_is_no_picture_of_a_code_is_told_apart() {
        let png = Symbol::of("HTTPS://EXAMPLE.ORG").unwrap().png().unwrap();
        assert!(find(&png, Code::read).unwrap_err().contains("begin with FULMAR1"));
        let failed = |bytes: &[u8]| find(bytes, Code::read).unwrap_err();
        assert!(failed(b"hello").contains("no PNG and no JPEG"));
        assert!(failed(&png[..40]).contains("read the PNG"));
        assert!(failed(&[0xFF, 0xD8, 0xFF, 0xE0, 0, 0]).contains("read the JPEG"));
        let mut blank = Vec::new();
        let encoder = png::Encoder::new(&mut blank, 300, 200);
        encoder.write_header().unwrap().write_image_data(&[255; 300 * 200]).unwrap();
        assert!(failed(&blank).contains("no QR symbol"), "{}", failed(&blank));
    }
}
