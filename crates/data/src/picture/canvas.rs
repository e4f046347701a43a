//! A picture being worked on.
//!
//! Crops and flips are only noted: the next pass that writes pixels anyway (a resize, or the last write into the
//! slot) reads through them.

use smallvec::SmallVec;

use super::decode::{MOST_PIXELS, Picture, luma};
use super::resize::{From, Resizer};

/// Memory that transforms write into, used again for every picture.
#[derive(Default)]
pub(crate) struct Scratch {
    front: Vec<u8>,
    back: Vec<u8>,
    resizer: Resizer,
}

/// A part of a picture, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rect {
    pub x: usize,
    pub y: usize,
    pub width: usize,
    pub height: usize,
}

/// What the transforms so far have made of a picture.
pub(crate) struct Canvas<'a> {
    source: &'a [u8],
    /// The pixels are those of `scratch.front`, no longer the source's.
    own: bool,
    /// Pixels from one row to the next.
    stride: usize,
    channels: usize,
    view: Rect,
    flip_x: bool,
    flip_y: bool,
    erased: SmallVec<[(Rect, f32); 2]>,
    scratch: &'a mut Scratch,
}

impl<'a> Canvas<'a> {
    pub fn new(picture: &'a Picture, scratch: &'a mut Scratch) -> Result<Canvas<'a>, String> {
        let (width, height, channels) = (picture.width, picture.height, picture.channels);
        let wanted = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(channels));
        if wanted != Some(picture.pixels.len()) || picture.pixels.is_empty() || !matches!(channels, 1 | 3 | 4) {
            let have = picture.pixels.len();
            return Err(format!("{have} bytes are not a picture of {width}×{height} with {channels} channels"));
        }
        let view = Rect { x: 0, y: 0, width, height };
        let (flip_x, flip_y, erased) = (false, false, SmallVec::new());
        Ok(Canvas {
            source: &picture.pixels,
            own: false,
            stride: width,
            channels,
            view,
            flip_x,
            flip_y,
            erased,
            scratch,
        })
    }

    pub fn width(&self) -> usize {
        self.view.width
    }

    pub fn height(&self) -> usize {
        self.view.height
    }

    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Keeps a part, which lies inside.
    pub fn crop(&mut self, part: Rect) {
        let Rect { width, height, .. } = self.view;
        debug_assert!(part.x + part.width <= width && part.y + part.height <= height);
        self.view.x += if self.flip_x { width - part.x - part.width } else { part.x };
        self.view.y += if self.flip_y { height - part.y - part.height } else { part.y };
        (self.view.width, self.view.height) = (part.width, part.height);
    }

    /// Keeps `width × height` pixels from (left, top), which may lie outside: there it is black.
    pub fn crop_padded(&mut self, left: isize, top: isize, width: usize, height: usize) -> Result<(), String> {
        let inside = |at: isize, size: usize, room: usize| at >= 0 && at as usize + size <= room;
        if inside(left, width, self.width()) && inside(top, height, self.height()) {
            self.crop(Rect { x: left as usize, y: top as usize, width, height });
            return Ok(());
        }
        self.settle()?;
        let (from_width, from_height, c) = (self.width(), self.height(), self.channels);
        let back = room(&mut self.scratch.back, width, height, c)?;
        back.fill(0);
        // what of the old picture lies in the new one
        let (x0, x1) = ((-left).max(0), (from_width as isize - left).min(width as isize));
        for y in 0..height as isize {
            let from_y = y + top;
            if x0 < x1 && (0..from_height as isize).contains(&from_y) {
                let from = (from_y as usize * from_width + (x0 + left) as usize) * c;
                let to = (y as usize * width + x0 as usize) * c;
                let bytes = (x1 - x0) as usize * c;
                back[to..to + bytes].copy_from_slice(&self.scratch.front[from..from + bytes]);
            }
        }
        self.swap(width, height);
        Ok(())
    }

    pub fn flip_x(&mut self) {
        self.flip_x = !self.flip_x;
    }

    pub fn flip_y(&mut self) {
        self.flip_y = !self.flip_y;
    }

    /// Bilinear with antialiasing, as PIL does it; pixels outside the crop have no part in it.
    pub fn resize(&mut self, width: usize, height: usize) -> Result<(), String> {
        if (width, height) == (self.view.width, self.view.height) {
            return Ok(());
        }
        let Rect { x, y, width: from_width, height: from_height } = self.view;
        let Scratch { front, back, resizer } = &mut *self.scratch;
        let pixels = if self.own { &front[..] } else { self.source };
        let (channels, stride) = (self.channels, self.stride * self.channels);
        let to = room(back, width, height, channels)?;
        let pixels = &pixels[y * stride + x * channels..];
        resizer.resize(&From { pixels, stride, width: from_width, height: from_height, channels }, width, to);
        self.swap(width, height);
        Ok(())
    }

    /// The pixels one by one, in no promised order; `channels` bytes each.
    pub fn pixels_mut(&mut self) -> Result<&mut [u8], String> {
        if !self.own || (self.width() != self.stride) {
            let (flip_x, flip_y) = (std::mem::take(&mut self.flip_x), std::mem::take(&mut self.flip_y));
            self.settle()?;
            (self.flip_x, self.flip_y) = (flip_x, flip_y);
        }
        let (view, row) = (self.view, self.stride * self.channels);
        Ok(&mut self.scratch.front[view.y * row..(view.y + view.height) * row])
    }

    /// Replaces colours by their grey; with one channel left, or as many as before.
    pub fn grey(&mut self, one_channel: bool) -> Result<(), String> {
        let c = self.channels;
        if c == 1 {
            return Ok(());
        }
        let pixels = self.pixels_mut()?;
        if !one_channel {
            pixels.chunks_exact_mut(c).for_each(|p| {
                let grey = luma(p[0], p[1], p[2]);
                p[..3].fill(grey);
            });
            return Ok(());
        }
        let count = pixels.len() / c;
        for i in 0..count {
            pixels[i] = luma(pixels[i * c], pixels[i * c + 1], pixels[i * c + 2]);
        }
        let start = self.view.y * self.stride * c;
        self.scratch.front.copy_within(start..start + count, 0);
        self.scratch.front.truncate(count);
        (self.view.y, self.channels) = (0, 1);
        Ok(())
    }

    /// Writes every pixel anew from the picture as it is seen: `paint(picture, width, height, channels, back)`.
    pub fn repaint(&mut self, paint: impl FnOnce(&[u8], usize, usize, usize, &mut [u8])) -> Result<(), String> {
        self.settle()?;
        let (width, height, channels) = (self.width(), self.height(), self.channels);
        let back = room(&mut self.scratch.back, width, height, channels)?;
        paint(&self.scratch.front, width, height, channels, back);
        self.swap(width, height);
        Ok(())
    }

    /// Notes a part to be overwritten in the output, with a value in the output's unit.
    pub fn erase(&mut self, part: Rect, value: f32) {
        self.erased.push((part, value));
    }

    /// Writes `[channels, height, width]` values `byte · scale[c] + shift[c]`.
    pub fn write_f32(&self, scale: &[f32], shift: &[f32], out: &mut [f32]) {
        let plane = self.width() * self.height();
        let at = |c: usize| (scale[c % scale.len()], shift[c % shift.len()]);
        match self.channels {
            1 => {
                let (scale, shift) = at(0);
                self.write_planes([out], |_, byte| byte as i32 as f32 * scale + shift);
            }
            _ => {
                let (s, b) = ([at(0).0, at(1).0, at(2).0], [at(0).1, at(1).1, at(2).1]);
                let (red, rest) = out.split_at_mut(plane);
                let (green, blue) = rest.split_at_mut(plane);
                self.write_planes([red, green, blue], |c, byte| byte as i32 as f32 * s[c] + b[c]);
            }
        }
        self.paint_erased(out, |value| value);
    }

    /// Writes `[channels, height, width]` bytes.
    pub fn write_u8(&self, out: &mut [u8]) {
        let plane = self.width() * self.height();
        match self.channels {
            1 => self.write_planes([out], |_, byte| byte as u8),
            _ => {
                let (red, rest) = out.split_at_mut(plane);
                let (green, blue) = rest.split_at_mut(plane);
                self.write_planes([red, green, blue], |_, byte| byte as u8);
            }
        }
        self.paint_erased(out, |value| value.round().clamp(0.0, 255.0) as u8);
    }

    /// Turns pixels into planes, row by row, through the flips.
    #[inline(always)]
    fn write_planes<T, const N: usize>(&self, mut planes: [&mut [T]; N], value: impl Fn(usize, u32) -> T + Copy) {
        let Rect { x, y, width, height } = self.view;
        let (pixels, c) = (self.pixels(), self.channels);
        for row in 0..height {
            let from_y = y + if self.flip_y { height - 1 - row } else { row };
            let from = &pixels[(from_y * self.stride + x) * c..][..width * c];
            let mut to = planes.each_mut().map(|plane| &mut plane[row * width..(row + 1) * width]);
            match (c, self.flip_x) {
                (1, false) => write_row(from.as_chunks::<1>().0.iter().map(|p| p[0] as u32), &mut to, value),
                (1, true) => write_row(from.as_chunks::<1>().0.iter().rev().map(|p| p[0] as u32), &mut to, value),
                (3, false) => write_row(from.as_chunks::<3>().0.iter().map(rgb), &mut to, value),
                (3, true) => write_row(from.as_chunks::<3>().0.iter().rev().map(rgb), &mut to, value),
                (_, false) => write_row(from.as_chunks::<4>().0.iter().map(|p| u32::from_le_bytes(*p)), &mut to, value),
                (_, true) => {
                    write_row(from.as_chunks::<4>().0.iter().rev().map(|p| u32::from_le_bytes(*p)), &mut to, value)
                }
            }
        }
    }

    fn paint_erased<T: Copy>(&self, out: &mut [T], value: impl Fn(f32) -> T) {
        let (width, plane) = (self.width(), self.width() * self.height());
        for (part, fill) in &self.erased {
            for plane in out.chunks_exact_mut(plane) {
                for y in part.y..part.y + part.height {
                    plane[y * width + part.x..][..part.width].fill(value(*fill));
                }
            }
        }
    }

    fn pixels(&self) -> &[u8] {
        if self.own { &self.scratch.front } else { self.source }
    }

    /// Carries out the crop and the flips that wait; afterwards the picture is exactly `scratch.front`.
    fn settle(&mut self) -> Result<(), String> {
        let Rect { x, y, width, height } = self.view;
        let c = self.channels;
        if self.own
            && !self.flip_x
            && !self.flip_y
            && width == self.stride
            && self.scratch.front.len() == width * height * c
        {
            return Ok(());
        }
        let Scratch { front, back, .. } = &mut *self.scratch;
        let pixels = if self.own { &front[..] } else { self.source };
        let back = room(back, width, height, c)?;
        for (row, to) in back.chunks_exact_mut(width * c).enumerate() {
            let from_y = y + if self.flip_y { height - 1 - row } else { row };
            let from = &pixels[(from_y * self.stride + x) * c..][..width * c];
            if self.flip_x {
                for (from, to) in from.chunks_exact(c).rev().zip(to.chunks_exact_mut(c)) {
                    to.copy_from_slice(from);
                }
            } else {
                to.copy_from_slice(from);
            }
        }
        (self.flip_x, self.flip_y) = (false, false);
        self.swap(width, height);
        Ok(())
    }

    /// What was written to `back` is the picture now.
    fn swap(&mut self, width: usize, height: usize) {
        std::mem::swap(&mut self.scratch.front, &mut self.scratch.back);
        self.own = true;
        self.stride = width;
        self.view = Rect { x: 0, y: 0, width, height };
    }
}

