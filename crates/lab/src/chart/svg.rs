//! Writes SVG elements. Knows nothing of what they mean.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::markup::safe;

/// Says which end of a text is at its position.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Says how a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    size: f64,
    bold: bool,
    colour: &'static str,
    anchor: Anchor,
}

impl Text {
    /// The picture's title.
    pub(super) fn heading() -> Self {
        Self { size: 21.0, bold: true, colour: "#111", anchor: Anchor::Start }
    }

    /// A panel's title.
    pub(super) fn strong() -> Self {
        Self { size: 14.0, bold: true, colour: "#111", anchor: Anchor::Start }
    }

    /// Running text.
    pub(super) fn body() -> Self {
        Self { size: 13.0, bold: false, colour: "#444", anchor: Anchor::Start }
    }

    /// The name of a curve.
    pub(super) fn label(colour: &'static str) -> Self {
        Self { size: 14.0, bold: true, colour, anchor: Anchor::Start }
    }

    /// Numbers of an axis.
    pub(super) fn small(colour: &'static str) -> Self {
        Self { size: 12.0, bold: false, colour, anchor: Anchor::Start }
    }

    /// Moves the text's anchor.
    pub(super) fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

/// Collects elements.
pub(super) struct Svg(String);

impl Svg {
    /// Starts a white picture.
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut svg = Self(String::new());
        svg.element(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif">"#
        ));
        svg.rectangle((0.0, 0.0), (width, height), "#ffffff");
        svg
    }

    /// Draws a filled rectangle from its upper left corner.
    pub(super) fn rectangle(&mut self, corner: (f64, f64), size: (f64, f64), fill: &str) {
        let ((x, y), (width, height)) = (corner, size);
        self.element(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"/>"#
        ));
    }

    /// Draws a straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.element(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// Draws a dashed line.
    pub(super) fn dashed(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        self.element(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="1" stroke-dasharray="6 4"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// Draws a line through points; one point becomes a dot, none nothing.
    pub(super) fn polyline(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        if let [(x, y)] = points {
            let radius = width;
            self.element(format_args!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{colour}"/>"#
            ));
        }
        if points.len() < 2 {
            return;
        }
        let mut path = String::new();
        for (x, y) in points {
            // Writing into a String cannot fail.
            let _ = write!(path, "{x:.1},{y:.1} ");
        }
        let path = path.trim_end();
        self.element(format_args!(
            r#"<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>"#
        ));
    }

    /// Writes a text.
    pub(super) fn text(&mut self, x: f64, y: f64, content: &str, text: Text) {
        let anchor = match text.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if text.bold { "bold" } else { "normal" };
        let content = safe(content);
        self.element(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{}" font-weight="{weight}" fill="{}" text-anchor="{anchor}" stroke="white" stroke-width="3" stroke-linejoin="round" paint-order="stroke">{content}</text>"#,
            text.size, text.colour
        ));
    }

    /// Ends the picture.
    pub(super) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    fn element(&mut self, element: core::fmt::Arguments<'_>) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "{element}");
    }
}

/// Writes a finished picture as `name` into a directory, which is made, and returns its path.
///
/// # Errors
/// Says which path could not be written, and why.
pub(super) fn write(directory: &Path, name: &str, picture: &str) -> Result<PathBuf, String> {
    let path = directory.join(name);
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, picture))
        .map_err(|error| format!("write {}: {error}", path.display()))?;
    Ok(path)
}
