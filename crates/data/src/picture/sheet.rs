//! A contact sheet: some pictures of every class on one page, to look at what one has.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::canvas::{Canvas, Scratch};
use super::decode::{Channels, Picture};
use super::folder::Pictures;
use super::font;
use crate::error::DataError;
use crate::escape::Escaped;
use crate::whole::WholeFile;

const PAGE: [u8; 3] = [250, 250, 250];
const CELL: [u8; 3] = [232, 234, 237];
const INK: [u8; 3] = [32, 33, 36];
const FAINT: [u8; 3] = [95, 99, 104];
const BROKEN: [u8; 3] = [200, 60, 50];

/// Pixels of a thumbnail's side, between thumbnails, and around everything.
const SIDE: usize = 96;
const GAP: usize = 6;
const MARGIN: usize = 18;
/// Size of a dot of the letters, large and small.
const LARGE: usize = 2;
const SMALL: usize = 1;
const HEADER: usize = 44;
/// Longer names are cut.
const LONGEST: usize = 24;

/// Writes a PNG file with a row of `per_class` thumbnails for every class, beside its name; the whole file or nothing.
/// The answer is the pictures that could not be read, shown crossed out, and why.
pub fn contact_sheet(
    pictures: &dyn Pictures,
    per_class: usize,
    path: &Path,
) -> Result<Vec<(String, String)>, DataError> {
    let write = || {
        let mut file = WholeFile::create(path)?;
        let unreadable = Sheet::new(pictures, per_class.clamp(1, 256)).write(&mut file)?;
        file.finish().map(|()| unreadable)
    };
    write().map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, source: io::Error) -> DataError {
    DataError::Write { path: path.escaped(), problem: source.to_string() }
}

struct Sheet<'a> {
    pictures: &'a dyn Pictures,
    /// For each class how many there are, and which are shown.
    classes: Vec<(usize, Vec<usize>)>,
    names: Vec<String>,
    columns: usize,
    /// Where the thumbnails begin.
    left: usize,
}

impl<'a> Sheet<'a> {
    fn new(pictures: &'a dyn Pictures, per_class: usize) -> Sheet<'a> {
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); pictures.labels().len()];
        for i in 0..pictures.len() {
            if let Some(class) = members.get_mut(pictures.label(i) as usize) {
                class.push(i);
            }
        }
        let spread = |members: &Vec<usize>| {
            let shown = per_class.min(members.len());
            (members.len(), (0..shown).map(|k| members[k * members.len() / shown]).collect())
        };
        let classes: Vec<(usize, Vec<usize>)> = members.iter().map(spread).collect();
        let names: Vec<String> = pictures.labels().iter().map(|name| cut(name)).collect();
        let columns = classes.iter().map(|(_, shown)| shown.len()).max().unwrap_or(0).max(1);
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(8);
        Sheet { pictures, classes, names, columns, left: MARGIN + longest * font::ACROSS * LARGE + MARGIN }
    }

    fn write(&self, to: &mut WholeFile) -> io::Result<Vec<(String, String)>> {
        let width = self.left + self.columns * (SIDE + GAP) - GAP + MARGIN;
        let height = HEADER + self.classes.len() * (SIDE + GAP) + MARGIN;
        let mut encoder = ::png::Encoder::new(BufWriter::new(to), width as u32, height as u32);
        encoder.set_color(::png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        let mut rows = writer.stream_writer()?;
        let mut unreadable = Vec::new();

        let mut header = Band::new(width, HEADER);
        let title = self.pictures.name();
        header.text(&cut(title), MARGIN, MARGIN, LARGE, INK);
        let counts = format!("{} pictures in {} classes", self.pictures.len(), self.classes.len());
        let beside = MARGIN + (cut(title).chars().count() + 2) * font::ACROSS * LARGE;
        header.text(&counts, beside.max(self.left), MARGIN + (LARGE - SMALL) * font::DOWN, SMALL, FAINT);
        rows.write_all(&header.pixels)?;

        let mut scratch = Scratch::default();
        for ((count, shown), name) in self.classes.iter().zip(&self.names) {
            let mut band = Band::new(width, SIDE + GAP);
            let middle = SIDE / 2 - font::DOWN * LARGE;
            band.text(name, MARGIN, middle, LARGE, INK);
            band.text(&count.to_string(), MARGIN, middle + font::DOWN * LARGE + 8, SMALL, FAINT);
            for (column, i) in shown.iter().enumerate() {
                let x = self.left + column * (SIDE + GAP);
                band.fill(x, 0, SIDE, SIDE, CELL);
                let thumbnail = self.pictures.load(*i, Channels::Rgb);
                let thumbnail = thumbnail.map_err(|error| error.to_string());
                match thumbnail.and_then(|picture| shrink(&picture, &mut scratch)) {
                    Ok(small) => band.picture(&small, x),
                    Err(problem) => {
                        band.cross(x);
                        unreadable.push((self.pictures.path(*i), problem));
                    }
                }
            }
            rows.write_all(&band.pixels)?;
        }
        rows.write_all(&Band::new(width, MARGIN).pixels)?;
        rows.finish()?;
        writer.finish()?;
        Ok(unreadable)
    }
}

