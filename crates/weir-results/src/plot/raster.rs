//! PNG: the figure drawn larger than it will be, and averaged, because plotters' wide lines have
//! hard edges.

use plotters::prelude::*;

use super::pen::{self, Pen};
use super::{Figure, Format, PIXELS_MAX, PlotError, draw};

/// Pixels of the PNG for each of the layout.
const DENSITY: u32 = 2;
/// Drawn pixels, in each direction, for each of the PNG.
const OVERSAMPLING: u32 = 2;

pub(super) fn png(figure: &Figure, format: Format) -> Result<Vec<u8>, PlotError> {
    pen::fonts();
    let (width, height) = draw::file_size(figure, format);
    let scale = DENSITY * OVERSAMPLING;
    let drawn = (u64::from(width) * u64::from(scale), u64::from(height) * u64::from(scale));
    let is_small = drawn.0 * drawn.1 <= PIXELS_MAX;
    let (Ok(across), Ok(down), true) = (u32::try_from(drawn.0), u32::try_from(drawn.1), is_small)
    else {
        return Err(PlotError::TooLarge { width: drawn.0, height: drawn.1 });
    };
    let mut pixels = vec![255_u8; index(across) * index(down) * 3];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (across, down)).into_drawing_area();
        let done = draw::file(figure, format, &area, Pen(f64::from(scale)));
        debug_assert!(done.is_ok(), "nothing fails that is written to memory");
    }
    let pixels = averaged(&pixels, index(across), index(OVERSAMPLING));
    encode(&pixels, (across / OVERSAMPLING, down / OVERSAMPLING))
}

fn index(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Every `factor` by `factor` pixels as one, in red, green, blue.
fn averaged(pixels: &[u8], width: usize, factor: usize) -> Vec<u8> {
    let row_bytes = width * 3;
    let (across, down) = (width / factor, pixels.len() / row_bytes / factor);
    let mut small = Vec::with_capacity(across * down * 3);
    let count = u32::try_from(factor * factor).unwrap_or(1);
    for y in 0..down {
        for x in 0..across {
            for channel in 0..3 {
                let mut sum = count / 2;
                for dy in 0..factor {
                    let row = (y * factor + dy) * row_bytes;
                    for dx in 0..factor {
                        sum += u32::from(pixels[row + (x * factor + dx) * 3 + channel]);
                    }
                }
                small.push(u8::try_from(sum / count).unwrap_or(u8::MAX));
            }
        }
    }
    small
}

fn encode(pixels: &[u8], (width, height): (u32, u32)) -> Result<Vec<u8>, PlotError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let encode = |error: png::EncodingError| PlotError::Encode(error.to_string());
    let mut writer = encoder.write_header().map_err(encode)?;
    writer.write_image_data(pixels).map_err(encode)?;
    writer.finish().map_err(encode)?;
    Ok(file)
}