#[inline(always)]
fn rgb(p: &[u8; 3]) -> u32 {
    u32::from_le_bytes([p[0], p[1], p[2], 0])
}

/// One row of pixels, packed as `r | g << 8 | b << 16`, to a row of each plane.
#[inline(always)]
fn write_row<T, const N: usize>(
    pixels: impl ExactSizeIterator<Item = u32>,
    to: &mut [&mut [T]; N],
    value: impl Fn(usize, u32) -> T,
) {
    match &mut to[..] {
        [grey] => {
            for (to, pixel) in grey.iter_mut().zip(pixels) {
                *to = value(0, pixel & 255);
            }
        }
        [red, green, blue] => {
            for (((red, green), blue), pixel) in red.iter_mut().zip(green.iter_mut()).zip(blue.iter_mut()).zip(pixels) {
                *red = value(0, pixel & 255);
                *green = value(1, pixel >> 8 & 255);
                *blue = value(2, pixel >> 16 & 255);
            }
        }
        _ => unreachable!("pictures have one plane or three"),
    }
}

/// Bytes for a picture; what they held is overwritten.
fn room(buffer: &mut Vec<u8>, width: usize, height: usize, channels: usize) -> Result<&mut [u8], String> {
    let pixels = width as u128 * height as u128;
    if pixels > MOST_PIXELS as u128 {
        return Err(format!("{width}×{height} pixels are more than the {MOST_PIXELS} that are taken"));
    }
    buffer.resize(pixels as usize * channels, 0);
    Ok(buffer)
}