/// A picture that fits a thumbnail; a tiny one keeps its pixels, each made larger.
fn shrink(picture: &Picture, scratch: &mut Scratch) -> Result<Picture, String> {
    let (w, h) = (picture.width, picture.height);
    let longer = w.max(h);
    let enlarge = SIDE / longer.max(1);
    if enlarge >= 2 {
        let at = |x: usize, y: usize| &picture.pixels[((y / enlarge) * w + x / enlarge) * 3..][..3];
        let (width, height) = (w * enlarge, h * enlarge);
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| at(x, y).iter().copied())).collect();
        return Ok(Picture { width, height, channels: 3, pixels });
    }
    let side = |of: usize| ((of as f64 * SIDE as f64 / longer as f64).round() as usize).clamp(1, SIDE);
    let mut canvas = Canvas::new(picture, scratch)?;
    canvas.resize(side(w), side(h))?;
    let pixels = canvas.pixels_mut()?.to_vec();
    Ok(Picture { width: side(w), height: side(h), channels: 3, pixels })
}

fn cut(name: &str) -> String {
    match name.chars().count() > LONGEST {
        true => name.chars().take(LONGEST - 2).chain("..".chars()).collect(),
        false => name.to_owned(),
    }
}

/// Some rows of the page.
struct Band {
    width: usize,
    pixels: Vec<u8>,
}

impl Band {
    fn new(width: usize, height: usize) -> Band {
        Band { width, pixels: PAGE.repeat(width * height) }
    }

    /// A rectangle; what lies beyond the band is not drawn.
    fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: [u8; 3]) {
        let end = (x + width).min(self.width);
        for row in self.pixels.chunks_exact_mut(self.width * 3).skip(y).take(height) {
            row.get_mut(x * 3..end * 3).into_iter().for_each(|run| run.as_chunks_mut().0.fill(colour));
        }
    }

    fn text(&mut self, text: &str, x: usize, y: usize, dot: usize, colour: [u8; 3]) {
        font::draw(text, |column, row| self.fill(x + column * dot, y + row * dot, dot, dot, colour));
    }

    /// In the middle of a cell that begins at `x`.
    fn picture(&mut self, picture: &Picture, x: usize) {
        let (x, y) = (x + (SIDE - picture.width) / 2, (SIDE - picture.height) / 2);
        for (row, from) in picture.pixels.chunks_exact(picture.width * 3).enumerate() {
            let at = ((y + row) * self.width + x) * 3;
            self.pixels[at..at + from.len()].copy_from_slice(from);
        }
    }

    fn cross(&mut self, x: usize) {
        for i in SIDE / 4..SIDE - SIDE / 4 {
            self.fill(x + i, i, 2, 2, BROKEN);
            self.fill(x + SIDE - 1 - i, i, 2, 2, BROKEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::picture::{Grid, Layout, PictureFolder, decode};

    #[test]
    fn a_row_per_class() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sheet.png");
        let pixels = [[200u8; 16], [10; 16], [90; 16]].concat();
        let labels = vec!["dark".into(), "a name that is far too long to be shown".into()];
        let grid = Grid::new("greys", [4, 4, 1], Layout::Hwc, pixels, vec![1, 0, 1], labels).unwrap();
        assert!(contact_sheet(&grid, 8, &path).unwrap().is_empty());
        let page = decode(&fs::read(&path).unwrap(), Channels::Rgb).unwrap();
        assert_eq!(page.height, HEADER + 2 * (SIDE + GAP) + MARGIN);
        let left = MARGIN + LONGEST * font::ACROSS * LARGE + MARGIN;
        let at = |column: usize, row: usize| {
            let (x, y) = (left + column * (SIDE + GAP) + SIDE / 2, HEADER + row * (SIDE + GAP) + SIDE / 2);
            page.pixels[(y * page.width + x) * 3]
        };
        assert_eq!((at(0, 0), at(0, 1), at(1, 1), at(1, 0)), (10, 200, 90, PAGE[0]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn broken_pictures_are_crossed_out_and_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("p/a")).unwrap();
        fs::write(dir.path().join("p/a/1.jpg"), b"no").unwrap();
        let folder = PictureFolder::open(dir.path().join("p")).unwrap();
        let unreadable = contact_sheet(&folder, 3, &dir.path().join("s.png")).unwrap();
        assert!(unreadable[0].0.ends_with("1.jpg") && unreadable[0].1.contains("not a picture"), "{unreadable:?}");
        let error = contact_sheet(&folder, 3, &dir.path().join("nowhere/s.png")).unwrap_err().to_string();
        assert!(error.contains("nowhere/s.png: cannot be written"), "{error}");
    }
}
